"""Models used on plain text: a batch says what single texts say, streams say what is returned, errors are whole."""

import random
from functools import partial

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, normalizers
from tokenizers import models as models_of_tokens

from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig, EncoderDecoder, EncoderDecoderConfig
from transom.names import Misfit
from transom.text.special_tokens import SPECIAL
from transom.text.tokenizer import Tokenizer
from transom.training.inference import (
    TextStreamer,
    classify,
    continue_text,
    decode_continuation,
    load_for_task,
    translate,
)

pytestmark = pytest.mark.usefixtures("own_errors")
SIZES = {"d_model": 10, "d_hidden": 13, "heads": 2, "longest": 23}
LETTERS = "abcdefg"
MERGES = [("▁", letter) for letter in LETTERS]


def words():
    return Tokenizer.train("words", [" ".join(LETTERS)], 40)


@pytest.fixture
def tokenizer():
    return words()


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(3)
    size = words().size
    sides = {"encoder_layers": 1, "decoder_layers": 1}
    return {
        "encoder_decoder": EncoderDecoder(EncoderDecoderConfig(vocabulary=size, **sides, **SIZES)).eval(),
        "decoder": Decoder(DecoderConfig(vocabulary=size, layers=1, **SIZES)).eval(),
        "encoder": Encoder(EncoderConfig(vocabulary=size, layers=1, labels=("no", "so-so", "yes"), **SIZES)).eval(),
    }


def texts(count, longest=9):
    draws = random.Random(count)
    return [" ".join(draws.choices(LETTERS, k=draws.randint(1, longest))) for _ in range(count)]


@pytest.mark.parametrize("beams", [1, 3])
def test_a_batch_is_translated_as_single_texts_are(models, tokenizer, beams):
    given = texts(17)
    done = []
    found = translate(models["encoder_decoder"], tokenizer, given, beams, done.append, max_length=11)
    singly = [translate(models["encoder_decoder"], tokenizer, [text], beams, max_length=11)[0] for text in given]
    assert found == singly
    assert sum(done) == 17
    assert len(set(found)) > 1


def test_translations_are_no_longer_than_the_model_takes(models, tokenizer):
    (found,) = translate(models["encoder_decoder"], tokenizer, [" ".join("a" * 22)], eos_token_id=None)
    assert len(tokenizer.encode(found)) <= SIZES["longest"]


def test_a_batch_is_classified_as_single_texts_are(models, tokenizer):
    given = texts(19)
    found = classify(models["encoder"], tokenizer, given)
    for text, label in zip(given, found, strict=True):
        (alone,) = classify(models["encoder"], tokenizer, [text])
        assert alone.label == label.label
        assert alone.chances == pytest.approx(label.chances, abs=1e-5)
        assert list(label.chances) == ["no", "so-so", "yes"]
        assert sum(label.chances.values()) == pytest.approx(1.0, abs=1e-5)
        assert label.chances[label.label] == max(label.chances.values())


def test_nothing_to_work_on_is_nothing(models, tokenizer):
    assert translate(models["encoder_decoder"], tokenizer, []) == []
    assert classify(models["encoder"], tokenizer, []) == []


@pytest.mark.parametrize("prompt", ["a b c", ""])
def test_what_is_streamed_is_what_is_written(models, tokenizer, prompt):
    pieces: list[str] = []
    asked = {"max_new_tokens": 13, "do_sample": True, "seed": 5, "eos_token_id": None}
    found = continue_text(models["decoder"], tokenizer, prompt, pieces.append, **asked)
    assert "".join(pieces) == found
    assert len(pieces) > 3
    assert found == continue_text(models["decoder"], tokenizer, prompt, **asked)


def test_writing_on_is_the_models_greedy_continuation(models, tokenizer):
    row = tokenizer.encode("a b")
    for _ in range(7):
        row.append(int(models["decoder"](torch.tensor([row]))[0, -1].argmax()))
    expected = tokenizer.decode(row).removeprefix("a b")
    assert continue_text(models["decoder"], tokenizer, "a b", max_new_tokens=7, eos_token_id=None) == expected


def sentence_piece():
    """Like Llama's: a space is part of the token after it, and the one before the first word is not written."""
    pieces = [*"abcdefg", *(f"▁{letter}" for letter in LETTERS), "▁"]
    engine = Engine(models_of_tokens.BPE({token: i for i, token in enumerate([*SPECIAL, *pieces])}, MERGES))
    engine.add_special_tokens(SPECIAL)
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    engine.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return Tokenizer(engine)


KINDS = {
    "words": words,
    "sentence piece": sentence_piece,
    "bytes with case": lambda: Tokenizer.train("bpe", ["a b c d e f g"], 300, case=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", ["a b", "A b ", "b"])
def test_a_prompt_and_its_continuation_read_as_one_text(kind, prompt):
    tokenizer = KINDS[kind]()
    row = tokenizer.encode(prompt)
    new = tokenizer.encode("a b c d")[len(tokenizer.encode("a b")) :]
    pieces: list[str] = []
    decode = partial(decode_continuation, tokenizer.decode, prompt, row)
    streamer = TextStreamer(decode, pieces.append)
    for token in new:
        streamer.on_token(0, token)
    expected = " c d" if tokenizer.decode(row).endswith(" ") or not prompt.endswith(" ") else "c d"
    assert "".join(pieces) == decode(new) == expected


def test_new_tokens_that_change_the_prompt_are_written_alone():
    texts = {(1,): "the '", (1, 2): "the's", (2,): "s"}
    assert decode_continuation(lambda ids: texts[tuple(ids)], "the '", [1], [2]) == "s"


def test_a_letter_of_several_bytes_is_held_back_until_it_is_whole():
    tokenizer = Tokenizer.train("bpe", ["x"], 260)
    shown: list[str] = []
    pieces = TextStreamer(tokenizer.decode, shown.append)
    for token in tokenizer.encode("aé→b"):
        pieces.on_token(0, token)
    assert shown == ["a", "é", "→", "b"]


def test_what_a_tokenizer_joins_later_does_not_end_the_stream():
    shown: list[str] = []
    texts = {1: "do", 2: "do n't", 3: "do n't", 4: "don't go"}
    pieces = TextStreamer(lambda ids: texts[len(ids)], shown.append)
    for token in range(4):
        pieces.on_token(0, token)
    assert shown == ["do", " n't", "go"]
    assert pieces.sent == "do n'tgo", "what was sent stays"


def test_half_a_letter_at_the_end_is_shown_at_last():
    tokenizer = Tokenizer.train("bpe", ["x"], 260)
    shown: list[str] = []
    pieces = TextStreamer(tokenizer.decode, shown.append)
    half = tokenizer.encode("aé")[:-1]
    for token in half:
        pieces.on_token(0, token)
    assert shown == ["a"]
    pieces.send(tokenizer.decode(half))
    assert shown == ["a", "�"]


def complaint(call, *given, **more):
    with pytest.raises(Misfit) as error:
        call(*given, **more)
    return str(error.value)


def test_empty_and_long_texts_are_told(models, tokenizer):
    model = models["encoder_decoder"]
    empty = "text 2 of 3 is empty, but there must be something to read; leave it out"
    assert complaint(translate, model, tokenizer, ["a", " ", "b"]) == empty
    assert complaint(classify, models["encoder"], tokenizer, ["a", "", "b"]) == empty
    long = " ".join("a" * 23)
    told = "text {} of {} has {} tokens, but the model takes {} at most; split it into shorter ones"
    assert complaint(translate, model, tokenizer, ["b", long]) == told.format(2, 2, 23, 22)
    assert complaint(continue_text, models["decoder"], tokenizer, long) == told.format(1, 1, 23, 22)
    assert complaint(classify, models["encoder"], tokenizer, [long + " a"]) == told.format(1, 1, 24, 23)
    assert len(classify(models["encoder"], tokenizer, [long])) == 1


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_a_model_is_ready_from_its_folder(models, tokenizer, kind, tmp_path):
    models[kind].save_pretrained(tmp_path / "model", tokenizer=tokenizer)
    found = load_for_task(tmp_path / "model", kind)
    assert not found.model.training
    assert found.tokenizer.tokens == tokenizer.tokens
    for name, parameter in models[kind].named_parameters():
        assert torch.equal(found.model.get_parameter(name), parameter)


def test_a_folder_that_does_not_do_is_told(models, tokenizer, tmp_path):
    folder = tmp_path / "model"
    assert complaint(load_for_task, folder, "encoder") == (
        f"{folder} should be the folder of a model, but there is no such folder; check the path"
    )
    models["decoder"].save_pretrained(folder)
    assert complaint(load_for_task, folder, "encoder_decoder") == (
        f"{folder} should hold a model to translate with, but it holds one to generate with;"
        " use transom generate, or name another folder"
    )
    assert complaint(load_for_task, folder, "decoder") == (
        f"{folder} should hold a tokenizer.json, but there is none; save the model with its tokenizer"
    )
    other = Tokenizer.train("words", [" ".join("stuvw")], 40)
    assert other.size != tokenizer.size
    models["decoder"].save_pretrained(folder, tokenizer=other)
    assert complaint(load_for_task, folder, "decoder") == (
        f"{folder} should hold a tokenizer of {tokenizer.size} tokens, as the model has, but tokenizer.json has"
        f" {other.size}; save the model with its own tokenizer"
    )
