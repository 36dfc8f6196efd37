"""Watching leaves every output bit-identical, keeps each attention under its name, and leaves nothing behind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as modules
from torch.utils.checkpoint import checkpoint
from watched import Overwriting, Plain, Stack, run_twice

import transom
from transom.kernels import dispatch
from transom.lens.capture.call_state import CAPTURE
from transom.lens.capture.dispatch_hooks import INSTALLED
from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig, EncoderDecoder, EncoderDecoderConfig

torch.manual_seed(31)
X, SOURCE = torch.randn(3, 5, 14), torch.randn(3, 11, 14)
PADDED = torch.zeros(3, 5, dtype=torch.bool)
PADDED[0, 3:] = True
AHEAD = torch.ones(5, 5, dtype=torch.bool).triu(1)
PARTS = {"d_model": 14, "nhead": 2, "dim_feedforward": 23, "batch_first": True}
CONTEXTS = {"gradients": torch.enable_grad, "no gradients": torch.no_grad, "inference": torch.inference_mode}


def encoder(**kwargs):
    nested = not kwargs.get("norm_first", False)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(**PARTS, **kwargs), 2, enable_nested_tensor=nested)


def attention(**kwargs):
    return nn.MultiheadAttention(14, 2, **{"batch_first": True, **kwargs})


# A model, its arguments, and how many attentions run.
MODELS = {
    "by name": (Plain(), (X,), {}, 1),
    "causal": (Plain(is_causal=True), (X,), {}, 1),
    "overwriting": (Overwriting(is_causal=True).requires_grad_(False), (X,), {}, 1),
    "dropout": (Plain(dropout_p=0.3), (X,), {}, 1),
    "stack": (Stack(Plain(), Plain(is_causal=True)), (X,), {}, 2),
    "MultiheadAttention": (attention(), (X, X, X), {}, 1),
    "MultiheadAttention, masked": (attention(), (X, X, X), {"attn_mask": AHEAD, "key_padding_mask": PADDED}, 1),
    "MultiheadAttention, cross": (attention(), (X, SOURCE, SOURCE), {}, 1),
    "MultiheadAttention, tokens first": (attention(batch_first=False), (X, X, X), {}, 1),
    "MultiheadAttention, no weights": (attention(), (X, X, X), {"need_weights": False}, 1),
    "MultiheadAttention, dropout": (attention(dropout=0.3), (X, X, X), {}, 1),
    "MultiheadAttention, extra keys": (attention(add_bias_kv=True, add_zero_attn=True), (X, X, X), {}, 1),
    "MultiheadAttention, widths": (attention(kdim=3, vdim=7), (X, SOURCE[..., :3], SOURCE[..., :7]), {}, 1),
    "encoder": (encoder(dropout=0.0), (X,), {}, 2),
    "encoder, dropout": (encoder(dropout=0.3), (X,), {}, 2),
    "encoder, norm first": (encoder(norm_first=True), (X,), {"mask": AHEAD}, 2),
    "encoder, padded": (encoder(dropout=0.0), (X,), {"src_key_padding_mask": PADDED}, 2),
    "decoder": (
        nn.TransformerDecoder(nn.TransformerDecoderLayer(**PARTS), 2),
        (X, SOURCE),
        {"tgt_mask": AHEAD, "tgt_key_padding_mask": PADDED},
        4,
    ),
    "Transom's layer": (transom.layers.MultiHeadAttention(14, 2, dropout=0.3), (X,), {"causal": True}, 1),
}


@pytest.mark.filterwarnings("ignore:.*nested tensor")
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("training", [True, False], ids=["training", "running"])
@pytest.mark.parametrize("kind", MODELS)
def test_watched_is_unwatched_bit_for_bit_and_every_receipt_fits(kind, training, context):
    model, args, kwargs, count = MODELS[kind]
    model.train(training)
    with CONTEXTS[context]():
        plain, watched, trace = run_twice(model, *args, **kwargs)
    assert torch.equal(plain, watched)
    assert len(trace) == count
    for sight in trace:
        receipt = sight.receipt()
        assert receipt.holds or receipt.unproved
        assert torch.allclose(sight.weights().sum(-1), torch.ones(()), atol=1e-5)
        assert not any(x.is_inference() or x.requires_grad for x in (sight.Q, sight.K, sight.V, sight.lse))


@pytest.mark.parametrize("kind", ["stack", "dropout", "MultiheadAttention, masked", "encoder, dropout", "decoder"])
def test_gradients_keep_their_bits(kind):
    model, args, kwargs, _ = MODELS[kind]
    model.train()
    gradients = []
    for watched in (False, True):
        model.zero_grad()
        torch.manual_seed(5)
        if watched:
            with transom.watch(model):
                out = model(*args, **kwargs)
        else:
            out = model(*args, **kwargs)
        (out[0] if isinstance(out, tuple) else out).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert gradients[0]
    assert all(x is not None and torch.equal(x, y) for x, y in zip(*gradients, strict=True))


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "by hand"])
@pytest.mark.parametrize(
    "masks", [{}, {"attn_mask": AHEAD}, {"key_padding_mask": PADDED}, {"attn_mask": AHEAD, "key_padding_mask": PADDED}]
)
def test_multihead_attention_agrees_with_its_own_weights(fast, masks):
    model = attention().eval()
    with torch.set_grad_enabled(not fast), transom.watch(model) as trace:
        _, own = model(X, X, X, average_attn_weights=False, **masks)
    assert torch.allclose(trace[0].weights(), own, atol=1e-6)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "by hand"])
def test_a_fully_masked_row_does_not_spoil_the_receipt(fast, need_weights):
    model, nothing = attention().eval(), torch.zeros(3, 5, dtype=torch.bool)
    nothing[0] = True
    with torch.set_grad_enabled(not fast), transom.watch(model) as trace:
        output, _ = model(X, X, X, key_padding_mask=nothing, need_weights=need_weights)
    assert output[0].isnan().all() or not (fast or need_weights), "PyTorch's own answer"
    assert trace[0].receipt().holds
    assert (trace[0].weights(batch=0) == 0).all()
    if trace[0].joined_output is not None:
        trace[0].joined_output.output[1, 2, 3] = torch.nan
        assert trace[0].receipt().fails, "a NaN in another row"


def test_float_masks_of_multihead_attention_are_added():
    model = attention()
    bias, padding = torch.randn(6, 5, 5), torch.zeros(3, 5)
    padding[1, 4] = -torch.inf
    with transom.watch(model) as trace:
        _, own = model(X, X, X, attn_mask=bias, key_padding_mask=padding, average_attn_weights=False)
    assert torch.allclose(trace[0].weights(), own, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*nested tensor")
def test_the_encoders_fast_path_is_named_and_weighed_like_its_slow_one():
    model = encoder(dropout=0.0).eval()
    with torch.no_grad(), transom.watch(model) as fast:
        model(X, src_key_padding_mask=PADDED)
    with transom.watch(model) as slow:
        model(X, src_key_padding_mask=PADDED)
    assert fast.names == slow.names == ["layers.0.self_attn", "layers.1.self_attn"]
    assert fast[0].joined_output is not None
    assert slow[0].joined_output is None
    for name in fast.names:
        real = ~PADDED[:, None, :, None]
        assert torch.allclose(fast[name].weights() * real, slow[name].weights() * real, atol=1e-6)


CONFIG = {"d_model": 14, "heads": 2, "d_hidden": 23, "dropout": 0.2, "attention_dropout": 0.2}
TOKENS = torch.randint(1, 19, (3, 5))
TOKENS[0, 3:] = 0
OWN = {
    "encoder": (Encoder(EncoderConfig(vocabulary=19, layers=2, labels=("a", "b", "c"), **CONFIG)), (TOKENS,), 2),
    "decoder": (Decoder(DecoderConfig(vocabulary=19, layers=3, positions="rotary", d_head=4, **CONFIG)), (TOKENS,), 3),
    "encoder_decoder": (
        EncoderDecoder(EncoderDecoderConfig(vocabulary=19, encoder_layers=2, decoder_layers=3, **CONFIG)),
        (TOKENS, TOKENS[:, :3]),
        8,
    ),
}


@pytest.mark.parametrize("training", [True, False], ids=["training", "running"])
@pytest.mark.parametrize("kind", OWN)
def test_transoms_models_keep_their_bits_their_masks_and_their_receipts(kind, training):
    model, args, count = OWN[kind]
    plain, watched, trace = run_twice(model.train(training), *args)
    assert torch.equal(plain, watched)
    assert len(trace) == len(trace.names) == count
    assert all(sight.receipt().holds for sight in trace), "dropout included: it follows from a seed"
    if kind == "decoder":
        assert any(part == transom.causal() for part in trace[0].problem.mask.conjuncts())


def test_every_step_of_generation_is_captured():
    model = OWN["decoder"][0].eval()
    options = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    plain = model.generate(TOKENS[1:2, :2], **options)
    with transom.watch(model) as trace:
        assert torch.equal(model.generate(TOKENS[1:2, :2], **options), plain)
    assert len(trace) == 3 * 3
    assert [sight.K.shape[2] for sight in trace.all(trace.names[0])] == [2, 3, 4]
    assert all(sight.receipt().holds for sight in trace)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_dtype_has_a_receipt_that_holds(dtype):
    model = Stack(Plain(), Plain(is_causal=True)).to(dtype)
    plain, watched, trace = run_twice(model, X.to(dtype))
    assert torch.equal(plain, watched)
    assert all(sight.receipt().holds and sight.Q.dtype == dtype for sight in trace)


@pytest.mark.parametrize("keep", ["qkv", "statistics"])
def test_autocast_changes_neither_the_model_nor_what_is_worked_out_beside_it(keep):
    model = Stack(Plain(), Plain(is_causal=True))
    with torch.autocast("cpu", torch.bfloat16):
        plain = model(X)
        with transom.watch(model, keep=keep) as trace:
            assert torch.equal(model(X), plain)
    assert all(sight.receipt().holds for sight in trace)
    assert trace[0].entropy().dtype == torch.float32


def test_nothing_is_left_behind_also_by_an_exception():
    before = torch._C._dispatch_dump("aten::scaled_dot_product_attention")

    class Broken(Plain):
        def forward(self, x):
            super().forward(x)
            raise KeyError("broken")

    model = Stack(Plain(), Broken())
    with pytest.raises(KeyError), transom.watch(model) as trace:
        model(X)
    assert trace.names == ["layers.0", "layers.1"], "what ran before the exception is in the trace"
    assert torch._C._dispatch_dump("aten::scaled_dot_product_attention") == before
    assert not modules._has_any_global_hook()
    assert (INSTALLED.users, dispatch.listener) == (0, None)
    assert (CAPTURE.listeners, CAPTURE.module_calls, CAPTURE.attention_calls) == ([], [], [])
    assert (CAPTURE.ran, CAPTURE.leftovers, CAPTURE.hand.waiting, CAPTURE.hand.sums) == ({}, [], [], [])


def test_a_model_that_fails_and_is_caught_inside_the_block_does_not_confuse_the_names():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("broken")

    model = Stack(Plain(), Broken())
    with transom.watch(model) as trace:
        with pytest.raises(KeyError):
            model(X)
        model.layers[0](X)
        F.scaled_dot_product_attention(X, X, X)
    assert trace.names == ["layers.0", "(no module)"]


def test_watches_nest_and_each_keeps_its_own_model():
    outer, inner = Stack(Plain(), Plain()), Plain()
    with transom.watch(outer) as outer_trace:
        with transom.watch(outer.layers[1]) as layer_trace, transom.watch(inner) as inner_trace:
            outer(X)
            inner(X)
        outer.layers[0](X)
    assert outer_trace.names == ["layers.0", "layers.1"]
    assert len(outer_trace) == 3
    assert (layer_trace.names, inner_trace.names) == (["(model)"], ["(model)"])


def test_each_thread_sees_its_own():
    ready, traces = threading.Barrier(3), {}

    def run(name, model):
        with transom.watch(model) as trace:
            ready.wait()
            for _ in range(20):
                model(X)
            ready.wait()
        traces[name] = trace

    models = {str(number): Stack(*(Plain() for _ in range(number))) for number in (1, 2, 3)}
    threads = [threading.Thread(target=run, args=item) for item in models.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: len(trace) for name, trace in traces.items()} == {"1": 20, "2": 40, "3": 60}
    assert INSTALLED.users == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("before", [True, False], ids=["compiled before", "compiled inside"])
def test_compiled_models_keep_their_bits_and_go_by_order(backend, before):
    torch._dynamo.reset()
    model = torch.compile(Stack(Plain(), Plain(is_causal=True)), backend=backend)
    plain = model(X) if before else model._orig_mod(X)
    with transom.watch(model) as trace:
        watched = model(X)
    assert torch.equal(plain, watched)
    assert trace.names == ["compiled[0]", "compiled[1]"]
    assert all(sight.receipt().holds for sight in trace)
    torch._dynamo.reset()


def test_a_mask_that_every_layer_uses_is_kept_once():
    mask = torch.rand(5, 5) < 0.7
    mask[:, 0] = True
    model = Stack(Plain(attn_mask=mask), Plain(attn_mask=mask.clone()), Plain(attn_mask=mask.roll(1)))
    with transom.watch(model) as trace:
        model(X)
    copies = [sight.problem.mask.allowed for sight in trace]
    assert copies[0] is copies[1]
    assert copies[0] is not copies[2]
    assert copies[0].data_ptr() != mask.data_ptr()


def test_device_says_where_it_is_kept():
    model = Plain(attn_mask=torch.randn(5, 5))
    with transom.watch(model, device="meta") as trace:
        model(X)
    sight = trace[0]
    copies = (sight.Q, sight.K, sight.V, sight.output, sight.lse, sight.problem.bias.source)
    assert {x.device.type for x in copies} == {"meta"}


class HandmadeAttention(nn.Module):
    """Softmax by hand, in three or four axes, as a function or as a module."""

    def __init__(self, axes, softmax, heads=None):
        super().__init__()
        self.axes, self.softmax = axes, softmax
        if heads is not None:
            self.num_heads = heads

    def forward(self, x):
        x = x.unflatten(-1, (2, 7)).transpose(1, 2)
        x = x.flatten(0, 1) if self.axes == 3 else x
        self.own = self.softmax(x @ x.mT)
        return (self.own @ x).reshape(3, 2, 5, 7).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("softmax", [lambda x: x.softmax(-1), nn.Softmax(dim=-1)], ids=["function", "module"])
@pytest.mark.parametrize(
    ("axes", "heads", "shape"), [(3, None, (3, 2)), (3, 2, (3, 2)), (4, None, (3, 2)), (4, 2, (3, 2))]
)
def test_a_softmax_by_hand_in_a_module_named_after_attention_is_seen(axes, heads, shape, softmax):
    model = Stack(HandmadeAttention(axes, softmax, heads), Plain())
    plain, watched, trace = run_twice(model, X)
    assert torch.equal(plain, watched)
    assert trace.names == ["layers.0", "layers.1"]
    assert trace[0].weights().shape == (*shape, 5, 5)
    assert torch.allclose(trace[0].weights().flatten(), model.layers[0].own.flatten(), atol=1e-6)


def test_a_layer_of_pytorch_with_a_forward_of_its_own_is_seen_by_its_weights():
    class Own(nn.MultiheadAttention):
        def forward(self, x):
            return super().forward(x, x, x, average_attn_weights=False)

    model = Own(14, 2, batch_first=True)
    with transom.watch(model) as trace:
        _, own = model(X)
    assert torch.allclose(trace[0].weights(), own, atol=1e-6)


def test_softmax_elsewhere_is_not_taken_for_attention():
    model = Stack(Plain(), nn.Softmax(dim=-1), nn.Sequential(nn.Linear(14, 14), nn.Softmax(dim=-1)))
    assert run_twice(model, X)[2].names == ["layers.0"]


class Mixing(nn.Module):
    """Attention by hand in a module that does not say so."""

    def forward(self, x):
        x = x.unflatten(-1, (2, 7)).transpose(1, 2)
        return ((x @ x.mT).softmax(-1) @ x).transpose(1, 2).flatten(2)


def test_attention_by_hand_is_seen_whatever_its_class_is_called():
    model = Stack(Plain(), Mixing())
    plain, watched, trace = run_twice(model, X)
    assert torch.equal(plain, watched)
    assert trace.names == ["layers.0", "layers.1"]
    assert trace[1].shape == (3, 2, 5, 5)
    assert all(sight.receipt().holds for sight in trace)
    with transom.watch(model, layers=["layers.0"]) as trace:
        model(X)
    assert trace.names == ["layers.0"]


def test_what_is_computed_again_for_the_gradient_is_seen_where_it_runs():
    model = Plain()
    with transom.watch(model) as trace:
        checkpoint(model, X, use_reentrant=False).sum().backward()
    assert 1 <= len(trace.all("(model)")) <= 2
    assert all(sight.receipt().holds for sight in trace)


class Mapped(nn.Module):
    """Attention under torch.vmap, or its gradient under it."""

    def __init__(self, gradient=False, axes=2):
        super().__init__()
        self.gradient, self.axes = gradient, axes

    def attend(self, row):
        row = row.reshape((1,) * (self.axes - 2) + row.shape)
        return F.scaled_dot_product_attention(row, row, row).reshape(row.shape[-2:])

    def forward(self, x):
        function = torch.func.grad(lambda row: self.attend(row).sum()) if self.gradient else self.attend
        return torch.vmap(function)(x)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("axes", [2, 4])
@pytest.mark.parametrize("gradient", [False, True])
def test_attention_under_vmap_and_grad_runs_as_unwatched_and_is_seen(gradient, axes):
    plain, watched, trace = run_twice(Stack(Mapped(gradient, axes)), X)
    assert torch.equal(plain, watched)
    assert sum(sight.shape[0] * sight.shape[1] for sight in trace) == 3
    scores = X @ X.mT / X.shape[-1] ** 0.5
    assert torch.allclose(torch.cat([sight.weights().flatten(0, 1) for sight in trace]), scores.softmax(-1), atol=1e-6)


def test_hooks_of_a_layer_that_change_its_arguments_and_result_are_respected():
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    layer.register_forward_pre_hook(lambda module, args: tuple(2 * x for x in args))
    layer.register_forward_hook(lambda module, args, result: (result[0] + 1, result[1]))
    x = torch.randn(1, 5, 8)
    plain, weights = layer(x, x, x, average_attn_weights=False)
    with transom.watch(layer) as trace:
        watched, _ = layer(x, x, x, average_attn_weights=False)
    assert torch.equal(plain, watched)
    torch.testing.assert_close(trace[0].weights(), weights)
    assert trace[0].receipt().holds


def test_the_calls_of_modules_are_as_before_after_the_block():
    call, model = nn.Module._call_impl, Stack(Plain())
    with transom.watch(model):
        model(X)
    assert nn.Module._call_impl is call
    model.register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), transom.watch(model):
        model(X)
    assert nn.Module._call_impl is call


def test_sights_wait_until_the_trace_is_read_and_keep_what_was_copied_while_it_ran():
    model = Stack(Overwriting(is_causal=True).requires_grad_(False), Plain())
    with torch.no_grad(), transom.watch(model) as trace:
        model(X)
    assert ([name for name, _ in trace.waiting], trace.known) == (["layers.0", "layers.1"], [])
    with ThreadPoolExecutor(4) as pool:
        sights = list(pool.map(lambda _: trace[1], range(16)))
    assert all(sight is trace[1] for sight in sights)
    assert (trace.names, len(trace), trace.waiting) == (["layers.0", "layers.1"], 2, [])
    assert all(sight.receipt().holds for sight in trace)


def test_attentions_keep_their_order_whether_their_sights_wait_or_not():
    model = Stack(Plain(), Plain(attn_mask=~AHEAD), Plain())
    with transom.watch(model) as trace:
        model(X)
        model(X)
    with transom.watch(model) as read_inside:
        model(X)
        assert len(read_inside) == 3
        model(X)
    order = ["layers.0", "layers.1", "layers.2"] * 2
    for watched in (trace, read_inside):
        assert [name for name, _ in watched.items()] == order
        assert all(sight.receipt().holds for sight in watched)
    assert trace[1].problem.mask is not None


def attend_to_itself(x):
    return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0]


class Attending(nn.Linear):
    def forward(self, x):
        return attend_to_itself(x)


def linear_with_hook():
    layer = nn.Linear(14, 14)
    layer.register_forward_hook(lambda module, args, output: attend_to_itself(args[0]))
    return layer


def linear_with_own_forward():
    layer = nn.Linear(14, 14)
    layer.forward = attend_to_itself
    return layer


@pytest.mark.parametrize("make", [lambda: Attending(14, 14), linear_with_hook, linear_with_own_forward])
def test_attention_in_a_layer_of_a_known_class_has_the_name_of_that_layer(make):
    model = nn.Sequential(nn.ReLU(), make())
    with transom.watch(model) as trace:
        model(X)
    assert trace.names == ["1"]
