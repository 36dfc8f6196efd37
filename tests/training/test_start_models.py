"""Runs that start from models of other libraries: what they train on is what those libraries train on."""

from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers comes with the extra hf")
from models.hugging_face.families import BART, T5, build  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, processors  # noqa: E402

from transom.models import from_pretrained  # noqa: E402
from transom.training.evaluate import evaluate  # noqa: E402
from transom.training.recipe import parse_recipe  # noqa: E402
from transom.training.tasks import TASKS  # noqa: E402
from transom.training.train import train  # noqa: E402

WORDS = ["<unk>", "<s>", "</s>", "<pad>", *(f"w{number}" for number in range(37))]
# Class and fields, the token that the decoder starts with, whether the tokenizer knows a start token and puts it first.
STARTS = {
    "bart": ("BartForConditionalGeneration", BART | {"forced_bos_token_id": 1}, 2, True),
    "marian": ("MarianMTModel", BART, 3, False),
    "t5": ("T5ForConditionalGeneration", T5 | {"eos_token_id": 2, "pad_token_id": 3}, 3, False),
}


def save_translator(folder, name):
    """A random model of transformers with a tokenizer of words."""
    class_name, fields, start, has_start = STARTS[name]
    model = build(class_name, fields | {"decoder_start_token_id": start})
    model.save_pretrained(folder)
    engine = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    around, special = ("<s> $A </s>", ["<s>", "</s>"]) if has_start else ("$A </s>", ["</s>"])
    engine.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[(token, WORDS.index(token)) for token in special]
    )
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"} | (
        {"bos_token": "<s>"} if has_start else {}
    )
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=engine, **names)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def translator(tmp_path, **data):
    pairs = [(f"w{n} w{n + 1} w{n + 2}"[: 2 + n % 9].strip(), f"w{n + 1} w{n}"[: 2 + n % 4].strip()) for n in range(30)]
    for name, rows in (("train", pairs), ("valid", pairs[:11])):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    files = {name: str(tmp_path / f"{name}.tsv") for name in ("train", "valid")}
    table = {
        "task": "translate",
        "folder": str(tmp_path / "run"),
        "start": {"model": str(tmp_path / "theirs")},
        "data": {**files, "format": "tsv", "longest": 16, **data},
        "train": {"tokens": 4096, "updates": 2, "threads": 1},
        "optimizer": {"rate": 1e-12},
        "judge": {"write": False},
    }
    return pairs[:11], parse_recipe(table, "the test")


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("stored", [False, True])
@torch.no_grad()
def test_a_translator_is_trained_on_the_loss_of_transformers(tmp_path, name, stored):
    theirs, tokenizer = save_translator(tmp_path / "theirs", name)
    pairs, recipe = translator(tmp_path, **({"store": str(tmp_path / "store")} if stored else {}))
    read = tokenizer([source for source, _ in pairs], padding=True, return_tensors="pt")
    labels = tokenizer(text_target=[target for _, target in pairs], padding=True, return_tensors="pt").input_ids
    expected = theirs(
        input_ids=read.input_ids,
        attention_mask=read.attention_mask,
        labels=labels.masked_fill(labels == tokenizer.pad_token_id, -100),
    ).loss.item()
    task = TASKS["translate"](recipe, tmp_path / "run", print)
    assert task.evaluate(task.new_model().eval()).metrics["loss"] == pytest.approx(expected, rel=1e-4)
    batch = task.batch(0, 0, slice(None))
    assert batch.targets == int((batch.tensors["next"] != 3).sum())


def test_a_fine_tuned_translator_still_starts_with_its_token(tmp_path):
    save_translator(tmp_path / "theirs", "bart")
    recipe = translator(tmp_path)[1]
    folder = train(recipe)
    model = from_pretrained(folder)
    assert model.generation.decoder_start_token_id == 2
    task = TASKS["translate"](recipe, tmp_path / "run", print)
    with torch.no_grad():
        before = task.evaluate(task.new_model().eval()).metrics["loss"]
    assert evaluate(recipe, folder, 1, print).metrics["loss"] == pytest.approx(before, rel=1e-4)


def test_a_run_starts_from_a_gguf_file(tmp_path):
    pytest.importorskip("gguf", reason="gguf comes with the extra gguf")
    from models.test_gguf import llama, write

    file = write(tmp_path / "model.gguf", llama())
    (tmp_path / "text.txt").write_text("ab c a b cab " * 90)
    table = {
        "task": "write",
        "folder": str(tmp_path / "run"),
        "data": {"train": str(tmp_path / "text.txt"), "format": "document", "held_out": 60},
        "start": {"model": str(file)},
        "train": {"updates": 2, "block": 8, "rows": 2, "threads": 1},
    }
    recipe = parse_recipe(table, "the test")
    model = train(recipe)
    assert Path(model / "tokenizer_config.json").exists()
    assert evaluate(recipe, model, 1, print).metrics["loss"] > 0
