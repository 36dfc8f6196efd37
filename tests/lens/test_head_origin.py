"""What a head was computed from: steps from X to the output, each against what the module itself gave."""

import numpy as np
import pytest
import torch
from torch import nn
from watched import Stack

import transom
from transom.layers import MultiHeadAttention
from transom.layers.positions import Alibi, Rotary
from transom.lens.capture.head_origin import BEFORE, NO_OUTPUT, OTHER_RUN, find_origin
from transom.lessons import steps_of
from transom.names import Misfit

BATCH, TOKEN, SOURCE, D_MODEL = 2, 5, 7, 15
ALL_STEPS = ("embedding", "Q", "K", "V", "scores", "scaled", "weights", "sum", "joined", "output")


class Normed(nn.Module):
    """A norm, then the attention, with something added afterwards in place."""

    def __init__(self, attention):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(D_MODEL), attention

    def forward(self, x, source=None):
        x = self.norm(x)
        args = (x,) if source is None else (x, source)
        if isinstance(self.attention, nn.MultiheadAttention):
            args = (x, x if source is None else source, x if source is None else source)
        self.out = self.attention(*args)
        self.out = self.out[0] if isinstance(self.out, tuple) else self.out
        return self.out.clone().mul_(3).add_(x)


def watch_first(model, *args):
    def run():
        with torch.no_grad():
            return model(*args)

    with transom.watch(model) as trace:
        run()
    return run, trace.names[0], trace[0]


def randomize(module):
    """Parameters far from 0, biases too."""
    torch.manual_seed(23)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.eval()


def attention(**kwargs):
    return MultiHeadAttention(D_MODEL, **{"heads": 3, "d_head": 4, "d_value": 7, **kwargs})


SELF = {
    "transom": lambda: attention(),
    "no bias": lambda: attention(bias=False),
    "grouped": lambda: attention(heads=6, kv_heads=2),
    "narrow": lambda: attention(narrow=True),
    "low rank": lambda: attention(value_rank=2),
    "torch": lambda: nn.MultiheadAttention(D_MODEL, 3, batch_first=True),
}


@pytest.mark.parametrize("name", SELF)
def test_self_attention_goes_from_x_to_what_the_module_gave(name):
    model = randomize(Normed(SELF[name]()))
    x = torch.randn(BATCH, TOKEN, D_MODEL)
    run, path, sight = watch_first(model, x)
    head = sight.problem.shape[1] - 1
    origin = find_origin(model, run, path, sight, head, batch=1)
    assert path == "attention"
    steps = steps_of(sight, 1, head, origin=origin)
    assert steps.names == ALL_STEPS
    with torch.no_grad():
        assert np.allclose(steps["embedding"].values, model.norm(x)[1].double().numpy(), rtol=1e-6, atol=1e-6)
    group = sight.problem.group
    for letter, index in (("Q", head), ("K", head // group), ("V", head // group)):
        used = getattr(sight, letter)[1, index].numpy()
        assert np.allclose(steps[letter].values, used, rtol=1e-4, atol=1e-4)
        cell = steps[letter].cell(2, 1)
        assert len(cell.terms) >= D_MODEL
        assert sum(np.prod(term[1:]) for term in cell.terms) == pytest.approx(cell.result, rel=1e-9)
    assert np.allclose(steps["output"].values, model.out[1].numpy(), rtol=1e-4, atol=1e-3)
    width = sight.V.shape[3]
    assert np.array_equal(steps["joined"].values[:, head * width :], steps["sum"].values)
    assert steps["joined"].columns[-1] == f"{head}.{width}"
    shared = ("3 heads share each K and V; head 5 uses those of key–value head 1.",) if group > 1 else ()
    assert steps.notes == (BEFORE, *shared)


@pytest.mark.parametrize(
    "build",
    [attention, lambda: attention(d_source=11), lambda: nn.MultiheadAttention(D_MODEL, 3, kdim=11, vdim=11)],
)
def test_cross_attention_has_an_x_for_each_side(build):
    model = randomize(Normed(build()))
    module = model.attention
    wide = D_MODEL if getattr(module, "d_source", 11) == D_MODEL else 11
    own, source = torch.randn(BATCH, TOKEN, D_MODEL), torch.randn(BATCH, SOURCE, wide)
    args = (own, source)
    if isinstance(module, nn.MultiheadAttention):  # which takes the sequence first
        args = (own.transpose(0, 1), source.transpose(0, 1))
    run, path, sight = watch_first(model, *args)
    origin = find_origin(model, run, path, sight, 1, batch=1)
    steps = steps_of(sight, 1, 1, origin=origin)
    assert steps.names == ("embedding", "at_embedding", *ALL_STEPS[1:])
    assert np.allclose(steps["at_embedding"].values, source[1].numpy())
    out = model.out if isinstance(module, MultiHeadAttention) else model.out.transpose(0, 1)
    assert np.allclose(steps["output"].values, out[1].numpy(), rtol=1e-4, atol=1e-3)


def test_what_positions_turn_is_shown_as_it_was_used():
    model = randomize(Normed(attention(positions=Rotary(4))))
    run, path, sight = watch_first(model, torch.randn(BATCH, TOKEN, D_MODEL))
    origin = find_origin(model, run, path, sight, 2)
    assert "W_Q" not in origin.parameters
    assert "W_K" not in origin.parameters
    assert origin.notes == (
        BEFORE,
        "Q and K are shown as the model used them: rotary positions turn them after the projection.",
    )
    steps = steps_of(sight, 0, 2, origin=origin)
    assert steps.names == ALL_STEPS
    assert steps["Q"].equation == "Q, as used"
    assert np.array_equal(steps["Q"].values, sight.Q[0, 2].double().numpy())
    assert steps["V"].equation == "V = X W_V + b_V"
    assert np.allclose(steps["output"].values, model.out[0].numpy(), rtol=1e-4, atol=1e-3)


def test_what_positions_add_to_scores_leaves_the_rest_exact():
    model = randomize(Normed(attention(positions=Alibi(3))))
    run, path, sight = watch_first(model, torch.randn(BATCH, TOKEN, D_MODEL))
    steps = steps_of(sight, 0, 1, origin=find_origin(model, run, path, sight, 1))
    assert "biased" in steps
    assert np.allclose(steps["output"].values, model.out[0].numpy(), rtol=1e-4, atol=1e-3)


class Scaled(nn.Module):
    """Attention by hand whose Q is multiplied after the projection, and which has no W_O."""

    def __init__(self):
        super().__init__()
        self.to_all = nn.Linear(D_MODEL, 3 * D_MODEL)

    def forward(self, x):
        Q, K, V = (part.unflatten(-1, (3, 5)).transpose(1, 2) for part in self.to_all(x).chunk(3, -1))
        return nn.functional.scaled_dot_product_attention(Q * 1.5, K, V).transpose(1, 2).flatten(2)


def test_what_cannot_be_proved_is_left_out_and_said():
    model = randomize(Stack(Scaled()))
    run, path, sight = watch_first(model, torch.randn(BATCH, TOKEN, D_MODEL))
    origin = find_origin(model, run, path, sight)
    assert set(origin.parameters) == {"W_K", "b_K", "W_V", "b_V"}
    assert origin.notes == (
        BEFORE,
        "Q is shown as the model used it: no projection in layers.0 gives it as X W + b (positions, a norm or a factor"
        " may come after it).",
        NO_OUTPUT,
    )
    assert steps_of(sight, origin=origin).names == ALL_STEPS[:-2]


def test_a_model_that_runs_otherwise_is_not_believed():
    model = randomize(Normed(attention()))
    run, path, sight = watch_first(model, torch.randn(BATCH, TOKEN, D_MODEL))
    assert run is not None
    origin = find_origin(model, lambda: model(torch.randn(BATCH, SOURCE, D_MODEL)), path, sight)
    assert origin.notes == (OTHER_RUN,)
    assert not origin.parameters
    assert origin.embedding is None
    origin = find_origin(model, lambda: model(torch.randn(BATCH, TOKEN, D_MODEL)), path, sight)
    assert not origin.parameters  # the numbers are others: nothing of this run proves the first


def test_the_hooks_are_gone_afterwards():
    model = randomize(Normed(attention()))
    run, path, sight = watch_first(model, torch.randn(BATCH, TOKEN, D_MODEL))
    find_origin(model, run, path, sight)
    assert not any(module._forward_hooks for module in model.modules())


def test_a_head_that_does_not_exist_raises_an_error(own_errors):
    model = randomize(Normed(attention()))
    run, path, sight = watch_first(model, torch.randn(BATCH, TOKEN, D_MODEL))
    with pytest.raises(Misfit) as caught:
        find_origin(model, run, path, sight, 3)
    assert str(caught.value) == "there are heads=3, so 3 is none of them; count from 0 to 2, or back from -1"
