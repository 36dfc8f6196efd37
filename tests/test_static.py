"""The page's JavaScript and CSS: as short and as narrow as the Python, and nothing in them that nobody uses."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import transom
from transom.serve.offline_page import IMPORT, LATER, read_static, resolve_import

STATIC = Path(transom.__file__).parent / "serve" / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
# What a page or a browser's thread begins with: the server's page, and those of the site.
LATER_VIEWS = [match["file"][2:] for match in LATER.finditer(read_static("app.js"))]
STARTS = ("app", *LATER_VIEWS, "engine/site_start", "engine/engine_worker", "engine/offline_worker")
WIDEST, LONGEST_FILE, LONGEST_FUNCTION = 120, 200, 40
# A name before brackets that is not called or declared by them.
NOT_A_FUNCTION = {"if", "for", "while", "switch", "catch"}
SIGNS = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL
)
# A slash begins a regular expression only where a value is expected.
BEFORE_REGEX = re.compile(r"(?:^|[(,=:\[!&|?{};\n]|=>|\breturn)\s*$")
REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/\w*")
TEMPLATE = re.compile(r"[`}](?:\\.|\$(?!\{)|[^`\\$])*(?:`|\$\{)", re.DOTALL)


def code_only(source: str) -> str:
    """The source with comments, strings and regular expressions blank; what is between ${ and } of a string stays."""
    found, place, open_braces = "", 0, []  # of each ${ that is open: how many braces are open in it
    while place < len(source):
        sign = source[place]
        text = SIGNS.match(source, place)
        if text is None and sign == "/" and BEFORE_REGEX.search(found[-40:]):
            text = REGEX.match(source, place)
        if sign == "`" or (sign == "}" and open_braces and open_braces[-1] == 0):
            if sign == "}":
                open_braces.pop()
            text = TEMPLATE.match(source, place)
            assert text is not None, source[place : place + 40]
            if text[0].endswith("${"):
                open_braces.append(0)
        if text is not None:
            found += re.sub(r"[^\n]", " ", text[0])
            place = text.end()
            continue
        if open_braces:
            open_braces[-1] += {"{": 1, "}": -1}.get(sign, 0)
        found += sign
        place += 1
    return found


def opener(code: str, closing: int) -> int:
    """Where the bracket was opened that is closed here."""
    depth = 0
    for place in range(closing, -1, -1):
        depth += {")": 1, "(": -1}.get(code[place], 0)
        if depth == 0:
            return place
    raise AssertionError("brackets do not match")


def is_body(code: str, brace: int) -> bool:
    """Whether a brace opens a function: after an arrow, or after the arguments of something that has a name."""
    before = code[:brace].rstrip()
    if before.endswith("=>"):
        return True
    if not before.endswith(")"):
        return False
    name = re.search(r"([\w$]+)\s*$", before[: opener(before, len(before) - 1)])
    return name is not None and name[1] not in NOT_A_FUNCTION


def functions(source: str) -> Iterator[tuple[int, int]]:
    """First line and number of lines of each function that has a body in braces."""
    code, open_braces = code_only(source), []
    for place, sign in enumerate(code):
        if sign == "{":
            open_braces.append(place)
        elif sign == "}":
            brace = open_braces.pop()
            if is_body(code, brace):
                first, last = (code.count("\n", 0, one) for one in (brace, place))
                yield first + 1, last - first + 1
    assert not open_braces, "braces do not match"


MEASURED = """
const one = (a) => ({ b: `${[a].map((c) => {
  return `}${c}{`;
})}` });
// function not(this) {
class Two {
  three(x = "{") {
    if (/[/}]{2}/.test(x)) {
      for (const y of x) {
        four(y, { z: 1 });
      }
    }
  }

  get five() {
    return 6 / 3 / 2;
  }
}
async function six({ a, b }) {
  return a;
}
"""


def test_the_measure_itself():
    assert sorted(functions(MEASURED)) == [(2, 3), (7, 7), (15, 3), (19, 3)]
    assert "not" not in code_only(MEASURED)
    long = "function f() {\n" + "  g();\n" * 40 + "}\n"
    assert list(functions(long)) == [(1, 42)]


def test_there_are_functions_to_measure():
    assert len(SCRIPTS) > 20
    assert sum(len(list(functions(path.read_text(encoding="utf-8")))) for path in SCRIPTS) > 200


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_short(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= LONGEST_FILE
    assert [line for line in functions(source) if line[1] > LONGEST_FUNCTION] == []


@pytest.mark.parametrize(
    "path", [*SCRIPTS, *sorted(STATIC.rglob("*.css")), *sorted(STATIC.glob("*.html"))], ids=lambda path: path.name
)
def test_no_line_is_wide(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > WIDEST] == []


def test_every_script_is_reached_from_the_page():
    """By imports that the bundler of the offline page can follow."""
    reached, rest = set(), list(STARTS)
    while rest:
        name = rest.pop()
        if name not in reached:
            reached.add(name)
            source = (STATIC / f"{name}.js").read_text(encoding="utf-8")
            rest += [resolve_import(name, match["file"]) for match in IMPORT.finditer(source)]
            assert len(re.findall(r"^import ", source, re.MULTILINE)) == len(list(IMPORT.finditer(source))), name
    assert reached == {path.relative_to(STATIC).with_suffix("").as_posix() for path in SCRIPTS}


def test_every_class_of_the_style_is_used():
    styles = "".join(path.read_text(encoding="utf-8") for path in STATIC.rglob("*.css"))
    style = re.sub(r"/\*.*?\*/", "", styles, flags=re.DOTALL)
    names = set(re.findall(r"[.#]([a-z][\w-]*)(?=[^{};]*\{)", style))
    python = (Path(transom.__file__).parent / "show").rglob("*.py")
    users = [*SCRIPTS, STATIC / "index.html", *python]
    used = " ".join(path.read_text(encoding="utf-8") for path in users)
    unused = {name for name in names if not re.search(rf"(?<![\w-]){name}(?![\w-])", used)}
    assert unused == set()
