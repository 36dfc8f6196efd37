"""The house: which room may import which, what stays out until it is asked for, and sizes one can read."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import transom
from transom.cli import COMMANDS
from transom.names import AXES

HOUSE = Path(transom.__file__).parent
MODULES = sorted(HOUSE.rglob("*.py"))
# From top to bottom: a room imports only from rooms above it, and from itself.
ROOMS = [
    "names",
    "files",
    "equations",
    "kernels",
    "layers",
    "models",
    "text",
    "run",
    "lens",
    "lessons",
    "show",
    "serve",
    "cli",
]
APART = {"lens": {"models"}}  # looking works on any PyTorch model, so it knows none of ours
WITHOUT_TORCH = {"names", "files", "show", "serve", "cli"}  # at import time
SHAPED = {"Float", "Float32", "Float64", "Int", "Integer", "Bool", "Shaped", "Num", "Inexact", "Complex", "UInt8"}
NO_IDEA = {"utils", "util", "helpers", "helper", "common", "base", "misc", "manager"}


def named(path: Path) -> str:
    return str(path.relative_to(HOUSE))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room(module: str) -> str:
    """`transom.lens.sight` and `transom.sight` are in the room `lens`; the package itself is in none."""
    first = module.removeprefix("transom.").split(".")[0]
    if module.startswith("transom.") and first in transom.HOMES:
        return room(f"{transom.HOMES[first]}.{first}")
    return first if module.startswith("transom.") and first in ROOMS else ""


def home(path: Path) -> str:
    first = path.relative_to(HOUSE).parts[0]
    return "cli" if first == "__main__.py" else "" if first == "__init__.py" else first.removesuffix(".py")


def imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """The full name of everything that is imported, `from transom import lens` included."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: not in functions, not for the type checker alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            continue
        yield child
        yield from at_import_time(child)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a module with its length in lines."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def alone(code: str) -> str:
    """What a new Python prints, free of all that the tests have imported."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("path", [path for path in MODULES if home(path)], ids=named)
def test_a_room_imports_only_from_rooms_above_it(path):
    own, names = home(path), set(imported(ast.walk(tree(path))))
    above = set(ROOMS[: ROOMS.index(own)]) - APART.get(own, set())
    assert {room(name) for name in names} - {"", own} <= above
    assert own == "cli" or "transom" not in names, "only a command may reach the rooms through the package"


@pytest.mark.parametrize("path", [path for path in MODULES if home(path) in WITHOUT_TORCH], ids=named)
def test_torch_is_left_out_at_import_time(path):
    names = set(imported(at_import_time(tree(path))))
    assert not {name for name in names if name.split(".")[0] in {"torch", "numpy", "jaxtyping"}}
    assert {room(name) for name in names} - {""} <= WITHOUT_TORCH


def test_every_room_is_in_the_list():
    assert {home(path) for path in MODULES} - {""} <= set(ROOMS)


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_answers_without_torch(words):
    code = f"""
import sys
from transom.cli import main
assert main({[*words, "--help"]}) == 0
print("loaded:", sorted({{"torch", "numpy", "jaxtyping"}} & set(sys.modules)))
"""
    assert alone(code).splitlines()[-1] == "loaded: []"


def test_import_transom_leaves_torch_for_later():
    assert alone("import sys, transom; print('torch' in sys.modules)") == "False\n"


def test_attending_needs_no_web_server_and_no_hub():
    others = ["starlette", "uvicorn", "transformers", "huggingface_hub", "typer", "rich"]
    code = f"import sys, transom; transom.attend, transom.sight; print(sorted(set({others}) & set(sys.modules)))"
    assert alone(code) == "[]\n"


@pytest.mark.parametrize("name", transom.__all__)
def test_every_public_name_can_be_fetched_and_is_listed(name):
    assert getattr(transom, name) is not None
    assert name in dir(transom)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError) as caught:
        transom.atend  # noqa: B018
    assert str(caught.value) == f"transom has no 'atend'; it has {', '.join(transom.__all__)}"


def shapes(path: Path) -> Iterator[str]:
    """Each shape in a jaxtyping annotation."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in SHAPED:
            assert isinstance(node.slice, ast.Tuple), ast.unparse(node)
            assert isinstance(node.slice.elts[1], ast.Constant), ast.unparse(node)
            yield str(node.slice.elts[1].value)


def axis_words(shape: str) -> set[str]:
    """The words of a shape: `"#batch *any2 {heads} 1 ..."` has batch, any and heads."""
    return {word.strip("*#?{}").rstrip("0123456789") for word in shape.split() if word != "..."} - {""}


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("batch heads d_head", {"batch", "heads", "d_head"}),
        (" #batch *any any2", {"batch", "any"}),
        ("... {kv_heads} 1 ?token", {"kv_heads", "token"}),
        ("", set()),
    ],
)
def test_axis_words_are_read_out_of_a_shape(shape, words):
    assert axis_words(shape) == words


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_every_axis_word_is_in_the_list_of_names(path):
    unknown = {word for shape in shapes(path) for word in axis_words(shape)} - set(AXES)
    assert not unknown


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_a_file_is_short_and_named_after_an_idea(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300
    assert not set(path.relative_to(HOUSE).with_suffix("").parts) & NO_IDEA


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_a_function_fits_a_screen(path):
    assert not {name: lines for name, lines in functions(path) if lines > 60}
