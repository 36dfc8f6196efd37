"""A Trace by its names, what `watch` takes, and what both say when something is not there."""

import pytest
import torch
from torch import nn
from watched import Plain, Stack

import transom

torch.manual_seed(41)
X = torch.randn(3, 5, 14)


def by_hand(x):
    return (x @ x.mT).softmax(-1) @ x


class HandmadeAttention(nn.Module):
    def forward(self, x):
        return by_hand(x)


def traced(model, times=1, **named):
    with transom.watch(model, **named) as trace:
        for _ in range(times):
            model(X)
    return trace


def test_names_numbers_and_order():
    trace = traced(Stack(Plain(), nn.Sequential(Plain(is_causal=True))))
    assert trace.names == ["layers.0", "layers.1.0"]
    assert len(trace) == 2
    assert list(trace) == [trace["layers.0"], trace["layers.1.0"]] == [trace[0], trace[-1]]
    assert list(trace.items()) == list(zip(trace.names, trace, strict=True))
    assert "layers.0" in trace
    assert "layers" not in trace
    assert repr(trace) == "Trace(2 attentions: 'layers.0', 'layers.1.0')"


def test_a_module_that_runs_again_is_asked_for_with_all(own_errors):
    layer = Plain()
    trace = traced(Stack(layer, layer), times=3)
    assert trace.names == ["layers.0"], "a shared module has one path"
    assert len(trace.all("layers.0")) == len(trace) == 6
    with pytest.raises(transom.Misfit) as caught:
        trace["layers.0"]
    assert str(caught.value) == "'layers.0' ran 6 times, so it is not one attention; take trace.all('layers.0')[-1]"


def test_what_is_not_there_names_what_is(own_errors):
    trace = traced(Stack(*(Plain() for _ in range(8))))
    with pytest.raises(transom.Misfit) as caught:
        trace["layer.3"]
    assert str(caught.value) == "no attention ran in 'layer.3'; nearest are 'layers.3', 'layers.7', 'layers.6'"
    with pytest.raises(transom.Misfit) as caught:
        trace.all("encoder")
    assert str(caught.value) == (
        "no attention ran in 'encoder'; those that did are 'layers.0', 'layers.1', 'layers.2', 'layers.3', 'layers.4',"
        " 'layers.5' and 2 more"
    )
    with pytest.raises(transom.Misfit) as caught:
        trace[8]
    assert str(caught.value) == "there are attentions=8, so 8 is none of them; count from 0 to 7, or back from -1"


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        (1, ["layers.1.0"]),
        ([2, 0], ["layers.0", "layers.1.0", "layers.2"]),
        ("layers.1", ["layers.1.0"]),
        (["layers.2", "layers.0"], ["layers.0", "layers.2"]),
        ("*.0", ["layers.0", "layers.1.0"]),
    ],
)
def test_layers_narrow_what_is_kept(layers, names):
    assert traced(Stack(Plain(), nn.Sequential(Plain()), Plain()), layers=layers).names == names


def test_a_layer_that_never_ran_is_an_error(own_errors):
    model = Stack(Plain(), Plain())
    with pytest.raises(transom.Misfit) as caught:
        traced(model, layers=["layers.0", "layers.5"])
    assert str(caught.value) == (
        "layer 'layers.5' was to be watched, but no attention ran in it; nearest are 'layers.1', 'layers.0'"
    )
    with pytest.raises(transom.Misfit) as caught:
        traced(model, layers=7)
    assert str(caught.value) == (
        "layer 7 was to be watched, but no attention ran in it; those that did are 'layers.0', 'layers.1'"
    )


WAY_OUT = (
    "run it inside the block and in its thread, with attention that PyTorch computes (for Hugging Face models"
    ' attn_implementation="sdpa")'
)


def test_nothing_seen_is_an_error_that_names_what_looks_like_attention(own_errors):
    with pytest.raises(transom.Misfit) as caught, transom.watch(Stack(Plain(), nn.MultiheadAttention(14, 2))):
        pass
    assert str(caught.value) == f"no attention of Stack was seen: 'layers.1' look like attention; {WAY_OUT}"
    with pytest.raises(transom.Misfit) as caught, transom.watch(nn.Linear(14, 3)) as trace:
        Plain()(X)
    assert len(trace) == 0
    assert str(caught.value) == (
        "no attention of Linear was seen: none of its modules looks like attention; 1 attentions ran in modules that"
        f" are not part of it; {WAY_OUT}"
    )


def test_an_exception_of_the_block_is_not_covered_by_ours():
    with pytest.raises(ZeroDivisionError), transom.watch(Plain(), layers=9):
        _ = 1 / 0


def test_statistics_alone_are_those_of_the_whole(own_errors):
    model = Stack(Plain(), Plain(is_causal=True))
    whole, few = traced(model), traced(model, keep="statistics")
    assert few.names == whole.names
    for glance, sight in zip(few, whole, strict=True):
        for word in ("entropy", "peak", "distance", "received"):
            assert torch.equal(getattr(glance, word)(), getattr(sight, word)())
        assert torch.equal(glance.lse, sight.lse)
        assert glance.receipt() == sight.receipt()
        kept = [x for x in (*vars(glance).values(), *vars(glance.statistics).values()) if isinstance(x, torch.Tensor)]
        assert sum(x.numel() for x in kept) == 5 * 3 * 2 * 5, "five numbers for each row and key"
    assert repr(few[0]) == "StatsOnlySight(batch=3, heads=2, queries=5, keys=5)"
    for ask in (lambda: few[0].weights(), lambda: few[0].top(2), lambda: few[0].map(0), lambda: few[0].Q):
        with pytest.raises(transom.Misfit) as caught:
            ask()
        assert str(caught.value) == (
            "this needs Q, K and V, but only statistics of the attention were kept; watch with keep='qkv' to have them"
        )


def test_a_sight_and_statistics_alone_share_one_interface(own_errors):
    whole, few = traced(Plain()), traced(Plain(), keep="statistics")
    for view in (whole[0], few[0]):
        assert isinstance(view, transom.lens.AttentionView)
        assert view.shape == (3, 2, 5, 5)
    assert whole[0].full is whole[0].require_full() is whole[0]
    assert few[0].full is None
    assert not isinstance(few[0], transom.Sight)
    assert not hasattr(few[0], "problem")
    with pytest.raises(transom.Misfit, match="only statistics of the attention were kept"):
        few[0].require_full()
    with pytest.raises(AttributeError, match=r"^'StatsOnlySight' object has no attribute 'wieghts'$"):
        few[0].wieghts  # noqa: B018


def test_tokens_are_kept_per_sequence(own_errors):
    words = ["a", "b", "c", "d", "e"]
    assert traced(Plain(), tokens=words).tokens == [words]
    assert traced(Plain(), tokens=[words, words]).tokens == [words, words]
    assert traced(Plain()).tokens is None
    for wrong, shown in (("abc", "'abc'"), ([1, 2], "[1, 2]"), ([["a"], "b"], "[['a'], 'b']")):
        with pytest.raises(transom.Misfit) as caught:
            traced(Plain(), tokens=wrong)
        assert str(caught.value) == (
            f"tokens must be a list of strings, or one such list per sequence, but got {shown};"
            " a tokenizer gives them from its ids"
        )


def test_what_watch_does_not_take(own_errors):
    with pytest.raises(transom.Misfit) as caught, transom.watch(by_hand):
        pass
    assert str(caught.value) == "watch takes a torch.nn.Module, but got function; give the model itself"
    with pytest.raises(transom.Misfit) as caught, transom.watch(Plain(), keep="all"):
        pass
    assert str(caught.value) == "keep must be one of qkv, statistics, but got 'all'; qkv keeps all that weights need"
