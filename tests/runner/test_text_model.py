"""A model by its name, whoever's it is: text in, tokens and numbers out, and every complaint."""

import json
import os
import sys
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from model_folders import KINDS, MAKERS, of_hugging_face, of_transom

import transom
from transom.names import Misfit
from transom.runner import load_text_model
from transom.runner.hugging_face import HuggingFaceTextModel, max_tokens, readable_tokens
from transom.runner.pretrained import find_cached, silence_output
from transom.runner.text_model import split_pieces
from transom.runner.transom_model import TransomTextModel

pytestmark = [
    pytest.mark.usefixtures("own_errors"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def models(model_folder):
    """A model of each origin and kind, loaded when it is first needed."""
    return cache(lambda origin, kind: load_text_model(str(model_folder(origin, kind))))


def complaint(function, *args):
    with pytest.raises(Misfit) as caught:
        function(*args)
    return str(caught.value)


@pytest.mark.parametrize(("origin", "kind"), KINDS)
def test_a_text_goes_through_any_model_and_is_watched(models, origin, kind):
    model = models(origin, kind)
    assert (model.origin, model.kind) == (origin, kind)
    encoded = model.encode_text("the cat sat on the mat")
    assert len(encoded.tokens) == len(encoded.ids)
    assert "".join(encoded.tokens).replace(" ", "").startswith("thecatsatonthemat")
    with transom.watch(model.model, tokens=encoded.tokens) as trace:
        output = model.run(encoded)
    assert output.isfinite().all()
    assert trace[0].K.shape[2] == len(encoded.tokens)
    if kind == "decoder":
        assert output.shape[:2] == (1, len(encoded.tokens))


@pytest.mark.parametrize("origin", MAKERS)
def test_a_target_is_given_or_the_models_own_greedy_one(models, origin):
    model = models(origin, "encoder_decoder")
    given = model.encode_text("the cat", "a dog sat")
    assert "".join(given.written).replace(" ", "").removesuffix("</s>") == "adogsat"
    assert given.written[:-1] == given.targets[1:]
    own = model.encode_text("the cat")
    assert len(own.targets) == len(own.written)
    assert model.run(own).argmax(-1)[0, :-1].tolist() == [*own.target_ids[1:]], "what greedy search chose"
    assert [model.token_strings([token])[0] for token in own.target_ids] == own.targets


@pytest.mark.parametrize(("origin", "kind"), KINDS)
def test_a_long_text_is_cut_into_pieces_that_fit_and_none_is_lost(models, origin, kind):
    model = models(origin, kind)
    text = "the cat sat on the mat and " * 7
    found = model.encode_pieces(text, 11)
    assert max(map(len, found)) <= 11
    whole = model.token_strings([token for piece in found for token in piece])
    assert "".join(whole).replace(" ", "").count("sat") == 7
    assert model.encode_pieces("  \n") == []
    assert len(model.encode_pieces("the cat")) == 1


def test_the_embedded_translator_is_there_without_a_name():
    model = load_text_model()
    encoded = model.encode_text("I know where she lives.")
    assert (model.origin, model.kind, model.name) == ("transom", "encoder_decoder", "the embedded translator")
    assert encoded.tokens[-1] == "</s>"
    assert encoded.written[-1] == "</s>"
    assert encoded.targets[0] == "<s>"


def test_an_encoder_without_labels_gives_vectors(tmp_path):
    from transom.models import Encoder

    folder = of_transom("encoder", tmp_path / "labelled")
    model = load_text_model(str(folder))
    assert model.run(model.encode_text("the cat")).shape == (1, 2)
    model.model = Encoder(
        type(model.model.config)(vocabulary=model.tokenizer.size, d_model=12, heads=3, d_hidden=5, layers=1)
    )
    assert model.run(model.encode_text("the cat")).shape == (1, len(model.encode_text("the cat").ids), 12)


def test_what_is_no_model_is_said(tmp_path):
    assert complaint(load_text_model, str(tmp_path / "none")) == (
        f"{tmp_path}/none should be the folder of a model, but there is no such folder; check the path"
    )
    for name in ("no-such-model", "no such model"):
        assert complaint(load_text_model, name) == (
            f"{name} should be the folder of a model, but there is no such folder, nor is it in the local Hugging Face"
            " cache; Transom downloads nothing; check the path"
        )
    (tmp_path / "notes.txt").write_text("of something else")
    assert complaint(load_text_model, str(tmp_path)) == (
        f"{tmp_path} should hold config.json, but it does not; is it the folder of a model?"
    )
    (tmp_path / "config.json").write_text("{}")
    assert complaint(load_text_model, str(tmp_path)) == (
        f"{tmp_path}/config.json should describe a model of Transom's (format, model) or of Hugging Face's"
        " (model_type), but it does neither; is it the folder of a model?"
    )


@pytest.mark.parametrize(("origin", "kind"), [pair for pair in KINDS if pair[1] != "encoder"])
def test_what_is_written_is_told_token_by_token(models, origin, kind):
    model, ids = models(origin, kind), []
    encoded = model.encode_text("the cat sat", on_token=ids.append)
    if kind == "encoder_decoder":
        assert model.token_strings(ids) == encoded.written
    else:
        assert model.continue_tokens(encoded.ids, 5, ids.append) == ids
        assert 0 < len(ids) <= 5
        room = model.longest - len(encoded.ids)
        assert len(model.continue_tokens(encoded.ids, 10**6)) <= room


def test_tokens_of_hugging_face_are_shown_readable():
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    for decoder, tokens, shown in (
        ("ByteLevel", ["<s>", "Ġcat", "Ċ", "Ã©", "â", "sat"], ["<s>", " cat", "\n", "é", "\\xe2", "sat"]),
        ("Metaspace", ["<s>", "▁cat", "sat"], ["<s>", " cat", "sat"]),
        ("WordPiece", ["[CLS]", "cat", "##s"], ["[CLS]", "cat", "##s"]),
    ):
        vocabulary = {token: place for place, token in enumerate(tokens)}
        engine = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=tokens[0]))
        engine.decoder = getattr(tokenizers.decoders, decoder)()
        found = transformers.PreTrainedTokenizerFast(tokenizer_object=engine, bos_token=tokens[0])
        assert readable_tokens(found, list(range(len(tokens)))) == shown


def test_a_name_without_a_slash_is_looked_for_in_the_cache(tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    kept = tmp_path / "models--tiny-bert"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("abc")
    assert find_cached("tiny-bert") is None
    (kept / "snapshots" / "abc").mkdir(parents=True)
    (kept / "snapshots" / "abc" / "config.json").write_text("{}")
    assert find_cached("tiny-bert") is not None
    monkeypatch.setattr(HuggingFaceTextModel, "__init__", lambda self, name, text: setattr(self, "name", name))
    assert load_text_model("tiny-bert").name == "tiny-bert"


def test_a_hugging_face_folder_needs_safetensors_and_its_extra(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    folder = of_hugging_face("encoder", tmp_path / "bert")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    found = complaint(load_text_model, str(folder))
    assert found.startswith(f"{folder} should hold model.safetensors, but its parameters are ")
    assert found.endswith("; save the model with save_pretrained of transformers, which writes safetensors")
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert complaint(load_text_model, str(folder)) == (
        f"{folder} is a Hugging Face model, which needs the extra hf; install it with pip install 'transom[hf]'"
    )


def test_code_that_comes_with_a_model_is_never_run(tmp_path):
    pytest.importorskip("transformers")
    folder = of_hugging_face("decoder", tmp_path / "llama")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text("raise SystemExit('it ran')")
    assert complaint(load_text_model, str(folder)).startswith(
        f"{folder} should be a Hugging Face model, but it cannot be loaded"
    )


def test_an_id_that_is_not_on_this_machine_is_said():
    pytest.importorskip("transformers")
    found = complaint(load_text_model, "nobody/nothing")
    assert found.startswith("nobody/nothing should be a Hugging Face model, but it cannot be loaded from this machine")


def test_texts_and_targets_that_do_not_fit_are_said(models):
    decoder, both = models("transom", "decoder"), models("transom", "encoder_decoder")
    assert complaint(decoder.encode_text, " ") == (
        "the text is empty, but there must be something to read; give a word or more"
    )
    many = decoder.encode_pieces("cat " * 100)
    assert complaint(decoder.encode_text, "cat " * 100) == (
        f"the text has {sum(map(len, many))} tokens, but {decoder.name} takes 37 at most; give a shorter one"
    )
    assert complaint(decoder.encode_text, "cat", "chat") == (
        f"a target is for an encoder–decoder, but {decoder.name} is a decoder; leave the target out"
    )
    assert complaint(both.encode_text, "cat", "cat " * 100).endswith(
        f"but {both.name} takes 37 at most; give a shorter one"
    )
    assert (
        complaint(split_pieces, [1, 2, 3], 2, 2)
        == "pieces need 3 tokens or more, but got longest=2; give a larger number"
    )


def test_both_kinds_are_told_apart(models):
    assert isinstance(models("transom", "decoder"), TransomTextModel)
    assert isinstance(models("hf", "decoder"), HuggingFaceTextModel)
    assert torch.is_tensor(models("hf", "decoder").encode_text("the cat").inputs["input_ids"])


@pytest.mark.parametrize("given", ["many", True, -3, [5]])
def test_a_length_that_is_no_number_is_said(given):
    config = SimpleNamespace(max_position_embeddings=given)
    assert complaint(max_tokens, "mine", config, SimpleNamespace(model_max_length=29)) == (
        f"mine should say in a number how many tokens it takes, but it says {given!r};"
        " correct config.json or tokenizer_config.json"
    )


def test_the_longest_text_is_the_least_of_what_model_and_tokenizer_take():
    assert max_tokens("mine", SimpleNamespace(n_positions=31), SimpleNamespace(model_max_length=29)) == 29
    assert max_tokens("mine", SimpleNamespace(), SimpleNamespace(model_max_length=10**30)) is None


def test_a_library_prints_nothing_while_it_loads(capfd):
    with silence_output():
        os.write(1, b"raw")
        os.write(2, b"raw")
    os.write(1, b"after")
    assert capfd.readouterr() == ("after", "")
