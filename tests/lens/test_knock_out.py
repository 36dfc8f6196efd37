"""`knock_out` against float64 loops; other rows stay bit-identical; what cannot be knocked out raises an error."""

import threading

import pytest
import torch
from ablation_reference import edge_mask, output_without, weights_without
from torch import nn
from torch.utils.checkpoint import checkpoint
from watched import Plain, Stack

import transom
from transom import Misfit
from transom.lens.capture.call_state import CAPTURE
from transom.lens.capture.dispatch_hooks import INSTALLED
from transom.models import Decoder, DecoderConfig

torch.manual_seed(31)
X, SOURCE = torch.randn(3, 5, 14), torch.randn(3, 11, 14)
AHEAD = torch.ones(5, 5, dtype=torch.bool).triu(1)
PADDED = torch.zeros(3, 5, dtype=torch.bool)
PADDED[0, 3:] = True
HOWS = ("before", "after")
# Arguments of knock_out, and the same edges as (batch, head, query, key).
REQUESTS = {
    "an edge": ({"head": 1, "query": 3, "key": 2}, [(None, 1, 3, 2)]),
    "from the end": ({"head": -1, "query": -1, "key": -4}, [(None, 1, 4, 1)]),
    "of one sequence": ({"head": 0, "query": 4, "key": 0, "batch": 2}, [(2, 0, 4, 0)]),
    "two of a row": ({"head": 1, "query": 4, "key": [0, 3]}, [(None, 1, 4, 0), (None, 1, 4, 3)]),
    "a set": (
        {"edges": [(None, 0, 2, 1), (None, 1, 4, 4), (None, 1, 4, 2)]},
        [(None, 0, 2, 1), (None, 1, 4, 4), (None, 1, 4, 2)],
    ),
    "a key": ({"key": 1}, [(None, None, None, 1)]),
    "a range of queries": ({"query": range(2, 4), "key": slice(1, None)}, [(None, None, slice(2, 4), slice(1, None))]),
    "a head": ({"head": 0}, [(None, 0, None, None)]),
    "everything": ({"layer": "(model)"}, [(None, None, None, None)]),
}


def split_heads(x, heads=2):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_pytorchs_function_without_edges_is_the_loop_and_other_rows_keep_their_bits(causal, kind, how):
    request, edges = REQUESTS[kind]
    model = Plain(is_causal=causal)
    plain = model(X)
    with transom.knock_out(model, **request, how=how):
        output = model(X)
    expected = merge_heads(output_without(*model.project(X), edges, how, ~AHEAD if causal else None))
    assert torch.allclose(output.double(), expected, atol=1e-6)
    touched = merge_heads(edge_mask((3, 2, 5, 5), edges).any(-1, keepdim=True).expand(3, 2, 5, 7))
    assert torch.equal(output[~touched], plain[~touched])
    assert not torch.allclose(output, plain, atol=1e-3)
    assert torch.equal(model(X), plain)


def mha_qkv(model, x, source):
    """Q, K, V of nn.MultiheadAttention, from its parameters."""
    parts = zip((x, source, source), model.in_proj_weight.chunk(3), model.in_proj_bias.chunk(3), strict=True)
    return [split_heads(part @ W.mT + b) for part, W, b in parts]


MASKS = {
    "unmasked": ({}, None),
    "causal": ({"attn_mask": AHEAD}, ~AHEAD),
    "padded": ({"key_padding_mask": PADDED}, ~PADDED[:, None, None]),
    "a float mask": ({"attn_mask": torch.zeros(5, 5).masked_fill(AHEAD, -1e30)}, ~AHEAD),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("path", ["fast path", "by hand", "no weights"])
@pytest.mark.parametrize("masked", MASKS)
def test_multihead_attention_without_edges_in_output_and_weights(masked, path, how):
    kwargs, allowed = MASKS[masked]
    model = nn.MultiheadAttention(14, 2, batch_first=True).eval()
    edges = [(None, 1, 3, 2), (None, 0, 0, 0), (2, 1, 4, 1)]
    request = [transom.lens.Edge(None, head, query, key, batch) for batch, head, query, key in edges]
    need_weights = path != "no weights"
    with torch.set_grad_enabled(path != "fast path"):
        plain, _ = model(X, X, X, need_weights=need_weights, average_attn_weights=False, **kwargs)
        with transom.knock_out(model, edges=request, how=how), transom.watch(model) as trace:
            output, weights = model(X, X, X, need_weights=need_weights, average_attn_weights=False, **kwargs)
    heads = output_without(*mha_qkv(model, X, X), edges, how, allowed)
    expected = merge_heads(heads) @ model.out_proj.weight.double().mT + model.out_proj.bias.double()
    assert torch.allclose(output.double(), expected, atol=1e-6)
    assert torch.equal(output[:2, 1:3], plain[:2, 1:3])
    assert trace[0].receipt().holds, str(trace[0].receipt())
    assert weights is None or torch.allclose(weights, trace[0].weights(), atol=1e-6)
    assert trace[0].weights(batch=2, head=1, rows=4, keys=1) == 0.0


@pytest.mark.filterwarnings("ignore:.*nested tensor")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("padding", [None, PADDED], ids=["whole", "nested"])
def test_the_encoders_fast_path_gives_what_its_slow_one_gives(padding, how):
    layer = nn.TransformerEncoderLayer(14, 2, 23, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    output = []
    for fast in (True, False):
        with torch.set_grad_enabled(not fast), transom.knock_out(model, 1, 1, 2, [0, 1], how=how):
            output.append(model(X, src_key_padding_mask=padding))
    plain = model(X, src_key_padding_mask=padding)
    real = torch.ones(3, 5, dtype=torch.bool) if padding is None else ~padding
    assert torch.allclose(output[0][real], output[1][real], atol=1e-6)
    assert not torch.allclose(output[0][:, 2], plain[:, 2], atol=1e-3)
    assert torch.allclose(output[0][:, :2], plain[:, :2], atol=1e-6)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_transoms_own_attention_with_shared_heads_and_cross_attention(cross, how):
    layer = transom.layers.MultiHeadAttention(14, 6, kv_heads=2, d_head=4)
    source = SOURCE if cross else None
    with transom.knock_out(layer, head=[1, 4], query=[0, 3], key=2, how=how), transom.watch(layer) as trace:
        output = layer(X, source=source)
    edges = [(None, head, query, 2) for head in (1, 4) for query in (0, 3)]
    heads = output_without(*layer.project(X, source), edges, how)
    assert torch.allclose(
        output.double(), merge_heads(heads) @ layer.W_O.weight.double().mT + layer.W_O.bias, atol=1e-6
    )
    assert trace[0].receipt().holds
    assert torch.allclose(trace[0].output.double(), heads, atol=1e-6)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("sizes", [(1, 1, 7, 7), (2, 7, 7)], ids=["four axes", "three axes"])
def test_dropout_stays_the_one_that_was_drawn(sizes, how):
    """With the value of a key, and so its weight after dropout, read off a one-hot V."""
    model = nn.Module()
    Q, V = torch.randn(sizes), torch.eye(7).expand(sizes)
    model.forward = lambda Q: nn.functional.scaled_dot_product_attention(Q, Q, V, dropout_p=0.4)
    torch.manual_seed(3)
    plain, after_it = model(Q), torch.rand(3)
    torch.manual_seed(3)
    with transom.knock_out(model, query=5, key=1, how=how):
        output = model(Q)
    assert torch.equal(torch.rand(3), after_it)
    scores = (Q @ Q.mT / 7**0.5).double()
    expected = weights_without(scores, edge_mask(scores.shape, [(..., 5, 1)]), how) / 0.6
    assert torch.allclose(output.double(), torch.where(plain == 0, 0.0, expected), atol=1e-6)
    own = transom.layers.MultiHeadAttention(14, 2, dropout=0.4)
    with transom.knock_out(own, head=1, query=2, how=how), transom.watch(own) as trace:
        own(X, causal=True)
    assert trace[0].receipt().holds


@pytest.mark.parametrize("how", HOWS)
def test_gradients_are_those_of_the_loop(how):
    model, edges = Plain(is_causal=True), [(None, 1, 3, 2), (None, 1, 3, 0), (None, 0, 0, 0)]
    mha = nn.MultiheadAttention(14, 2, batch_first=True)
    for run, layer in ((lambda: model(X), model), (lambda: mha(X, X, X, attn_mask=AHEAD)[0], mha)):
        layer.zero_grad()
        with transom.knock_out(layer, edges=[(None, *edge[1:]) for edge in edges], how=how):
            out = run()
        out.square().sum().backward()
        output = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
        layer.zero_grad()
        differentiable(layer, edges, how).square().sum().backward()
        expected = [p.grad for p in layer.parameters() if p.grad is not None]
        assert len(output) == len(expected) > 1
        assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(output, expected, strict=True))


def differentiable(model, edges, how):
    """The model once more, in a few lines that autograd can follow."""
    Q, K, V = model.project(X) if isinstance(model, Plain) else mha_qkv(model, X, X)
    scores = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(AHEAD, -torch.inf)
    cut = edge_mask(scores.shape, edges)
    if how == "before":
        empty = (cut | AHEAD).all(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(cut & ~empty, -torch.inf), -1).masked_fill(empty, 0.0)
    else:
        weights = torch.softmax(scores, -1).masked_fill(cut, 0.0)
    out = merge_heads(weights @ V)
    return out if isinstance(model, Plain) else model.out_proj(out)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_other_kinds_of_numbers(dtype):
    model, x = Plain(is_causal=True).to(dtype), X.to(dtype)
    with torch.no_grad(), transom.knock_out(model, head=1, query=3, key=2):
        output = model(x)
    expected = merge_heads(output_without(*model.project(x), [(None, 1, 3, 2)], "before", ~AHEAD))
    assert output.dtype == dtype
    assert torch.allclose(output.double(), expected, atol=8 * torch.finfo(dtype).eps)


def test_knock_outs_add_up_and_what_is_seen_is_what_is_left():
    model = Stack(Plain(), Plain(is_causal=True))
    with (
        transom.knock_out(model, 1, 0, 4, 3),
        transom.watch(model) as trace,
        transom.knock_out(model, 1, 0, 4, 2, how="after"),
    ):
        model(X)
    own = transom.sight(trace[1].Q, trace[1].K, trace[1].V, causal=True).scores().double()
    expected = weights_without(own, edge_mask(own.shape, [(None, 0, 4, 3)]), "before").masked_fill(
        edge_mask(own.shape, [(None, 0, 4, 2)]), 0.0
    )
    assert torch.allclose(trace[1].weights().double(), expected, atol=1e-6)
    assert torch.allclose(trace[1].received(), expected.sum(2).float(), atol=1e-5)
    assert all(sight.receipt().holds for sight in trace)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("keep", ["qkv", "statistics"])
def test_what_is_left_is_saved_and_loaded(keep, how, tmp_path):
    model = Stack(Plain(is_causal=True), nn.Sequential(Plain()))
    request = [transom.lens.Edge(None, 1, [0, 3], 0, 2), transom.lens.Edge(1, 0, None, 1)]
    with transom.knock_out(model, edges=request, how=how), transom.watch(model, keep=keep) as trace:
        model(X)
    trace.save(tmp_path / "run.safetensors")
    again = transom.Trace.load(tmp_path / "run.safetensors")
    for saved, loaded in zip(trace, again, strict=True):
        assert loaded.receipt().holds
        assert torch.equal(saved.entropy(), loaded.entropy())
        assert torch.equal(saved.received(), loaded.received())
        assert keep == "statistics" or torch.equal(saved.weights(), loaded.weights())


def test_a_window_of_layers_and_nothing_else():
    model = Stack(*(Plain(is_causal=True) for _ in range(5)))
    with transom.watch(model) as before:
        model(X)
    with transom.knock_out(model, layer=range(2, 4), key=0), transom.watch(model) as trace:
        model(X)
    for layer, (sight, plain) in enumerate(zip(trace, before, strict=True)):
        lost = sight.weights()[..., 0].max() == 0.0
        assert lost == (layer in (2, 3))
        assert torch.equal(sight.output, plain.output) == (layer < 2)


def test_after_the_block_nothing_is_left_also_by_an_exception():
    model = Stack(Plain(), Plain())
    plain = model(X)
    with pytest.raises(RuntimeError), transom.knock_out(model, head=0):
        model(X[..., :3])
    assert torch.equal(model(X), plain)
    assert (CAPTURE.cutters, CAPTURE.listeners, INSTALLED.users) == ([], [], 0)


def test_other_models_in_the_block_are_left_alone():
    model, other = Plain(), Plain()
    plain = other(X)
    with transom.knock_out(model, head=0):
        assert torch.equal(other(X), plain)
        assert not torch.allclose(model(X), other(X))
    unseen = pytest.raises(Misfit, match="no attention of Plain was seen")
    with transom.watch(other) as trace, unseen, transom.knock_out(model, head=0):
        other(X)
    heads = torch.nn.functional.scaled_dot_product_attention(*other.project(X))
    assert torch.equal(trace[0].output, heads.detach())


CONTEXTS = {"inference": torch.inference_mode, "half precision": lambda: torch.autocast("cpu", dtype=torch.bfloat16)}


@pytest.mark.parametrize("context", CONTEXTS)
def test_without_gradients_and_in_mixed_precision(context):
    model = Stack(Plain(is_causal=True), Plain())
    with torch.no_grad(), CONTEXTS[context]():
        plain = model(X)
        with transom.knock_out(model, 1, 0, 2, 1), transom.watch(model) as trace:
            output = model(X)
        touched = (output != plain).any(dim=-1)
    assert touched[:, 2].all()
    assert touched.sum() == 3
    assert all(sight.receipt().holds for sight in trace)


def test_a_knock_out_holds_for_its_own_thread():
    model, output = Plain(), []
    plain = model(X)
    with transom.knock_out(model, head=0):
        thread = threading.Thread(target=lambda: output.append(model(X)))
        thread.start()
        thread.join()
        model(X)
    assert torch.equal(output[0], plain)


@pytest.mark.slow
def test_what_is_computed_again_for_gradients_is_knocked_out_again():
    model, x = Stack(Plain(), Plain(is_causal=True)), X.clone().requires_grad_()
    with transom.knock_out(model, 1, 0, 2, 1, how="after"):
        (again,) = torch.autograd.grad(checkpoint(model, x, use_reentrant=False).square().sum(), x)
        (once,) = torch.autograd.grad(model(x).square().sum(), x)
    assert torch.allclose(again, once, atol=1e-6)


@pytest.mark.slow
def test_compiled_attention_cannot_be_cut_and_says_so(own_errors):
    model = Stack(Plain(), Plain())
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad(), pytest.raises(Misfit) as error, transom.knock_out(compiled, head=1):
        compiled(X)
    assert str(error.value) == (
        "edges of 'compiled[0]' were to be knocked out, but it is compiled; knock them out of the model as it was"
        " before torch.compile, which has the same parameters"
    )


def test_gradients_through_dropout_cannot_follow_an_edge_cut_after_the_softmax(own_errors):
    model = Plain(dropout_p=0.3)
    with pytest.raises(Misfit) as error, transom.knock_out(model, head=1, how="after"):
        model(X)
    assert str(error.value) == (
        "gradients through the dropout of Plain cannot follow an edge knocked out after the softmax; call model.eval(),"
        ' or use how="before"'
    )


def test_positions_of_transoms_own_generation_are_those_of_the_whole_text():
    torch.manual_seed(3)
    model = Decoder(DecoderConfig(vocabulary=19, d_model=14, heads=2, d_hidden=23, layers=2)).eval()
    request = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None}
    start = torch.randint(3, 19, (1, 4))
    edges = [(1, head, query, key) for head in (0, 1) for query in range(4, 8) for key in (0, 1, 2, 3)]
    with torch.no_grad(), transom.knock_out(model, edges=edges):
        written = model.generate(start, **request)
    with torch.no_grad(), transom.knock_out(model, edges=edges):
        for length in range(5, 9):
            assert model(written[:, :length])[0, -1].argmax() == written[0, length]
    assert written.shape == (1, 9)


# Arguments, and the error they raise.
WRONG = {
    "nothing": (
        {},
        "knock_out takes a layer, head, query or key, or a set of edges, but nothing was named; say which to knock out",
    ),
    "both": (
        {"head": 1, "edges": [(0, 0, 0, 0)]},
        "knock_out takes a layer, head, query or key, or a set of edges, but both edges and single positions were"
        " given; say which to knock out",
    ),
    "no edges": (
        {"edges": []},
        "knock_out got an empty set of edges; give at least one (layer, head, query, key)",
    ),
    "half an edge": (
        {"edges": [(0, 1)]},
        "an edge is (layer, head, query, key), but got (0, 1); None stands for all of an axis",
    ),
    "how": (
        {"head": 1, "how": "during"},
        'how must be "before" or "after" the softmax, but got \'during\'; before lets other keys take over',
    ),
    "a word for a head": (
        {"head": "first"},
        "head is a number, a range, a slice or a list of numbers, but got 'first'; None is all of them",
    ),
    "no such layer": (
        {"layer": [1, 7]},
        "layer 7 was to be knocked out, but no attention ran in it; those that did are 'layers.0', 'layers.1'",
    ),
    "no such head": (
        {"layer": 1, "head": [1, 2]},
        "head 2 was to be knocked out of 'layers.1', but the heads there are 0 to 1; count from 0, or back from -1",
    ),
    "no such query": (
        {"layer": 0, "query": 5, "key": 1},
        "query 5 was to be knocked out of 'layers.0', but the queries there are 0 to 4; count from 0, or back from -1",
    ),
    "no such key": (
        {"key": -6},
        "key -6 was to be knocked out of 'layers.0', 'layers.1', but the keys there are 0 to 4; count from 0, or back"
        " from -1",
    ),
    "no such sequence": (
        {"batch": 3},
        "batch 3 was to be knocked out of 'layers.0', 'layers.1', but the sequences there are 0 to 2; count from 0, or"
        " back from -1",
    ),
    "masked already": (
        {"layer": 1, "query": 2, "key": 3},
        "query 2, key 3 was to be knocked out of 'layers.1', but it is masked there already; name an edge that the"
        " model may use",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_knocked_out_raises_an_error(kind, own_errors):
    request, message = WRONG[kind]
    model = Stack(Plain(), Plain(is_causal=True))
    with pytest.raises(Misfit) as error, transom.knock_out(model, **request):
        model(X)
    assert str(error.value) == message


def test_a_model_that_is_none_and_attention_that_cannot_be_cut_are_errors(own_errors):
    with pytest.raises(Misfit) as error, transom.knock_out("GPT-2", head=1):
        pass
    assert str(error.value) == "knock_out takes a torch.nn.Module, but got str; give the model itself"

    class SelfAttention(nn.Module):
        num_heads = 5

        def forward(self, x):
            return torch.softmax(x, -1)

    model = SelfAttention()
    with pytest.raises(Misfit) as error, transom.knock_out(model, head=1):
        model(torch.randn(2, 3, 7, 7))
    assert str(error.value) == (
        "edges of '(model)' were to be knocked out, but its attention is computed in a form that cannot be cut; knock"
        ' out other layers with layer=…, or load the model with attn_implementation="sdpa"'
    )
