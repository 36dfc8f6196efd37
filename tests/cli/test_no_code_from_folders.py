"""No code of a model's folder ever runs, whatever it names and whatever is on standard input."""

import ast
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from model_folders import of_hugging_face

import transom
from transom.runner.pretrained import ADAPTER, CONFIG, TOKENIZER_CONFIG

HOUSE = Path(transom.__file__).parent
OWN = """
from pathlib import Path
Path({marker!r}).write_text("it ran")
import transformers
class Config(transformers.PretrainedConfig):
    model_type = "own"
class Model(transformers.BertModel):
    pass
class Tokenizer(transformers.PreTrainedTokenizerFast):
    pass
def generate(model, *args, **kwargs):
    return model
"""
# Loads and runs each folder, and prints the result.
TRY = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from transom.runner import load_text_model
from transom.names import Misfit
for folder in sys.argv[1:]:
    try:
        model = load_text_model(folder)
        model.run(model.encode_text("the cat"))
        if model.kind == "decoder":
            model.continue_tokens([1], 2)
        result = "loaded"
    except Misfit as error:
        result = str(error)
    except BaseException as error:
        result = f"{type(error).__name__}: {error}"
    print(json.dumps(result), flush=True)
"""


def change(path: Path, **settings: object) -> None:
    found = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(found | settings))


def unknown_kind(folder: Path) -> None:
    change(folder / CONFIG, model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})


def known_kind(folder: Path) -> None:
    change(folder / CONFIG, architectures=["Own"], auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})


def two_sides(folder: Path) -> None:
    change(folder / CONFIG, is_encoder_decoder=True, auto_map={"AutoModelForSeq2SeqLM": "own.Model"})


def without_a_model(folder: Path) -> None:
    """A kind of settings that the library knows, and no AutoModel for it."""
    change(
        folder / CONFIG, model_type="instructblipqformer", architectures=["Own"], auto_map={"AutoModel": "own.Model"}
    )


def tokenizer(folder: Path) -> None:
    own = {"auto_map": {"AutoTokenizer": ["own.Tokenizer", "own.Tokenizer"]}, "tokenizer_class": "Tokenizer"}
    change(folder / TOKENIZER_CONFIG, **own)


def tokenizer_by_list(folder: Path) -> None:
    change(folder / TOKENIZER_CONFIG, auto_map=["own.Tokenizer", None], tokenizer_class="Tokenizer")


def tokenizer_in_config(folder: Path) -> None:
    change(folder / CONFIG, auto_map={"AutoTokenizer": ["own.Tokenizer", "own.Tokenizer"]})


def part_of_a_model(folder: Path) -> None:
    """LLaVA builds its parts by AutoModel.from_config: settings of a part may name code as well."""
    part = {"model_type": "instructblipqformer", "auto_map": {"AutoModel": "own.Model"}, "_name_or_path": str(folder)}
    config = {"model_type": "llava", "text_config": part, "vision_config": {"model_type": "clip_vision_model"}}
    change(folder / CONFIG, architectures=["LlavaForConditionalGeneration"], **config)


def own_generate(folder: Path) -> None:
    (folder / "custom_generate").mkdir()
    (folder / "own.py").rename(folder / "custom_generate" / "generate.py")


def generation_by_code(folder: Path) -> None:
    change(folder / "generation_config.json", penalty_alpha=0.6, top_k=4, custom_generate=str(folder))


def pickled(folder: Path) -> None:
    marker = str(folder.parent / "ran")

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (marker,)

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))


def kernel(folder: Path) -> None:
    change(folder / CONFIG, attn_implementation="someone/kernel")


def adapter(folder: Path) -> None:
    change(folder / ADAPTER, base_model_name_or_path=str(folder), auto_mapping={"parent_library": "own"})


NO_CODE = "Transom never runs a model's own code: name a model that transformers knows without it"
LOADED = "loaded"
CASES = {
    unknown_kind: ("decoder", NO_CODE),
    known_kind: ("encoder", LOADED),
    two_sides: ("encoder", NO_CODE),
    without_a_model: ("encoder", NO_CODE),
    tokenizer: ("decoder", NO_CODE),
    tokenizer_by_list: ("decoder", NO_CODE),
    tokenizer_in_config: ("decoder", LOADED),
    part_of_a_model: ("decoder", NO_CODE),
    own_generate: ("decoder", LOADED),
    generation_by_code: ("decoder", "; correct generation_config.json"),
    pickled: ("decoder", "; save the model with save_pretrained of transformers, which writes safetensors"),
    kernel: ("decoder", "which Transom never downloads; take attn_implementation out of config.json"),
    adapter: ("decoder", "should hold a whole model, but it has an adapter (adapter_config.json); merge the two first"),
}


def run_python(tmp_path: Path, args: list[str], stdin: str) -> subprocess.CompletedProcess[str]:
    """Run Python with an answer on standard input, should a library ask whether to run code."""
    home = {"HF_HOME": str(tmp_path / "hub"), "PYTHONPATH": str(HOUSE.parent)}
    return subprocess.run(
        [sys.executable, *args], input=stdin, env=os.environ | home, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_no_folder_runs_its_code_with_yes_on_standard_input(tmp_path):
    pytest.importorskip("transformers")
    folders = []
    for prepare, (kind, _) in CASES.items():
        folder = of_hugging_face(kind, tmp_path / prepare.__name__ / "model")
        (folder / "own.py").write_text(OWN.format(marker=str(folder.parent / "ran")))
        prepare(folder)
        folders.append(folder)
    process = run_python(tmp_path, ["-c", TRY, *map(str, folders)], "y\n" * 100)
    results = [json.loads(line) for line in process.stdout.splitlines() if line.startswith('"')]
    assert len(results) == len(CASES), process.stderr[-2000:]
    assert {folder.parent.name for folder in folders if (folder.parent / "ran").exists()} == set()
    for (prepare, (_, expected)), result in zip(CASES.items(), results, strict=True):
        assert result.endswith(expected), (prepare.__name__, result)
    assert "y/N" not in process.stdout + process.stderr


@pytest.mark.slow
def test_a_command_takes_no_yes_from_standard_input(tmp_path):
    pytest.importorskip("transformers")
    folder = of_hugging_face("encoder", tmp_path / "model")
    (folder / "own.py").write_text(OWN.format(marker=str(tmp_path / "ran")))
    two_sides(folder)
    process = run_python(tmp_path, ["-m", "transom", "see", "the cat sat", "--model", str(folder)], "y\nthe cat sat\n")
    assert process.returncode == 2
    assert process.stderr.strip().endswith(NO_CODE)
    assert not (tmp_path / "ran").exists()


def calls_of(path: Path) -> set[str]:
    """Every name that a module calls or fetches an attribute of, as far as it can be read: `torch.load`."""
    return {
        ast.unparse(node) for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute)
    }


def test_only_one_module_calls_transformers():
    """Only `load_pretrained` may let the library load something, because it does so safely."""
    for path in HOUSE.rglob("*.py"):
        text = path.read_text("utf-8")
        if path.name == "pretrained.py":
            continue
        nodes = list(ast.walk(ast.parse(text)))
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        # `to_hugging_face` builds a model of the library from our config; it loads nothing, as the next lines hold.
        may_import = {"transformers"} if path.name == "convert.py" else set()
        assert {name.split(".")[0] for name in imported} & {"transformers", "huggingface_hub"} <= may_import, path
        loading = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == "from_pretrained"]
        owners = {ast.unparse(node.value) for node in loading}
        assert owners <= {"MODELS[kind]", "kind", "transom.models"}, path
        assert "apply_chat_template" not in text, path


def test_nothing_is_unpickled():
    for path in HOUSE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        assert not imported & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "runpy"}, path
        assert not calls_of(path) & {"torch.load", "torch.jit.load", "np.load", "numpy.load"}, path
        called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        assert not called & {"eval", "exec", "compile", "__import__"}, path
