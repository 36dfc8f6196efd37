"""A model is saved only if its config describes it completely."""

import re
from copy import copy
from functools import partial

import pytest
import torch
from models.small import PARTS, decoder, encoder, encoder_decoder, rows
from torch import nn
from torch.nn.utils import parametrize

from transom.layers import ARRANGEMENTS, FEED_FORWARDS, NORMS, POSITIONS, Rotary
from transom.layers.position_encoding import PositionTable
from transom.lens.capture.watch import watch
from transom.models import from_pretrained
from transom.models.config_match import attributes, check_config_match, compare_modules, differences
from transom.names import Misfit

CHOICES = [
    *PARTS.values(),
    *({"positions": name} for name in POSITIONS),
    *({"arrangement": name} for name in ARRANGEMENTS),
    *({"norm": name} for name in NORMS),
    *({"feed_forward": name} for name in FEED_FORWARDS),
    {"tying": "none"},
    {"attention_dropout": 0.3, "hidden_dropout": 0.2},
]
every_choice = pytest.mark.parametrize(
    "parts", CHOICES, ids=lambda parts: ", ".join(f"{name}={value}" for name, value in parts.items()) or "plain"
)
BUILDERS = {"encoder": encoder, "decoder": decoder, "encoder_decoder": encoder_decoder}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(71)


def build_model(kind, parts):
    """A model of this kind; an encoder has no `tying`."""
    return BUILDERS[kind](**{name: value for name, value in parts.items() if name != "tying" or kind != "encoder"})


def assert_refused(message, model, folder):
    """Saving raises an error with this message, and writes nothing."""
    message = (
        f"{message}, and the saved model would load without it; put that part back, or keep model.state_dict() and"
        " build the model yourself"
    )
    with pytest.raises(Misfit, match=f"^{re.escape(message)}$"):
        model.save_pretrained(folder / "model")
    assert not (folder / "model").exists()


def run(model):
    tokens = torch.stack(rows(7, 7))
    return model(tokens, tokens) if model.kind == "encoder_decoder" else model(tokens)


def train_step(model):
    """One step of training, which fills all tables."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run(model).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("kind", BUILDERS)
@every_choice
def test_an_unchanged_model_is_saved_after_training_and_in_any_dtype(kind, parts, tmp_path):
    model = build_model(kind, parts)
    check_config_match(model)
    train_step(model)
    check_config_match(model)
    model.eval()
    model.save_pretrained(tmp_path / "model")
    with torch.no_grad():
        assert torch.equal(run_seeded(model), run_seeded(from_pretrained(tmp_path / "model")))
    model.requires_grad_(False)
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        check_config_match(model.to(dtype))


@torch.no_grad()
def run_seeded(model):
    torch.manual_seed(73)
    return run(model)


@every_choice
@pytest.mark.usefixtures("own_errors")
def test_any_attribute_of_any_part_is_noticed(parts):
    model = build_model("encoder_decoder", {**parts, "encoder_layers": 1, "decoder_layers": 1})
    run(model)
    with torch.device("meta"):
        expected = type(model)(model.config)
    assert not list(differences(expected, model))
    twins, count = dict(expected.named_modules()), 0
    for path, module in model.named_modules():
        for name, value in attributes(module).items():
            attribute = f"{path}.{name}" if path else name
            for changed in changed_values(value):
                vars(module)[name] = changed
                difference = next(compare_modules(path, twins[path], module), ("no difference",))
                assert difference[0].startswith(attribute)
                vars(module)[name] = value
                count += 1
    assert count > 50
    assert not list(differences(expected, model))


@pytest.mark.usefixtures("own_errors")
def test_every_part_is_reached():
    model = encoder_decoder()
    with torch.device("meta"):
        expected = type(model)(model.config)
    for path, module in model.named_modules():
        module.forward = run
        assert [name for name, *_ in differences(expected, model)] == [f"{path}.forward" if path else "forward"]
        del module.forward


def changed_values(value):
    """Values like this one that differ from it."""
    if isinstance(value, bool):
        return [not value]
    for kind, change in CHANGED_VALUES.items():
        if isinstance(value, kind):
            return change(value)
    if callable(value):
        return [torch.tanh, lambda x: x]
    if hasattr(value, "__dict__"):
        return [
            object(),
            *(replaced(value, name, changed) for name in vars(value) for changed in changed_values(vars(value)[name])),
        ]
    return [] if value is None else [None]


def changed_dicts(value):
    return [{**value, "more": 1}, *({**value, name: new} for name in value for new in changed_values(value[name]))]


def changed_tables(value):
    """Only other values count: a table that has fewer rows, or none yet, is the same table."""
    wrong_rows = [] if value.rows is None else [replaced(value, "rows", value.rows + 0.01)]
    return [replaced(value, "formula", torch.tanh), *wrong_rows]


CHANGED_VALUES = {
    (int, float): lambda value: [value + 1, None],
    str: lambda value: [value + "x"],
    torch.Tensor: lambda value: [value * 1.01, value[:0], None],
    dict: changed_dicts,
    tuple: lambda value: [(*value, 1), ()],
    partial: lambda value: [partial(value.func, *value.args, **value.keywords, more=1)],
    PositionTable: changed_tables,
}


def replaced(thing, name, value):
    """A copy of an object with another value of one attribute."""
    copied = copy(thing)
    setattr(copied, name, value)
    return copied


def test_another_base_of_rotary_positions(tmp_path):
    model = decoder(positions="rotary")
    model.stack.blocks[1].attention.positions = Rotary(6, base=500_000.0)
    assert_refused(
        "stack.blocks.1.attention.positions.base should be 10000.0, as the model's config says, but it is 500000.0",
        model,
        tmp_path,
    )


def test_another_activation(tmp_path):
    model = encoder(feed_forward="relu")
    model.stack.blocks[0].feed_forward.activation = torch.nn.functional.gelu
    assert_refused(
        "stack.blocks.0.feed_forward.activation should be relu, as the model's config says, but it is gelu",
        model,
        tmp_path,
    )


def replace_norm(model):
    model.stack.blocks[0].norm_attention = nn.RMSNorm(12)


def change_eps(model):
    model.stack.blocks[0].norm_attention.eps = 1e-3


def replace_forward(model):
    model.stack.forward = lambda x, *_, **__: x


def add_block(model):
    model.stack.blocks.append(decoder().stack.blocks[0])


def drop_bias(model):
    model.stack.blocks[0].attention.W_Q.bias = None


def grow_vocabulary(model):
    model.embedding.vectors = nn.Parameter(torch.randn(29, 12))


def untie(model):
    model.output = nn.Parameter(model.embedding.vectors.detach().clone())


def tie_blocks(model):
    model.stack.blocks[1].feed_forward.W_1.weight = model.stack.blocks[0].feed_forward.W_1.weight


def add_buffer(model):
    model.register_buffer("table", torch.ones(3))


def parametrized(model):
    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

    parametrize.register_parametrization(model.stack.blocks[0].feed_forward.W_1, "weight", Doubled())


def change_table(model):
    model.embedding.positions.waves.rows = torch.zeros(64, 12)


CHANGES = {
    replace_norm: "stack.blocks.0.norm_attention should be LayerNorm, as the model's config says, but it is RMSNorm",
    change_eps: "stack.blocks.0.norm_attention.eps should be 1e-05, as the model's config says, but it is 0.001",
    replace_forward: "stack.forward should be the class's own, as the model's config says, but it is <lambda>",
    add_block: "stack.blocks.2 should be absent, as the model's config says, but it is PostNorm",
    drop_bias: "stack.blocks.0.attention.W_Q.bias should be a tensor of shape (12,) with its values, as the model's"
    " config says, but it is None",
    grow_vocabulary: "embedding.vectors should be of shape (23, 12), as the model's config says, but it is of shape"
    " (29, 12)",
    tie_blocks: "stack.blocks.1.feed_forward.W_1.weight should be untied, as the model's config says,"
    " but it is tied to stack.blocks.0.feed_forward.W_1.weight",
    add_buffer: "table should be absent, as the model's config says, but it is a tensor of shape (3,)"
    " (tensor([1., 1., 1.]))",
    parametrized: "stack.blocks.0.feed_forward.W_1 should be Projection, as the model's config says, but it is"
    " ParametrizedProjection",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_any_other_change_is_named(change, tmp_path):
    model = decoder()
    change(model)
    assert_refused(CHANGES[change], model, tmp_path)


@pytest.mark.parametrize("change", [untie, change_table], ids=lambda change: change.__name__)
def test_other_parameters_and_tables_are_noticed(change):
    model = decoder()
    run(model)
    check_config_match(model)
    change(model)
    with pytest.raises(Misfit, match=r"^(output|embedding\.positions\.waves\.rows) should be "):
        check_config_match(model)


def test_notes_hooks_and_compiled_blocks_are_no_change(tmp_path):
    model = decoder()
    model.note, model._theirs = "mine", object()
    model.register_forward_hook(lambda *_: None)
    with watch(model):
        run(model)
        model.save_pretrained(tmp_path / "watched")
    for block in model.stack.blocks:
        block._compiled_call_impl = run  # as `block.compile()` leaves it, without loading a compiler
    model.save_pretrained(tmp_path / "compiled")
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("watched", "compiled")]
    assert files[0] == files[1]


def test_the_class_that_fsdp_adds_is_ignored():
    model = decoder()
    wrapper = type("FSDPModule", (), {"__module__": "torch.distributed.fsdp"})
    block = model.stack.blocks[0]
    block.__class__ = type("FSDPPostNorm", (wrapper, type(block)), {})
    check_config_match(model)
    block.__class__ = type("MyPostNorm", (type(decoder().stack.blocks[0]),), {})
    with pytest.raises(Misfit, match=r"^stack\.blocks\.0 should be PostNorm, .* but it is MyPostNorm, "):
        check_config_match(model)


def test_the_check_uses_no_random_numbers():
    model = decoder()
    before = torch.random.get_rng_state()
    check_config_match(model)
    assert torch.equal(before, torch.random.get_rng_state())
