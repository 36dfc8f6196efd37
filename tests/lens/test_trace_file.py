"""A Trace saved and loaded is the same to look at; a file that was damaged or made up is told, never believed."""

import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save
from torch import nn
from watched import Plain, Stack

import transom
from transom.equations.biases import DistanceBias, RelativeBias
from transom.lens.storage.trace_file import TRACE

torch.manual_seed(53)
X = torch.randn(3, 5, 14)
REAL = torch.rand(3, 5) < 0.7
REAL[:, 0] = True
IDS = torch.tensor([[0, 0, 1, 1, 1]])


class Attend(nn.Module):
    """`transom.attend` with whatever it takes."""

    def __init__(self, **named):
        super().__init__()
        self.named = named

    def forward(self, x):
        x = x.unflatten(-1, (2, 7)).transpose(1, 2)
        return transom.attend(x, x.roll(1, 2), x.flip(2), **self.named)


class Multihead(nn.Module):
    def __init__(self, **named):
        super().__init__()
        self.inner = nn.MultiheadAttention(14, 2, batch_first=True, **named)

    def forward(self, x):
        return self.inner(x, x, x, key_padding_mask=~REAL)


class HandmadeAttention(nn.Module):
    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x


MODELS = {
    "weights alone": HandmadeAttention(),
    "plain": Plain(),
    "causal": Stack(Plain(is_causal=True), Plain(attn_mask=torch.randn(5, 5))),
    "dropout of PyTorch": Plain(dropout_p=0.5),
    "bfloat16": Plain().bfloat16(),
    "float16": Plain().half(),
    "float64": Plain().double(),
    "by hand": Multihead(),
    "by hand, no bias": Multihead(bias=False),
    "masks": Attend(allowed=transom.causal() & transom.padding(REAL) | transom.sliding_window(2), softcap=2.0),
    "documents": Attend(allowed=transom.same_document(IDS), causal=True, scale=1.7),
    "given": Attend(allowed=torch.rand(3, 1, 5, 5) < 0.6),
    "distances": Attend(bias=DistanceBias(torch.tensor([0.5, 0.25])), dropout=0.25),
    "table": Attend(bias=RelativeBias(torch.randn(2, 5))),
    "bias": Attend(bias=torch.randn(2, 5, 5)),
    "encoder, nested": nn.TransformerEncoder(nn.TransformerEncoderLayer(14, 2, 23, batch_first=True), 2).eval(),
}


def traced(kind, **named):
    model = MODELS[kind]
    dtype = next((parameter.dtype for parameter in model.parameters()), torch.float32)
    asked = {"src_key_padding_mask": ~REAL.sort(descending=True).values} if kind == "encoder, nested" else {}
    with torch.no_grad(), transom.watch(model, tokens=["the", "cat", "</s>", "\n", "é"], **named) as trace:
        model(X.to(dtype), **asked)
    return trace


@pytest.mark.filterwarnings("ignore:.*nested tensor")
@pytest.mark.parametrize("kind", MODELS)
def test_loaded_is_what_was_saved(kind, tmp_path):
    trace = traced(kind)
    trace.save(tmp_path / "run.safetensors")
    again = transom.Trace.load(tmp_path / "run.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]
    assert again.names == trace.names
    assert again.tokens == trace.tokens
    close = {"atol": 1e-6} if kind == "float64" else {"atol": 0, "rtol": 0}
    for one, other in zip(trace, again, strict=True):
        for ask in (lambda sight: sight.weights(), lambda sight: sight.scores().exp(), lambda sight: sight.entropy()):
            assert torch.allclose(ask(one).float(), ask(other), **close)
        assert torch.allclose(one.output.float(), other.output.float(), **close)
        assert other.receipt().holds or other.receipt().unproved == one.receipt().unproved != ""


@pytest.mark.parametrize("kind", ["plain", "dropout of PyTorch", "masks"])
def test_statistics_alone_are_saved_too(kind, tmp_path):
    trace = traced(kind, keep="statistics")
    trace[0].statistics.peak[0, 0, 0] = torch.inf
    trace.save(tmp_path / "run.safetensors")
    one, other = trace[0], transom.Trace.load(tmp_path / "run.safetensors")[0]
    for word in ("entropy", "peak", "distance", "received"):
        assert torch.equal(getattr(one, word)(), getattr(other, word)())
    assert repr(one) == repr(other)
    assert str(one.receipt()) == str(other.receipt())


def test_statistics_of_very_many_weights_are_proved_by_some_rows_and_say_so_on_file_too(tmp_path, monkeypatch):
    monkeypatch.setattr("transom.lens.attention.receipt.EVERY_ROW", 24)
    monkeypatch.setattr("transom.lens.attention.receipt.SOME_ROWS", 3)
    trace = traced("plain", keep="statistics")
    assert trace[0].receipt().holds
    assert trace[0].receipt().part == "3 of 5 rows tried"
    trace.save(tmp_path / "run.safetensors")
    assert transom.Trace.load(tmp_path / "run.safetensors")[0].receipt() == trace[0].receipt()


def test_it_opens_without_torch(tmp_path):
    """Names, tokens and every number with numpy alone."""
    trace = traced("bfloat16")
    trace.save(tmp_path / "run.safetensors")
    with safe_open(tmp_path / "run.safetensors", framework="np") as file:
        said = json.loads(file.metadata()["trace"])
        held = {word: file.get_tensor(name) for word, name in said["sights"][0]["tensors"].items()}
    import numpy

    scores = held["Q"] @ held["K"].swapaxes(-1, -2) * said["sights"][0]["scale"]
    weights = numpy.exp(scores - held["lse"][..., None])
    assert numpy.allclose(weights, trace[0].weights().numpy(), atol=1e-5)
    assert said["tokens"] == trace.tokens


def test_a_mask_of_ones_own_is_told_when_saving(tmp_path, own_errors):
    class Odd(type(transom.causal())):
        pass

    model = Attend(allowed=Odd())
    with transom.watch(model) as trace:
        model(X)
    with pytest.raises(transom.Misfit) as caught:
        trace.save(tmp_path / "run.safetensors")
    assert str(caught.value) == (
        "a trace file holds masks and biases of Both, Either, Causal, SlidingWindow, SameDocument, Padding, Given,"
        " Without, GivenBias, DistanceBias, TableBias, SparseBias, but this one is a Odd; give a bool or float"
        " tensor to the attention instead"
    )
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_told(tmp_path, own_errors):
    place = tmp_path / "nowhere" / "run.safetensors"
    with pytest.raises(transom.Misfit) as caught:
        traced("plain").save(place)
    assert str(caught.value) == f"{place} could not be written: No such file or directory; choose another folder"


def saved(kind, path):
    traced(kind).save(path)
    return path.read_bytes()


def test_every_cut_of_a_file_is_told(tmp_path, own_errors):
    path = tmp_path / "run.safetensors"
    whole = saved("plain", path)
    for length in (0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(transom.Misfit, match="is not a valid trace"):
            transom.Trace.load(path)


def remade(path, kind, change):
    """A whole safetensors file with another header, its tensors as they were."""
    saved(kind, path)
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said = json.loads(file.metadata()["trace"])
    changed = change(said)
    path.write_bytes(
        save(tensors, metadata={"format": TRACE.name, "trace": json.dumps(said if changed is None else changed)})
    )


def deep():
    mask = {"kind": "Causal", "start": None}
    for _ in range(60):
        mask = {"kind": "Both", "left": mask, "right": {"kind": "Causal", "start": None}}
    return mask


def without(word):
    def change(said):
        del said["sights"][0]["tensors"][word]

    return change


def first(**new):
    return lambda said: said["sights"][0].update(new)


def swapped(one, other):
    return lambda said: said["sights"][0]["tensors"].update({one: said["sights"][0]["tensors"][other]})


HOSTILE = {
    "keys": ("plain", first(keys=[3, 2**40]), "keys 3 to 1099511627779 are named, but there are "),
    "keys before the first": ("plain", first(keys=[-1, 2]), "keys -1 to 1 are named, but there are "),
    "grid": (
        "plain",
        lambda said: said.update(grid={"rows": 0, "columns": 1}),
        "a grid has rows and columns of patches, but got 0 × 1; give 1 or more of each - at `$.grid`",
    ),
    "targets": ("plain", lambda said: said.update(targets=[1]), "Expected `array`, got `int` - at `$.targets[0]`"),
    "no object": ("plain", lambda said: [1], "Expected `object`, got `array`"),
    "more fields": ("plain", first(run="rm"), "Object contains unknown field `run` - at `$.sights[0]`"),
    "tokens": ("plain", lambda said: said.update(tokens=[[1]]), "Expected `str`, got `int` - at `$.tokens[0][0]`"),
    "dtype": ("plain", first(dtype="object"), "the dtype is one of float32, bfloat16, float16, but got 'object'"),
    "missing tensor": (
        "plain",
        lambda said: said["sights"][0]["tensors"].update(Q="../../etc"),
        "it names a tensor '../../etc' that it does not hold",
    ),
    "lse": ("plain", swapped("lse", "Q"), "expected torch.float32 with 3 axes, but got torch.float32 (3, 2, 5, 7)"),
    "no output": (
        "plain",
        without("output"),
        "output should have the shape (3, 2, 5, 7), but it is None",
    ),
    "no keys": (
        "plain",
        without("K"),
        "'(model)' should hold Q, K, V, lse, output, W_O, b_O, joined, real, but it holds 'Q, V, lse, output'",
    ),
    "scale": ("plain", first(scale=1e999), "JSON is malformed: invalid character"),
    "dropout": (
        "plain",
        first(dropout=1.0),
        "dropout must be at least 0 and below 1, but got 1.0; 0.1 drops a tenth of the weights",
    ),
    "seed": ("plain", first(seed=-1), "a seed is between 0 and 2**63, but got -1"),
    "mask of no kind": (
        "plain",
        first(mask={"kind": "__import__"}),
        "expected one of Both, Either, Causal, SlidingWindow, SameDocument, Padding, Given, Without, but got"
        " {'kind': '__import__'}",
    ),
    "mask with more": (
        "plain",
        first(mask={"kind": "Causal", "start": 0, "end": 1}),
        "a Causal has start, but got end, kind, start",
    ),
    "width": (
        "plain",
        first(mask={"kind": "SlidingWindow", "width": 0}),
        "the width of sliding_window must be a whole number from 1 to 1099511627776, but got 0;",
    ),
    "start": (
        "plain",
        first(mask={"kind": "Causal", "start": True}),
        f"the start of a causal mask must be a whole number from {-(2**40)} to {2**40}, but got True;",
    ),
    "deep masks": ("plain", first(mask=deep()), "masks may be nested 50 deep, but these are deeper"),
    "mask of floats": (
        "plain",
        first(mask={"kind": "Padding", "real": "0"}),
        "expected torch.bool with 2 axes, but got torch.float32 (3, 2, 5, 7)",
    ),
    "edges of no axes": (
        "plain",
        first(mask={"kind": "Without", "boxes": [[None, [1]]]}),
        "Expected `array` of length 4, got 2 - at `$[0]`",
    ),
    "edges that are no numbers": (
        "plain",
        first(zeroed={"kind": "Without", "boxes": [[None, None, None, "all"]]}),
        "Expected `array | null`, got `str` - at `$[0][3]`",
    ),
    "edges that are not there": (
        "plain",
        first(zeroed={"kind": "Without", "boxes": [[None, [2], None, None]]}),
        "an edge is cut at heads (2,), but there are heads=2; count from 0",
    ),
    "bias of no kind": (
        "plain",
        first(bias={"kind": []}),
        "expected one of GivenBias, DistanceBias, TableBias, SparseBias, but got",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_does_not_fit_together_is_told(kind, tmp_path, own_errors):
    path = tmp_path / "run.safetensors"
    model, change, message = HOSTILE[kind]
    remade(path, model, change)
    with pytest.raises(transom.Misfit) as caught:
        transom.Trace.load(path)
    start = f"{path} is not a valid trace: "
    assert str(caught.value).startswith(start + message)
    assert str(caught.value).endswith("; save it again, or take another copy")


def test_headers_that_are_none(tmp_path, own_errors):
    path = tmp_path / "run.safetensors"
    for header, message in (
        (b"{}", f"its header does not say {TRACE.name!r}"),
        (b"[]", "its header should be a JSON object, but it is a list"),
        (b'{"a":1,"a":2}', "its header cannot be read (a name comes twice)"),
        (b"[" * 100_000, "its header cannot be read (it nests more than 64 deep)"),
    ):
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        with pytest.raises(transom.Misfit) as caught:
            transom.Trace.load(path)
        assert str(caught.value).startswith(f"{path} is not a valid trace: {message}")
    path.write_bytes((TRACE.header_bytes + 1).to_bytes(8, "little") + b" " * (TRACE.header_bytes + 1))
    with pytest.raises(transom.Misfit) as caught:
        transom.Trace.load(path)
    assert str(caught.value) == (
        f"{path} is not a valid trace: its header has {TRACE.header_bytes + 1} bytes, but at most"
        f" {TRACE.header_bytes} are allowed; save it again, or take another copy"
    )
    with pytest.raises(transom.Misfit) as caught:
        transom.Trace.load(tmp_path / "none")
    assert str(caught.value) == f"{tmp_path / 'none'} cannot be read: No such file or directory; is it the right path?"


FILES: dict[str, bytes] = {}  # each made once


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(place=st.integers(0, 3000), new=st.binary(min_size=1, max_size=8), kind=st.sampled_from(["masks", "by hand"]))
def test_bytes_that_change_are_told_or_read_but_nothing_else_happens(place, new, kind, tmp_path, own_errors):
    path = tmp_path / "run.safetensors"
    if kind not in FILES:
        FILES[kind] = saved(kind, path)
    whole = FILES[kind]
    path.write_bytes(whole[:place] + new + whole[place + len(new) :])
    try:
        trace = transom.Trace.load(path)
    except transom.Misfit:
        return
    for sight in trace:
        assert sight.weights().dim() == 4
        sight.receipt()
