"""The C++ keeps to the limits that the Python keeps to, and its structs are the ones that Python hands over."""

import ctypes
import re
from pathlib import Path

import pytest

from transom.kernels import native_library

ROOT = Path(__file__).parent.parent
NATIVE = ROOT / "src/transom/kernels/native"
SOURCES = {path.name: path for path in [*NATIVE.glob("*.[ch]pp"), *(ROOT / "tests/kernels/native").glob("*.cpp")]}

MOST_COLUMNS = 120
MOST_LINES = 300  # of a file
MOST_FUNCTION_LINES = 40  # signature and closing brace included

# Comments, strings, characters and lines of the preprocessor: a brace in them is none.
NOT_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M | re.S
)
SCOPE = re.compile(r"(?:^|[\s>])(?:namespace|struct|class|union|enum|extern)\b[^(]*$")


def blank_non_code(text: str) -> str:
    """The text with spaces in place of everything but code: each line stays where it was."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def function_lines(text: str) -> dict[str, int]:
    """The lines of each function, by its signature; those of a lambda count for the function around it."""
    code, lengths = blank_non_code(text), {}
    open_braces: list[tuple[str, str, int]] = []  # what each begins (scope, function, values), its head and first line
    head = 0  # where the text before the next brace begins
    for place, sign in (
        (found.start(), found[0]) for found in re.finditer(r"[{};]|\b(?:public|private|protected):", code)
    ):
        if sign == "{":
            before = code[head:place]
            around = open_braces[-1][0] if open_braces else "scope"
            first = head + len(before) - len(before.lstrip())
            open_braces.append((brace_kind(before, around), " ".join(before.split()), code.count("\n", 0, first)))
        elif sign == "}":
            kind, signature, first = open_braces.pop()
            if kind == "function":
                lines = code.count("\n", 0, place) - first + 1
                lengths[signature] = max(lines, lengths.get(signature, 0))  # two classes may have the same one
        head = place + len(sign)
    if open_braces:
        raise ValueError(f"{len(open_braces)} braces are not closed")
    return lengths


def brace_kind(head: str, around: str) -> str:
    """What a brace begins, by the text before it and by what it stands in."""
    if around != "scope":
        return "values"  # or a statement: what is in a function is measured with it
    if not head.strip():
        raise ValueError("a brace that begins nothing")
    if SCOPE.search(head):
        return "scope"
    return "function" if "(" in head else "values"


SAMPLE = """\
#include <vector>
#define OPENS {
namespace transom {

typedef float Floats __attribute__((vector_size(16)));  // a comment with {

struct Pair {
    Floats sum{}, other{};
    const char* name = "a } in a string";

    explicit Pair(int first)
        : first(first), second(2) {
        if (first) second = '{';
    }

  private:
    int twice() const { return 2 * first; }
};

struct Three {
    int twice() const {
        return 6;
    }
};

/* { */
template <class Visit>
static void visit_all(
    const Visit& visit, int count
) {
    auto one = [&](int i) {
        visit(i);
    };
#if defined(__AVX2__)
    for (int i = 0; i < count; i++) {
        one(i);
    }
#endif
}

const int SIZES[][2] = {
    {1, 2},
    {3, 5},
};

}  // namespace transom

extern "C" {
int transom_lanes() { return 4; }
}
"""


def test_functions_are_measured_from_their_signature_to_their_last_brace():
    assert function_lines(SAMPLE) == {
        "explicit Pair(int first) : first(first), second(2)": 4,
        "int twice() const": 3,
        "template <class Visit> static void visit_all( const Visit& visit, int count )": 13,
        "int transom_lanes()": 1,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [("int one() {\n", "1 braces are not closed"), ("int x;\n{\n}\n", "a brace that begins nothing")],
)
def test_code_that_cannot_be_measured_is_an_error(text, said):
    with pytest.raises(ValueError) as error:
        function_lines(text)
    assert str(error.value) == said


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_keeps_to_the_limits(name):
    text = SOURCES[name].read_text(encoding="utf-8")
    lines = text.splitlines()
    assert [line for line in lines if len(line) > MOST_COLUMNS or line != line.rstrip() or "\t" in line] == []
    assert len(lines) <= MOST_LINES
    assert {head: length for head, length in function_lines(text).items() if length > MOST_FUNCTION_LINES} == {}


def test_every_function_is_found():
    """Every C function that Python calls is among those that are measured."""
    heads = " ".join(head for path in SOURCES.values() for head in function_lines(path.read_text(encoding="utf-8")))
    called = {name for path in (ROOT / "src/transom/kernels").glob("*.py") for name in SYMBOL.findall(path.read_text())}
    assert {"transom_forward", "transom_decode_step"} <= called
    assert [name for name in sorted(called) if f" {name}(" not in heads] == []


SYMBOL = re.compile(r"\btransom_\w+(?=[(,.\"])")


def structs() -> list[tuple[str, str]]:
    """Every struct and class, with what is in it."""
    code = blank_non_code("\n".join(path.read_text(encoding="utf-8") for path in NATIVE.glob("*.hpp")))
    return re.findall(r"^(?:struct|class) (\w+) \{\n(.*?)^\};", code, re.M | re.S)


def test_a_struct_name_is_used_once():
    names = [name for name, _ in structs()]
    assert "ForwardRowBlock" in names
    assert sorted(names) == sorted(set(names))


MIRRORS = {
    re.findall(r"`struct (\w+)`", mirror.__doc__ or "")[0]: mirror
    for mirror in vars(native_library).values()
    if isinstance(mirror, type) and issubclass(mirror, ctypes.Structure)
}


@pytest.mark.parametrize("name", MIRRORS)
def test_python_hands_over_the_fields_of_the_struct(name):
    """By name and in order: to set a field by another name raises no error, and C++ never sees it."""
    body = re.sub(r"^    \S[^;]*\{.*", "", dict(structs())[name], flags=re.M)  # without functions
    fields = re.findall(r"(\w+)(?:\[\d\])?(?=[,;])", body)
    assert fields == [field[0] for field in MIRRORS[name]._fields_]


def test_all_structs_of_the_interface_are_compared():
    assert {"AttentionParams", "ForwardResult", "BackwardParams", "OrMaskParams", "MapWindow"} <= set(MIRRORS)
    assert {"Program", "Operation", "SlotTable"} <= set(MIRRORS)
