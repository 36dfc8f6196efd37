"""Attention that a model writes out by hand is seen by its product with the values, or named as unseen."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from watched import Plain, Projecting, Stack, run_twice

import transom
from transom.lens.capture.layer_kinds import other_kind
from transom.lens.unseen_attention import UnseenAttention

torch.manual_seed(43)
X = torch.randn(3, 5, 14)
WAY_OUT = (
    'compute it with F.scaled_dot_product_attention (for Hugging Face models attn_implementation="sdpa"), leave it out'
    ' with layers=…, or give unseen="allow" and read trace.unseen'
)


def split(x):
    return x.unflatten(-1, (2, 7)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def own_weights(x):
    return (split(x) @ split(x).mT).softmax(-1)


class Mix(nn.Module):
    """A function of (batch, token, 14) as a module; nothing in its name says attention."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def exp_over_sum(scores):
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def by(weights):
    """Attention over two heads, its weights from the scores by that function."""
    return lambda x: merge(weights(split(x) @ split(x).mT) @ split(x))


def in_chunks(x):
    heads = split(x)
    return merge(torch.cat([(chunk @ heads.mT).softmax(-1) @ heads for chunk in heads.split(2, dim=2)], dim=2))


def single_rows(x):
    heads = split(x)
    return merge(torch.cat([exp_over_sum(heads[:, :, [i]] @ heads.mT) @ heads for i in range(5)], dim=2))


def single_heads(x):
    rows = [[(head @ head.mT).softmax(-1) @ head for head in row.split(7, -1)] for row in x]
    return torch.stack([torch.cat(heads, dim=-1) for heads in rows])


def keys_last_but_one(x):
    heads = x.unflatten(-1, (2, 7))
    return torch.einsum("bmnh,bmhd->bnhd", torch.einsum("bnhd,bmhd->bmnh", heads, heads).softmax(1), heads).flatten(2)


def transposed(x):
    return merge((split(x).mT @ own_weights(x).mT).mT)


SPELLINGS = {
    "exp over sum": by(exp_over_sum),
    "log-sum-exp": by(lambda scores: (scores - scores.logsumexp(-1, keepdim=True)).exp()),
    "log-softmax": by(lambda scores: scores.log_softmax(-1).exp()),
    "masked softmax": by(lambda s: torch._masked_softmax(s, torch.zeros_like(s, dtype=torch.bool), 3, 2)),
    "a power": by(lambda scores: 2.718281828459045**scores / (2.718281828459045**scores).sum(-1, keepdim=True)),
    "keys not last": keys_last_but_one,
    "transposed": transposed,
    "five axes": lambda x: merge((exp_over_sum(split(x)[None] @ split(x)[None].mT) @ split(x)[None])[0]),
    "chunks of queries": in_chunks,
    "single rows": single_rows,
    "single heads in two axes": single_heads,
}


@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", SPELLINGS)
def test_weights_values_and_output_are_seen_however_they_are_written(kind, context):
    model = Stack(Plain(), Mix(SPELLINGS[kind]))
    with context():
        plain, watched, trace = run_twice(model, X)
        expected = own_weights(X + model.layers[0](X))
    assert torch.equal(plain, watched)
    assert (trace.names, trace.unseen) == (["layers.0", "layers.1"], [])
    assert torch.allclose(trace[1].weights(), expected, atol=1e-6)
    assert trace[1].receipt().holds


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("kind", ["exp over sum", "log-softmax", "keys not last", "transposed", "five axes"])
def test_an_edge_is_cut_where_weights_and_values_are_multiplied(kind, how):
    model, x = Stack(Mix(SPELLINGS[kind])), X.clone().requires_grad_()
    with transom.knock_out(model, head=1, query=3, key=[0, 2], how=how):
        output = model(x)
    removed = torch.zeros(2, 5, 5, dtype=torch.bool)
    removed[1, 3, [0, 2]] = True
    y = X.clone().requires_grad_()
    scores = split(y) @ split(y).mT
    weights = scores.masked_fill(removed, -torch.inf).softmax(-1)
    if how == "after":
        weights = scores.softmax(-1).masked_fill(removed, 0.0)
    expected = y + merge(weights @ split(y))
    assert torch.allclose(output, expected, atol=1e-6)
    random = torch.randn(3, 5, 14)
    output.backward(random)
    expected.backward(random)
    assert torch.allclose(x.grad, y.grad, atol=1e-5)


def test_chunks_of_queries_cannot_be_cut_and_say_so(own_errors):
    model = Stack(Mix(in_chunks))
    with pytest.raises(transom.Misfit) as caught, transom.knock_out(model, key=0):
        model(X)
    assert str(caught.value) == (
        "edges of 'layers.0' were to be knocked out, but its attention is computed in a form that cannot be cut; knock"
        ' out other layers with layer=…, or load the model with attn_implementation="sdpa"'
    )


def out_of_order(x):
    heads = split(x)
    return merge(torch.cat([(chunk @ heads.mT).softmax(-1) @ heads for chunk in heads.split(2, dim=2)][::-1], dim=2))


def block_by_block(x):
    """A softmax that is built up over blocks of keys."""
    heads = split(x)
    total, output = torch.zeros(3, 2, 5, 1), torch.zeros(3, 2, 5, 7)
    for keys in heads.split(2, dim=2):
        exponentials = (heads @ keys.mT).exp()
        total, output = total + exponentials.sum(-1, keepdim=True), output + exponentials @ keys
    return merge(output / total)


UNSEEN = {
    "out of order": (Mix(out_of_order), "it is computed in pieces, and which queries they belong to is not known"),
    "block by block": (
        Mix(block_by_block),
        "a softmax of a product over (3, 2, 5, 2) was multiplied with values, but its weights could not be read",
    ),
    "projections": (Projecting(), "its query, key and value projections ran, but no attention was seen under it"),
}


@pytest.mark.parametrize("kind", UNSEEN)
def test_what_cannot_be_seen_raises_an_error_or_is_listed(kind, own_errors):
    layer, reason = UNSEEN[kind]
    model = Stack(Plain(), layer)
    with pytest.raises(transom.Misfit) as caught, transom.watch(model):
        model(X)
    name = type(layer).__name__
    message = f"attention ran that could not be captured: 'layers.1' ({name}): {reason}; {WAY_OUT}"
    assert str(caught.value) == message
    with pytest.warns(UserWarning, match="could not be captured") as warned, transom.watch(model, unseen="warn"):
        model(X)
    assert [str(warning.message) for warning in warned] == [message]
    with warnings.catch_warnings(action="error"), transom.watch(model, unseen="allow") as trace:
        model(X)
    assert trace.names == ["layers.0"]
    assert trace.unseen == [UnseenAttention("layers.1", name, reason, "strong")]
    with transom.watch(model, layers="layers.0") as trace:
        model(X)
    assert trace.unseen == []


def test_unseen_takes_three_words(own_errors):
    with pytest.raises(transom.Misfit) as caught, transom.watch(Plain(), unseen="no"):
        pass
    assert str(caught.value) == (
        "unseen must be one of raise, warn, allow, but got 'no'; trace.unseen lists what is unseen"
    )


class GatedDeltaNet(Projecting):
    """A name of linear attention."""


def test_layers_of_another_kind_are_listed_with_one_warning():
    model = Stack(Plain(), GatedDeltaNet(), GatedDeltaNet())
    with pytest.warns(UserWarning, match="not shown") as warned, transom.watch(model) as trace:
        model(X)
    assert [str(warning.message) for warning in warned] == [
        "not shown, as trace.unseen lists: 'layers.1', 'layers.2' (GatedDeltaNet): linear attention: it has no"
        " attention weights"
    ]
    reason = "linear attention: it has no attention weights"
    assert trace.unseen == [UnseenAttention(f"layers.{n}", "GatedDeltaNet", reason, "other kind") for n in (1, 2)]


class MoeGatedDeltaNet(Projecting):
    """The same in a model whose name has a part that is also a layer's."""


def test_a_mixture_of_experts_in_the_name_of_a_model_hides_no_other_kind():
    assert other_kind("MoeGatedDeltaNet") == "linear attention"
    assert other_kind("GraniteMoeHybridMambaLayer") == "a state space"
    assert other_kind("MambaSparseMoeBlock") is None
    with (
        pytest.warns(UserWarning, match="linear attention"),
        transom.watch(model := Stack(Plain(), MoeGatedDeltaNet())),
    ):
        model(X)


class GatedAttention(nn.Module):
    """A gate over channels that is named after attention, as PatchTSMixer's."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(X.shape[-1], X.shape[-1])

    def forward(self, x):
        return x * self.map(x).softmax(-1)


def test_a_gate_named_after_attention_is_listed_and_not_shown():
    trace = run_twice(Stack(Plain(), GatedAttention()), X)[2]
    assert trace.names == ["layers.0"]
    reason = f"a softmax over {tuple(X.shape)} ran in it, and scaled its output"
    assert trace.unseen == [UnseenAttention("layers.1", "GatedAttention", reason, "weak")]


class RelativeValues(nn.Module):
    """Values, and values of relative positions, with the same weights: as in VITS."""

    def forward(self, x):
        weights, V = own_weights(x), split(x)
        tokens, width = V.shape[2:]
        shifted = torch.stack([F.pad(weights[:, :, i], (tokens - 1 - i, i)) for i in range(tokens)], 2)
        relative = torch.linspace(-1, 1, (2 * tokens - 1) * width).view(-1, width)
        return merge(weights @ V + shifted @ relative.expand(*V.shape[:2], -1, -1))


def test_a_second_term_with_the_same_weights_hides_nothing():
    trace = run_twice(Stack(RelativeValues()), X)[2]
    assert len(trace) == 1
    assert not trace.unseen
    assert torch.allclose(trace[0].weights(), own_weights(X), atol=1e-6)
    assert trace[0].receipt().holds


class SlowAttention(nn.Module):
    """Values multiplied element by element: only the softmax is seen."""

    def forward(self, x):
        return merge((own_weights(x)[..., None] * split(x)[:, :, None]).sum(-2))


def test_weights_without_values_are_seen_alone():
    trace = run_twice(Stack(SlowAttention()), X)[2]
    assert str(trace[0].receipt()) == "not checkable: the model computes it by hand, and its values were not seen"
    assert torch.allclose(trace[0].weights(), own_weights(X), atol=1e-6)
    table = transom.effect(
        Stack(SlowAttention()).eval(), X[:1], [(0, 1, 3, 2)], output=lambda result: result[:, 3].norm(dim=-1)
    )
    assert table.notes[0] == "the values of 'layers.0' are not seen: norm, contribution and local are not known"


def test_dropout_between_softmax_and_values_makes_it_not_checkable():
    model = Stack(Mix(by(lambda scores: F.dropout(scores.softmax(-1), 0.4))))
    plain, watched, trace = run_twice(model, X)
    assert torch.equal(plain, watched)
    assert torch.allclose(trace[0].weights(), own_weights(X), atol=1e-6)
    assert str(trace[0].receipt()) == (
        "not checkable: the model changed these weights between its softmax and its values"
    )
