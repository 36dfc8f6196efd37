"""Fine-tuning: a model to go on with, frozen parts, rates by depth, LoRA; resumed and saved as any run."""

from pathlib import Path

import pytest
import torch
from small_runs import labelled_file, outcome, pairs_file, small_recipe
from test_loop import Stop, StopAfter

from transom.models import Encoder, from_pretrained
from transom.names import Misfit
from transom.training.checkpoint import find_newest
from transom.training.evaluate import evaluate, evaluate_checkpoint
from transom.training.fine_tuning import depth_shares
from transom.training.optimizers import build_optimizer, set_rate
from transom.training.recipe import parse_recipe
from transom.training.train import train

MODEL = {"layers": 2, "d_model": 8, "d_hidden": 12, "heads": 2, "dropout": 0.0}


def classifier(tmp_path, name, **sections):
    table = {
        "task": "classify",
        "folder": str(tmp_path / name),
        "data": {"train": str(labelled_file(tmp_path)), "format": "labelled", "held_out": 20, "longest": 16},
        "train": {"tokens": 64, "updates": 6, "judge_every": 3, "checkpoint_every": 2, "threads": 1},
        "optimizer": {"rate": 1e-2},
        **sections,
    }
    return parse_recipe(table, "the test")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    recipe = classifier(folder, "first", model=MODEL, tokens={"kind": "words", "vocabulary": 30})
    return train(recipe)


def changed(before: Path, after: Path) -> set[str]:
    """The names of the parameters that differ."""
    old = dict(from_pretrained(before).named_parameters())
    return {
        name for name, parameter in from_pretrained(after).named_parameters() if not torch.equal(old[name], parameter)
    }


def test_a_run_goes_on_with_model_and_tokenizer(tmp_path, trained):
    recipe = classifier(tmp_path, "run", start={"model": str(trained)}, optimizer={"rate": 1e-12})
    model = train(recipe)
    assert (model / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()
    old, new = from_pretrained(trained), from_pretrained(model)
    assert new.config == old.config
    for name, parameter in new.named_parameters():
        assert torch.allclose(parameter, dict(old.named_parameters())[name], atol=1e-9)


def test_other_labels_get_a_new_head(tmp_path, trained):
    file = tmp_path / "other.txt"
    file.write_text("".join(f"{'xyz'[n % 3]} {'a ' * (n % 5 + 1)}{'b ' * (n % 7 + 1)}\n" for n in range(105)))
    notes = []
    recipe = classifier(
        tmp_path, "run", start={"model": str(trained)}, data={"train": str(file), "format": "labelled", "held_out": 5}
    )
    model = from_pretrained(train(recipe))
    assert isinstance(model, Encoder)
    assert model.config.labels == ("x", "y", "z")
    assert model.head.weight.shape == (3, 8)
    assert notes == []


def test_frozen_parts_keep_every_bit(tmp_path, trained):
    start = {"model": str(trained), "freeze": ["embedding.*", "stack.blocks.0.*"]}
    moved = changed(trained, train(classifier(tmp_path, "run", start=start)))
    assert moved
    assert not [name for name in moved if name.startswith(("embedding.", "stack.blocks.0."))]
    assert {"head.weight", "stack.blocks.1.attention.W_V.weight"} <= moved


def test_a_pattern_that_fits_no_parameter_is_an_error(tmp_path, trained):
    start = {"model": str(trained), "freeze": ["layer.0.*"]}
    with pytest.raises(Misfit) as error:
        train(classifier(tmp_path, "run", start=start))
    assert str(error.value) == (
        "start.freeze has 'layer.0.*', but no parameter is called so; they are called like 'embedding.vectors', and *"
        " stands for any letters"
    )
    with pytest.raises(Misfit, match="it names every parameter; name fewer"):
        train(classifier(tmp_path, "run", start={"model": str(trained), "freeze": ["*"]}))


def test_rates_fall_with_depth(trained):
    model = from_pretrained(trained)
    shares = depth_shares(model, 0.5)
    assert shares["head.weight"] == 1.0
    assert shares["stack.blocks.1.attention.W_Q.weight"] == 0.5
    assert shares["stack.blocks.0.norm_attention.bias"] == 0.25
    assert shares["embedding.vectors"] == 0.125
    optimizer = build_optimizer(model, "adamw", 1.0, 0.1, shares)
    set_rate(optimizer, 2.0)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        assert rates[id(parameter)] == 2.0 * shares[name]
    # One update of plain Adam moves each number by its rate, whatever the gradient's size.
    optimizer = build_optimizer(model, "adam", 1.0, 0.0, shares, eps=1e-30)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    set_rate(optimizer, 1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        assert float((before[name] - parameter).detach().mean()) == pytest.approx(1e-3 * shares[name], rel=1e-3)


SECTIONS = {
    "depth": {"start": {"depth_decay": 0.7}},
    "freeze": {"start": {"freeze": ["*.W_K.*"]}},
    "lora": {"lora": {"rank": 2, "also": ["head.*"]}},
}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_stopped_run_ends_with_the_same_bits(tmp_path, trained, name):
    recipes = []
    for run in ("whole", "stopped"):
        sections = {key: dict(value) for key, value in SECTIONS[name].items()}
        sections.setdefault("start", {})["model"] = str(trained)
        recipes.append(classifier(tmp_path, run, **sections))
    train(recipes[0])
    with pytest.raises(Stop):
        train(recipes[1], callbacks=[StopAfter(3)])
    train(recipes[1])
    assert outcome(recipes[0]) == outcome(recipes[1])


def test_lora_is_merged_into_the_model_and_moves_only_its_projections(tmp_path, trained):
    lora = {"rank": 2, "alpha": 4.0, "names": ["*.W_Q", "*.W_V"], "also": ["head.*"]}
    recipe = classifier(tmp_path, "run", start={"model": str(trained)}, lora=lora)
    folder = train(recipe)
    moved = changed(trained, folder)
    assert moved == {"head.weight", "head.bias"} | {
        f"stack.blocks.{block}.attention.{part}.weight" for block in (0, 1) for part in ("W_Q", "W_V")
    }
    old, new = (dict(from_pretrained(path).named_parameters()) for path in (trained, folder))
    update = new["stack.blocks.1.attention.W_V.weight"] - old["stack.blocks.1.attention.W_V.weight"]
    assert int(torch.linalg.matrix_rank(update, tol=1e-5)) <= 2
    whole = evaluate(recipe, folder, 1, print).metrics
    checkpoint = find_newest(Path(recipe.folder) / "checkpoints").checkpoint
    assert "stack.blocks.0.attention.W_Q.A.weight" in checkpoint.group("model")
    assert evaluate_checkpoint(recipe, checkpoint, 1, print).metrics.keys() == whole.keys()


def test_a_writer_and_a_translator_go_on_too(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat. " * 80)
    data = {"train": str(text), "format": "document", "held_out": 60}
    length = {"updates": 3, "block": 8, "rows": 2, "threads": 1}
    first = {"task": "write", "folder": str(tmp_path / "a"), "data": data, "train": length, "model": MODEL}
    writer = train(parse_recipe({**first, "tokens": {"kind": "characters"}}, "test"))
    table = {"task": "write", "folder": str(tmp_path / "b"), "data": data, "train": length}
    lora = {"rank": 1, "names": ["*.W_O"]}
    again = train(parse_recipe({**table, "start": {"model": str(writer)}, "lora": lora}, "test"))
    assert changed(writer, again) == {f"stack.blocks.{n}.attention.W_O.weight" for n in (0, 1)}
    translator = train(small_recipe(tmp_path / "c", pairs_file(tmp_path), train={"updates": 2}))
    recipe = small_recipe(tmp_path / "d", pairs_file(tmp_path), train={"updates": 2})
    table = {
        "task": "translate",
        "folder": str(tmp_path / "d"),
        "data": {"train": recipe.data.train, "format": "tsv", "held_out": 20},
    }
    table |= {"start": {"model": str(translator)}, "train": {"updates": 2, "tokens": 64}, "judge": {"write": False}}
    assert from_pretrained(train(parse_recipe(table, "test"))).config == from_pretrained(translator).config


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"lora": {}}, r"\[lora\] updates a trained model, but there is no \[start\]"),
        ({"start": {"model": "x", "freeze": ["y"]}, "lora": {}}, r"start.freeze is there too; leave it out"),
        ({"start": {"model": "x"}, "tokens": {"kind": "words"}}, r"\[start\] brings its tokenizer"),
        ({"start": {"model": "x"}, "vectors": {"file": "y"}}, r"\[start\] brings its embedding"),
        ({"start": {"model": "x"}, "lora": {"names": []}}, r"Expected `array` of length >= 1"),
    ],
)
def test_settings_that_do_not_go_together(tmp_path, sections, message):
    with pytest.raises(Misfit, match=message):
        classifier(tmp_path, "run", **({"model": MODEL} if "start" not in sections else {}), **sections)


def test_sizes_of_an_adopted_model_cannot_change(tmp_path, trained):
    with pytest.raises(Misfit, match=r"has 'd_model', but \[start\] brings the model with its sizes; only dropout,"):
        train(classifier(tmp_path, "run", start={"model": str(trained)}, model={"d_model": 16}))


def test_a_bert_of_hugging_face_is_fine_tuned(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers comes with the extra hf")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]
    engine = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    folder = tmp_path / "bert"
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=6, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=11,
        max_position_embeddings=20,
    )  # fmt: skip
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=engine, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    fast.save_pretrained(folder)
    recipe = classifier(tmp_path, "run", start={"model": str(folder), "depth_decay": 0.5})
    model = train(recipe)
    found = evaluate(recipe, model, 1, print).metrics
    assert 0 <= found["accuracy"] <= 1
    assert (model / "tokenizer_config.json").exists()
