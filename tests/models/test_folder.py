"""A model's folder: saving and loading is bit-identical; damaged, hostile or other folders raise errors."""

import json
import os
import re
import struct

import pytest
import torch
from models.small import assert_misfit, decoder, encoder, encoder_decoder, rows
from safetensors.torch import load_file, save_file

from transom import models
from transom.models import Decoder, EncoderDecoder, GenerationConfig
from transom.models.folder import FILES
from transom.models.safetensors_files import HEADER_BYTES
from transom.names import Misfit

MODELS = {"encoder": encoder, "decoder": decoder, "encoder_decoder": encoder_decoder}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(41)


@pytest.fixture
def folder(tmp_path):
    """A saved decoder without its manifest, to be tampered with."""
    decoder().save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "manifest.json").unlink()
    return tmp_path / "model"


def same_parameters(model, loaded) -> bool:
    saved, read = dict(model.named_parameters()), dict(loaded.named_parameters())
    return saved.keys() == read.keys() and all(torch.equal(saved[name], read[name]) for name in saved)


class SmallTokenizer:
    """Something with `save`, as a folder needs it."""

    def save(self, path):
        path.write_text('{"words": 5}')


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("shard_bytes", [2**31, 3000])
def test_loading_gives_bit_identical_parameters(tmp_path, kind, shard_bytes):
    model = MODELS[kind](tying="none") if kind != "encoder" else encoder()
    model.save_pretrained(tmp_path / "model", SmallTokenizer(), shard_bytes=shard_bytes)
    before = torch.random.get_rng_state()
    loaded = type(model).from_pretrained(tmp_path / "model")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert loaded.config == model.config
    assert not loaded.training
    assert same_parameters(model, loaded)
    assert type(models.from_pretrained(str(tmp_path / "model"))) is type(model)
    assert (tmp_path / "model" / "tokenizer.json").read_text() == '{"words": 5}'
    shards = list((tmp_path / "model").glob("model-*.safetensors"))
    assert (len(shards) > 1) == (shard_bytes == 3000)
    files = {path.name for path in (tmp_path / "model").iterdir()}
    assert files - FILES == {path.name for path in shards}
    assert "README.md" in files


@pytest.mark.parametrize("tying", ["all", "target", "none"])
def test_tied_parameters_are_saved_once_and_stay_tied(tmp_path, tying):
    model = encoder_decoder(tying=tying)
    model.save_pretrained(tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    assert len(tensors) == len(list(model.parameters()))
    assert sum(tensor.numel() for tensor in tensors.values()) == model.count()
    loaded = EncoderDecoder.from_pretrained(tmp_path / "model")
    assert (loaded.source_embedding.vectors is loaded.unembedding) == (tying == "all")
    tokens = torch.stack(rows(5, 5))
    assert torch.equal(model(tokens, tokens), loaded(tokens, tokens))


def test_a_saved_model_replaces_another(tmp_path):
    for model in (encoder(), decoder(), decoder()):
        model.save_pretrained(tmp_path / "model", shard_bytes=3000)
        assert same_parameters(models.from_pretrained(tmp_path / "model"), model)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_that_holds_more_than_a_model_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    assert_misfit(
        f"{tmp_path} holds 'thesis.txt', which is no part of a model; choose a new or an empty folder",
        decoder().save_pretrained,
        tmp_path,
    )
    assert (tmp_path / "thesis.txt").read_text() == "all of it"
    assert_misfit(
        f"{tmp_path / 'thesis.txt'} should become a folder, but there is a file of that name; choose another name",
        decoder().save_pretrained,
        tmp_path / "thesis.txt",
    )


def test_a_save_that_fails_leaves_the_old_model(tmp_path):
    class Broken:
        def save(self, path):
            raise OSError(28, os.strerror(28))

    model = decoder()
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(Misfit, match="No space left on device; free some space, or choose another folder"):
        decoder().save_pretrained(tmp_path / "model", Broken())
    assert same_parameters(models.from_pretrained(tmp_path / "model"), model)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_readme_lists_sizes_or_is_the_callers(tmp_path):
    model = encoder_decoder()
    model.save_pretrained(tmp_path / "model")
    readme = (tmp_path / "model" / "README.md").read_text()
    assert readme.startswith(f"# A Transom encoder–decoder\n\n{model.count():,} parameters. Load it with\n")
    assert "| d_model | 12 |" in readme
    model.save_pretrained(tmp_path / "model", readme="mine")
    assert (tmp_path / "model" / "README.md").read_text() == "mine"


def test_generation_settings_are_saved(tmp_path):
    model = decoder()
    model.generation = GenerationConfig(max_new_tokens=7, eos_token_id=(2, 5), stop_strings=("\n",))
    model.save_pretrained(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "generation_config.json").read_text()) == {
        "max_new_tokens": 7,
        "eos_token_id": [2, 5],
        "pad_token_id": 0,
        "decoder_start_token_id": 1,
        "stop_strings": ["\n"],
    }
    assert Decoder.from_pretrained(tmp_path / "model").generation == model.generation
    encoder().save_pretrained(tmp_path / "other")
    assert not (tmp_path / "other" / "generation_config.json").exists()


def test_generation_settings_are_read_strictly(folder):
    path = folder / "generation_config.json"
    path.write_text('{"num_beam": 3}')
    assert_misfit(
        f"{path} has no setting 'num_beam'; did you mean 'num_beams'?",
        Decoder.from_pretrained,
        folder,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_are_loaded_if_the_caller_asks(tmp_path, dtype):
    model = decoder()
    model.save_pretrained(tmp_path / "model", dtype=dtype)
    path = tmp_path / "model" / "model.safetensors"
    name, wider = next(iter(load_file(path))), "torch.float64" if dtype == torch.float64 else "torch.float32"
    assert_misfit(
        f"{path} holds {name!r} in {dtype}, but the parameters are torch.float32; give dtype={wider} to load it so",
        Decoder.from_pretrained,
        tmp_path / "model",
    )
    assert Decoder.from_pretrained(tmp_path / "model", dtype).unembedding.dtype == dtype
    if dtype != torch.float64:
        wide = Decoder.from_pretrained(tmp_path / "model", torch.float32)
        assert wide.unembedding.dtype == torch.float32
        assert torch.equal(wide.unembedding, model.unembedding.to(dtype).float())


def test_numbers_are_not_narrowed_silently(folder):
    name = next(iter(load_file(folder / "model.safetensors")))
    assert_misfit(
        f"{folder / 'model.safetensors'} holds {name!r} in torch.float32, but the parameters are torch.bfloat16;"
        " give dtype=torch.float32 to load it so",
        Decoder.from_pretrained,
        folder,
        torch.bfloat16,
    )


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "README.md", "generation_config.json"])
def test_a_flipped_bit_raises_an_error(tmp_path, name):
    decoder().save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 4
    path.write_bytes(content)
    with pytest.raises(Misfit, match=rf"^{re.escape(str(path))} .*damaged"):
        Decoder.from_pretrained(tmp_path / "model")


def test_a_manifest_without_the_parameters_raises_an_error(tmp_path):
    decoder().save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["files"]["model.safetensors"]
    path.write_text(json.dumps(manifest))
    assert_misfit(
        f"{path} should list 'model.safetensors', but it does not; take another copy",
        Decoder.from_pretrained,
        tmp_path / "model",
    )


def test_no_folder_and_no_model(tmp_path):
    assert_misfit(
        f"{tmp_path / 'no'} should be the folder of a model, but there is no such folder; check the path",
        models.from_pretrained,
        tmp_path / "no",
    )
    (tmp_path / "notes.txt").write_text("of something else")
    assert_misfit(
        f"{tmp_path} should hold config.json, but it does not; is it the folder of a model?",
        models.from_pretrained,
        tmp_path,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model": "encoder"},
            "{folder} holds a model of kind 'encoder', not 'decoder'; use transom.models.from_pretrained",
        ),
        ({"format": 2}, "{config} should have format 1, but it has another; update Transom"),
        (
            {"model": None},
            "{config} should name its format and model, but it does not; is it a model of another library?",
        ),
        ({"auto_map": {"AutoModel": "evil.Evil"}}, "{config} has no setting 'auto_map'; there are {known}"),
        ({"d_model": "12"}, "{config} does not fit: Expected `int`, got `str` - at `$.d_model`; correct that setting"),
        (
            {"d_hidden": 16_000_000},
            "{file} holds 'stack.blocks.0.feed_forward.W_1.bias' as (17,), but the model has (16000000,);"
            " does config.json belong to it?",
        ),
        (
            {"layers": 3},
            "{folder} should hold 'stack.blocks.2.attention.W_Q.weight' and 15 more, but it does not;"
            " does config.json belong to it?",
        ),
        (
            {"bias": False},
            "{file} holds 'stack.blocks.0.attention.W_K.bias' and 15 more, which the model does not have; {near}",
        ),
    ],
)
def test_a_config_that_does_not_fit(folder, change, message):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    known = ", ".join(Decoder.config_class.__struct_fields__)
    has_suggestion = message.endswith("{near}")
    with pytest.raises(Misfit) as caught:
        Decoder.from_pretrained(folder)
    message = message.replace("{near}", "").format(
        folder=folder, config=path, file=folder / "model.safetensors", known=known
    )
    assert str(caught.value).startswith(message) if has_suggestion else str(caught.value) == message


def test_a_config_of_an_unknown_kind(folder):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model": "decodr"}))
    assert_misfit(
        f"the model of {folder} must be one of encoder, decoder, encoder_decoder, but got 'decodr';"
        " did you mean 'decoder'?",
        models.from_pretrained,
        folder,
    )


def test_a_config_that_is_too_long_is_not_read(folder):
    path = folder / "config.json"
    path.write_bytes(b" " * (2**20 + 1))
    assert_misfit(
        f"{path} may have 1048576 bytes, but it has 1048577; is it another file?", models.from_pretrained, folder
    )


def change_tensors(folder, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tensors: tensors.pop("stack.blocks.0.attention.W_Q.weight"),
            "{folder} should hold 'stack.blocks.0.attention.W_Q.weight', but it does not;"
            " does config.json belong to it?",
        ),
        (
            lambda tensors: tensors.update({"embeding.vectors": tensors.pop("embedding.vectors")}),
            "{file} holds 'embeding.vectors', which the model does not have; did you mean 'embedding.vectors'?",
        ),
        (
            lambda tensors: tensors.update({"embedding.vectors": torch.zeros(23, 13)}),
            "{file} holds 'embedding.vectors' as (23, 13), but the model has (23, 12); does config.json belong to it?",
        ),
        (
            lambda tensors: tensors.update({"embedding.vectors": torch.zeros(23, 12, dtype=torch.int16)}),
            "{file} holds 'embedding.vectors' in I16, but Transom reads F64, F32, F16, BF16, I8; convert it",
        ),
    ],
)
def test_tensors_that_do_not_fit(folder, change, message):
    change_tensors(folder, change)
    assert_misfit(message.format(folder=folder, file=folder / "model.safetensors"), Decoder.from_pretrained, folder)


def raw(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its header is cut off at 0 bytes"),
        (struct.pack("<Q", 2**40), "its header is cut off at 8 bytes"),
        (
            raw(b" " * (HEADER_BYTES + 1)),
            f"its header has {HEADER_BYTES + 1} bytes, but at most {HEADER_BYTES} are allowed",
        ),
        (
            raw(b'{"a": 1, "a": 2}'),
            "its header cannot be read (a name comes twice)",
        ),
        (
            raw(b'{"a": {"dtype": "F32"}}'),
            "its header does not fit (Object missing required field `shape`)",
        ),
        (raw(b"[]"), "its header should be a JSON object, but it is a list"),
    ],
)
def test_files_that_are_no_safetensors(folder, content, reason):
    path = folder / "model.safetensors"
    path.write_bytes(content)
    assert_misfit(f"{path} cannot be loaded: {reason}; take another copy", Decoder.from_pretrained, folder)


def test_a_file_of_very_many_tensors_is_refused(folder, monkeypatch):
    monkeypatch.setattr("transom.files.safetensors_header.MOST_TENSORS", 31)
    path = folder / "model.safetensors"
    assert_misfit(
        f"{path} cannot be loaded: it holds {len(load_file(path))} tensors, but at most 31 are allowed;"
        " take another copy",
        Decoder.from_pretrained,
        folder,
    )


def test_a_truncated_file_raises_an_error(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(Misfit, match=rf"^{re.escape(str(path))} cannot be read \(.*\); take another copy$"):
        Decoder.from_pretrained(folder)


def test_a_config_and_a_header_that_promise_what_the_file_does_not_hold_cost_nothing(folder, monkeypatch):
    path, config = folder / "model.safetensors", folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"vocabulary": 16_000_000}))
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:length])
    header["embedding.vectors"]["shape"] = [16_000_000, 12]
    path.write_bytes(raw(json.dumps(header).encode(), content[length:]))
    monkeypatch.setattr(torch.random, "fork_rng", lambda **_: pytest.fail("the model was built"))
    with pytest.raises(Misfit, match=rf"^{re.escape(str(path))} cannot be read \(.*\); take another copy$"):
        Decoder.from_pretrained(folder)


@pytest.fixture
def shards(tmp_path):
    decoder().save_pretrained(tmp_path / "model", shard_bytes=3000)
    (tmp_path / "model" / "manifest.json").unlink()
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a\\b", "", ".."])
def test_shard_names_do_not_leave_the_folder(shards, name):
    path = shards / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["embedding.vectors"] = name
    path.write_text(json.dumps(index))
    assert_misfit(
        f"{path} must name plain files of its folder, but it names {name!r}; take another copy of the folder",
        Decoder.from_pretrained,
        shards,
    )


def test_missing_shards(shards):
    path = shards / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    missing = index["weight_map"]["embedding.vectors"]
    (shards / missing).rename(shards / "elsewhere")
    assert_misfit(
        f"{path} names {missing!r}, but it is not in the folder; is the copy complete?", Decoder.from_pretrained, shards
    )
    (shards / "elsewhere").rename(shards / missing)
    index["weight_map"]["embedding.vectors"] = next(iter(set(index["weight_map"].values()) - {missing}))
    path.write_text(json.dumps(index))
    with pytest.raises(Misfit, match=r"disagree on 'embedding.vectors'; take another copy$"):
        Decoder.from_pretrained(shards)
    path.write_text("{}")
    assert_misfit(
        f"{path} should say in weight_map which file holds what, but it does not; take another copy",
        Decoder.from_pretrained,
        shards,
    )
    path.unlink()
    assert_misfit(
        f"{shards} should hold model.safetensors, but it does not; is the copy complete?",
        Decoder.from_pretrained,
        shards,
    )
