"""The page in one file: its modules as one script, its style and its icon inside, and a policy that names them."""

import base64
import re
from importlib.resources import files

from transom.names import Misfit
from transom.show.page import hashed

IMPORT = re.compile(r'^import (?:\{ (?P<names>[^}]+) \} from )?"\./(?P<file>\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function) (?P<name>\w+))", re.MULTILINE)
FIRST = "app"


def one_file(taken: str, title: str) -> str:
    """A page that asks no server and loads nothing; `taken` are the answers it needs, in letters of base64."""
    script, style = bundled(), static("style.css")
    icon = f"data:image/svg+xml;base64,{base64.b64encode(static('icon.svg').encode()).decode()}"
    policy = f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(style)}; img-src data:"
    given = {
        '<meta charset="utf-8">': '<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="'
        f"{policy}; base-uri 'none'; form-action 'none'\">",
        '<link rel="stylesheet" href="style.css">': f"<style>{style}</style>",
        '<script type="module" src="app.js"></script>\n': "",
        "<title>Transom: a window into self-attention</title>": f"<title>{title}</title>",
        "</body>": f'<script type="application/octet-stream" id="taken">{taken}</script>\n'
        f"<script>{script}</script>\n</body>",
    }
    page = static("index.html").replace("icon.svg", icon)
    for before, after in given.items():
        assert page.count(before) == 1, before
        page = page.replace(before, after)
    return page


def static(name: str) -> str:
    return (files("transom.serve") / "static" / name).read_text(encoding="utf-8")


def bundled() -> str:
    """Every module as a function that is called once, after those it imports from; none of its names is seen by others
    unless it exports them."""
    found: dict[str, str] = {}
    add(FIRST, found, ())
    return plain("\n".join(["(() => {", '"use strict";', *found.values(), "})();"]))


def plain(script: str) -> str:
    """With every sign beyond ASCII by its number: where a notebook mistakes the encoding, the hash still holds."""
    units = script.encode("utf-16-be", "surrogatepass")
    signs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(sign) if sign < 128 else f"\\u{sign:04x}" for sign in signs)


def add(name: str, found: dict[str, str], above: tuple[str, ...]) -> None:
    """A module, after all that it imports."""
    if name in above:
        raise Misfit(f"modules import one another in a circle: {' → '.join([*above, name])}; move what they share")
    if name in found:
        return
    source = static(f"{name}.js")
    for one in IMPORT.finditer(source):
        add(one["file"], found, (*above, name))
    exported = ", ".join(one["name"] for one in EXPORT.finditer(source))
    body = EXPORT.sub("", IMPORT.sub(taken_from, source))
    found[name] = f"const in_{name} = (() => {{\n{body}return {{ {exported} }};\n}})();"


def taken_from(one: re.Match[str]) -> str:
    """`import { a as b }` of a module as a constant from what that module gave."""
    return "" if one["names"] is None else f"const {{ {one['names'].replace(' as ', ': ')} }} = in_{one['file']};\n"
