"""The house: which room may import which, what stays out until it is asked for, and sizes one can read."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import transom
from transom import kernels
from transom.cli import COMMANDS
from transom.names import AXES

HOUSE = Path(transom.__file__).parent
ROOT = Path(__file__).parents[1]
MODULES = sorted(HOUSE.rglob("*.py"))
SCRIPTS = sorted([*(ROOT / "bench").rglob("*.py"), *(ROOT / "docs").glob("*.py")])
# From the ground up, as in the picture of MAP.md: a room imports only from rooms below it, and from itself.
ROOMS = [
    "names",
    "files",
    "equations",
    "kernels",
    "layers",
    "models",
    "text",
    "training",
    "lens",
    "runner",
    "lessons",
    "show",
    "serve",
    "cli",
]
APART = {"lens": {"models", "text", "training"}}  # looking works on any PyTorch model, so it knows none of ours
LENS_FROM_LAYERS = {"positions", "projections"}  # of layers it knows only what it must recognise in a model
WITHOUT_TORCH = {"names", "files", "runner", "show", "serve", "cli"}  # at import time
# Inside a room: each part with the parts of the room that it may import. Parts that are not listed are free.
PARTS = {
    "lens": {
        "attention": "",
        "storage": "attention",
        "trace": "attention storage",
        "capture": "attention storage trace",
        "ablation": "attention storage trace capture",
        "attribution": "attention storage trace capture ablation",
        "metrics": "attention trace",
        "replay": "attention storage trace capture",
    },
    "models": {
        "config": "position_ids",
        "position_ids": "config",
        "generation": "config position_ids",
        "generation.fast": "config position_ids generation",
        "decoder": "config position_ids generation generation.fast encoder_decoder",
        "encoder_decoder": "config position_ids generation generation.fast decoder",
    },
    "layers": {
        "checks": "",
        "position_encoding": "checks",
        "positions": "checks position_encoding",
        "kv_cache": "checks position_encoding",
        "projections": "checks position_encoding",
        "dropout": "checks position_encoding",
        "embedding": "checks position_encoding dropout",
        "feed_forward": "checks position_encoding dropout projections",
        "attention": "checks position_encoding dropout kv_cache projections",
        "blocks": "checks position_encoding dropout kv_cache projections attention feed_forward",
    },
    "training": {
        "dataset": "evaluation_metrics recipe task",
        "evaluation_metrics": "dataset recipe task",
        "recipe": "dataset evaluation_metrics task",
        "task": "dataset evaluation_metrics recipe",
        "tasks": "dataset evaluation_metrics recipe task",
        "evaluate": "dataset evaluation_metrics recipe task tasks train",
        "train": "dataset evaluation_metrics recipe task tasks evaluate",
    },
    "lessons": {
        "steps": "step_builders toml_source",
        "step_builders": "steps toml_source",
        "toml_source": "steps step_builders",
        "experiments": "steps step_builders toml_source",
        "head_steps": "steps step_builders",
        "lesson_setup": "steps step_builders toml_source head_steps",
        "compute": "steps step_builders toml_source head_steps lesson_setup",
        "lesson": "steps step_builders toml_source head_steps lesson_setup compute experiments lesson_file",
        "lesson_file": "steps step_builders toml_source head_steps lesson_setup compute experiments lesson",
    },
    "show": {
        "formatting": "",
        "colours": "formatting",
        "svg_canvas": "formatting colours",
        "panels": "formatting colours svg_canvas",
        "html_page": "formatting colours svg_canvas panels",
        "picture": "formatting colours svg_canvas panels html_page",
        "lesson_sight": "formatting",
        "selected_head": "formatting colours svg_canvas panels html_page picture lesson_sight",
        "views": "formatting colours svg_canvas panels html_page picture lesson_sight selected_head",
    },
}
# Modules named by a string in a lower room, with what needs them.
NAMED_BY_STRING = {
    ("", "show.views"): "Drawable.drawn_by: a Sight, a Trace or a lesson shows itself",
    ("", "serve.offline_page"): "Drawable.paged_by: a Trace gives its page",
}
SHAPED = {"Float", "Float32", "Float64", "Int", "Integer", "Bool", "Shaped", "Num", "Inexact", "Complex", "UInt8"}
NO_IDEA = {"utils", "util", "helpers", "helper", "common", "base", "misc", "manager"}


def named(path: Path) -> str:
    return str(path.relative_to(HOUSE if path.is_relative_to(HOUSE) else ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room(module: str) -> str:
    """`transom.lens.attention.sight` and `transom.sight` are in the room `lens`; the package itself is in none."""
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


def dotted(path: Path) -> str:
    """`lens/attention/sight.py` as `lens.attention.sight`, and a package by its own name."""
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph() -> dict[str, set[str]]:
    """Each module with the modules of the package that it imports: at once, lazily, or for the type checker alone."""
    known = {dotted(path) for path in MODULES}
    graph: dict[str, set[str]] = {}
    for path in MODULES:
        names = [
            name.removeprefix("transom.") for name in imported(ast.walk(tree(path))) if name.startswith("transom.")
        ]
        found = {name if name in known else name.rpartition(".")[0] for name in names}
        graph[dotted(path)] = (found & known) - {"", dotted(path)}
    return graph


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """All that a module imports, by whatever way round."""
    found, waiting = set(), [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def part_of(room: str, module: str) -> str:
    """The listed part of a room that a module belongs to: that with the longest name; "" for none."""
    inside = module.removeprefix(f"{room}.")
    fits = [part for part in PARTS[room] if f"{inside}.".startswith(f"{part}.")]
    return max(fits, key=len, default="") if module.startswith(f"{room}.") else ""


def named_modules(path: Path) -> set[str]:
    """The modules of the package that strings of a file name, below a room or as one."""
    known = {dotted(module) for module in MODULES}
    strings = {node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant)}
    named = {one.removeprefix("transom.") for one in strings if isinstance(one, str) and one.startswith("transom.")}
    return (named & known) - {""}


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
def test_a_room_imports_only_from_rooms_below_it(path):
    own, names = home(path), set(imported(ast.walk(tree(path))))
    below = set(ROOMS[: ROOMS.index(own)]) - APART.get(own, set())
    assert {room(name) for name in names} - {"", own} <= below
    assert own == "cli" or "transom" not in names, "only a command may reach the rooms through the package"


@pytest.mark.parametrize("path", [path for path in MODULES if home(path) == "lens"], ids=named)
def test_lens_takes_from_layers_only_what_it_must_recognise(path):
    names = {name.split(".")[2] for name in imported(ast.walk(tree(path))) if name.startswith("transom.layers.")}
    assert names <= LENS_FROM_LAYERS


def test_a_part_of_a_room_imports_only_the_parts_it_may():
    graph = import_graph()
    found = set()
    for module, targets in graph.items():
        own = module.split(".")[0]
        part = part_of(own, module) if own in PARTS else ""
        if part:
            allowed = {"", part, *PARTS[own][part].split()}
            found |= {(module, target) for target in targets if part_of(own, target) not in allowed}
    assert not found


@pytest.mark.parametrize("room", PARTS)
def test_every_listed_part_of_a_room_exists(room):
    known = {dotted(path) for path in MODULES}
    listed = set(PARTS[room]).union(*(parts.split() for parts in PARTS[room].values()))
    assert {f"{room}.{part}" for part in listed} <= known


def test_modules_do_not_import_each_other():
    graph = import_graph()
    everything = {module: reachable(graph, module) for module in graph}
    cycles = {
        frozenset(other for other in everything[module] if module in everything[other])
        for module in graph
        if module in everything[module]
    }
    assert not cycles


def test_a_module_named_by_a_string_counts_as_imported():
    found = set()
    for path in MODULES:
        own = home(path)
        below = set() if own == "" else {*ROOMS[: ROOMS.index(own)], own}
        found |= {(dotted(path), name) for name in named_modules(path) if name.split(".")[0] not in below}
    public = {("", home.removeprefix("transom.")) for home in transom.HOMES.values()}
    assert found - public == set(NAMED_BY_STRING)
    assert {transom.names.Drawable.drawn_by, transom.names.Drawable.paged_by} == {
        f"transom.{module}" for _, module in NAMED_BY_STRING
    }


def test_only_capture_patches_pytorch():
    """Everybody else in lens asks capture: no hook, no kernel and no interceptor of their own."""
    patches = {"Library", "get_kernel", "listener", "register_module_forward_hook", "register_module_forward_pre_hook"}
    found = set()
    for path in (HOUSE / "lens").rglob("*.py"):
        words = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(tree(path))}
        if words & patches or any(word.startswith("register_") and word.endswith("_hook") for word in words):
            found.add(path.parent.name)
    assert found == {"capture"}


@pytest.mark.parametrize("path", [path for path in MODULES if home(path) == "lens"], ids=named)
def test_lens_takes_from_kernels_only_what_kernels_offers(path):
    names = {name for name in imported(ast.walk(tree(path))) if room(name) == "kernels"}
    assert names <= {f"transom.kernels.{name}" for name in kernels.__all__}


@pytest.mark.parametrize("name", kernels.__all__)
def test_what_kernels_offers_is_there_and_lens_needs_it(name):
    modules = {"weight_stats", "influence_stats"}
    assert importlib.import_module(f"transom.kernels.{name}") if name in modules else getattr(kernels, name)
    users = [path for path in MODULES if home(path) in {"lens", "layers"}]
    assert any(f"transom.kernels.{name}" in set(imported(ast.walk(tree(path)))) for path in users)


@pytest.mark.parametrize("path", [path for path in MODULES if "models/generation" in path.as_posix()], ids=named)
def test_generation_imports_no_model_because_the_models_import_it(path):
    names = set(imported(ast.walk(tree(path))))
    assert not {
        name for name in names if name.startswith(("transom.models.decoder.", "transom.models.encoder_decoder."))
    }


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
    assert not {name: lines for name, lines in functions(path) if lines > 50}


# Words that end like a participle, or are one, and are good names all the same.
NOT_PARTICIPLES = {
    "allowed": "the word for what a mask lets through",
    "distributed": "torch.distributed",
    "embed": "a verb",
    "hidden": "the noun: hidden states",
    "learned": "learned positions, a position encoding",
    "listen": "a verb",
    "pretrained": "as in from_pretrained",
    "proven": "public: Trace.proven",
    "put": "the interface of a streamer of Hugging Face",
    "ragged": "ragged rows, as in RaggedTensor",
    "receipt": "a noun",
    "received": "public: Sight.received",
    "result": "a noun",
    "run": "a verb",
    "shutdown": "a method of uvicorn's connections",
    "sorted": "public: the sorted rows of a table",
    "stitched": "public: Trace.stitched",
    "token": "a noun",
    "unseen": "public: Trace.unseen",
}
IRREGULAR = (
    "begun bound bought brought built caught chosen cut done drawn fed felt found given grown heard held hidden kept"
    " known laid led left lost made meant met paid put read run said seen sent set shown spent split spoken spread"
    " stood taken taught thought thrown told understood won wound written"
)


def is_participle(name: str) -> bool:
    """Whether a name is one bare word that looks like a participle."""
    word = name.removesuffix(".py")
    looks = word in IRREGULAR.split() or word.endswith(("ed", "en", "wn", "lt", "pt"))
    return "_" not in word and looks and word not in NOT_PARTICIPLES


def public_functions(node: ast.AST) -> Iterator[str]:
    """Functions of a module and methods of its classes, not those inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name
        elif not isinstance(child, ast.Lambda):
            yield from public_functions(child)


@pytest.mark.parametrize(("name", "is_one"), [("told", True), ("drawn", True), ("masked", True), ("heads", False)])
def test_a_participle_is_recognised(name, is_one):
    assert is_participle(name) == is_one


@pytest.mark.parametrize("path", [*MODULES, *SCRIPTS], ids=named)
def test_no_module_or_function_is_named_by_a_bare_participle(path):
    assert not {name for name in [path.name, *public_functions(tree(path))] if is_participle(name)}


def test_a_class_name_is_used_once():
    classes = [node.name for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    assert not {name for name in classes if classes.count(name) > 1}
