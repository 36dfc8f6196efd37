"""Files written by earlier versions load, and mean what they meant: no renaming and no tidying may break them."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import transom
from transom.lens.storage.mask_codec import BIASES, MASKS

SAMPLES = Path(__file__).parent / "samples"
NEWER = {"0.1.0": {"SparseBias"}}  # kinds that a version did not have yet
VERSIONS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name[0].isdigit())
TRACES = sorted(path for path in SAMPLES.glob("*/traces/*.safetensors") if path.stem != "expected")
WORDS = ["the", "cat", "</s>", "\n", "é"]
LOOSE = {"bfloat16", "float16"}  # whose inputs were rounded before the samples' own sums
NO_PROOF = {"handmade": "the model computes it by hand, and its values were not seen"}


def named(path: Path) -> str:
    return f"{path.parts[-3]} {path.stem}"


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "transom", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("path", TRACES, ids=named)
def test_a_trace_means_what_it_meant(path):
    expected = load_file(path.parent / "expected.safetensors")[path.stem]
    trace = transom.Trace.load(path)
    if path.stem == "steps":
        trace = trace.stitched()
    sight = trace[0]
    if path.stem == "statistics":
        assert torch.allclose(sight.peak(), expected.amax(dim=-1), atol=1e-5)
        assert torch.allclose(sight.received(), expected.sum(dim=-2), atol=1e-5)
        assert trace.grid is not None
        assert (trace.grid.rows, trace.grid.columns, trace.grid.before) == (2, 2, ("[CLS]",))
        assert sight.receipt().holds
        return
    assert torch.allclose(sight.weights().float(), expected, atol=1e-5)
    receipt = sight.receipt()
    assert receipt.holds or receipt.unproved == NO_PROOF.get(path.stem), receipt
    if path.stem == "joined":
        assert trace.tokens == [WORDS, WORDS]
        assert trace.targets == [["le", "chat"], ["un"]]
    elif path.stem != "steps":
        assert trace.tokens == [WORDS]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_mask_and_bias_is_among_the_traces(version):
    found = set()
    for path in TRACES:
        if path.parts[-3] == version:
            length = int.from_bytes(path.read_bytes()[:8], "little")
            header = json.loads(path.read_bytes()[8 : 8 + length])
            said = json.loads(header["__metadata__"]["trace"])
            found |= {
                word for word in {**MASKS, **BIASES} if f'"kind":"{word}"' in json.dumps(said, separators=(",", ":"))
            }
    assert found == (set(MASKS) | set(BIASES)) - NEWER.get(version, set())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replay_means_what_it_meant(version):
    replay = transom.Replay.load(SAMPLES / version / "replay.safetensors")
    expected = load_file(SAMPLES / version / "replay_expected.safetensors")
    assert replay.updates == [int(update) for update in expected]
    assert replay.tokens == [WORDS]
    (name,) = replay.names
    for number, weights in enumerate(expected.values()):
        assert torch.allclose(replay.frames[number][name], weights, atol=1e-6)
    assert replay.losses.points() == ([1, 3, 4], pytest.approx([1.0, 1 / 3, 1 / 4]))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["Encoder", "Decoder", "EncoderDecoder"])
def test_a_model_folder_computes_what_it_computed(version, kind):
    name = {"Encoder": "encoder", "Decoder": "decoder", "EncoderDecoder": "encoder_decoder"}[kind]
    model = getattr(transom.models, kind).from_pretrained(SAMPLES / version / name)
    expected = load_file(SAMPLES / version / "models_expected.safetensors")[name]
    tokens = torch.tensor([[5, 7, 11, 13]])
    with torch.no_grad():
        found = model.eval()(tokens, tokens[:, :3]) if kind == "EncoderDecoder" else model.eval()(tokens)
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_that_was_stopped_goes_on_to_the_model_it_would_have_made(version, tmp_path):
    for name in ("recipe.toml", "pairs.tsv"):
        shutil.copy(SAMPLES / version / name, tmp_path)
    shutil.copytree(SAMPLES / version / "unfinished", tmp_path / "run")
    run("train", "recipe.toml", cwd=tmp_path)
    log = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text(encoding="utf-8").splitlines()]
    before = [json.loads(line) for line in (SAMPLES / version / "run/log.jsonl").read_text().splitlines()]
    assert [line["update"] for line in log] == [line["update"] for line in before]
    for line, was in zip(log, before, strict=True):
        assert line.get("loss", 0.0) == pytest.approx(was.get("loss", 0.0), abs=1e-4)
    made, expected = (load_file(folder / "run/model/model.safetensors") for folder in (tmp_path, SAMPLES / version))
    assert made.keys() == expected.keys()
    # Other processors add up in another order, and Adam divides by tiny numbers: equal bits are for one machine.
    for name, tensor in made.items():
        assert torch.allclose(tensor, expected[name], atol=2e-3), name


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_of_a_run_translates(version, tmp_path):
    done = run("translate", "--model", str(SAMPLES / version / "run/model"), "--json", "a b c", cwd=tmp_path)
    assert json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_sums_of_heads_go_on_to_the_same_table(version, tmp_path):
    shutil.copy(SAMPLES / version / "heads.json", tmp_path)
    found = json.loads(run("heads", "--merge", "heads.json", "--json", cwd=tmp_path).stdout)
    expected = json.loads((SAMPLES / version / "heads_expected.json").read_text(encoding="utf-8"))
    assert found["heads"] == expected["heads"]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_lessons_are_proved_as_they_were(version, tmp_path):
    lessons = sorted(map(str, (SAMPLES / version / "lessons").glob("*.toml")))
    done = run("check", "--json", *lessons, cwd=tmp_path)
    assert done.stdout.count('"right"') > 5


@pytest.mark.parametrize("version", VERSIONS)
def test_recipes_mean_what_they_meant(version):
    recipe = import_module("transom.training.recipe")
    found = recipe.load_recipe(SAMPLES / version / "recipes/reference.toml")
    assert found.task == "translate"


def test_a_sample_of_this_version_can_be_written():
    """The script that writes the samples imports, so that it will run at the next release."""
    writer = import_module("samples.write_samples")
    assert set(writer.TRACES) >= {"causal", "window", "documents", "padding", "given"}
