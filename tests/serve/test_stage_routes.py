"""The routes of the picture of a whole model: each number against an independent computation."""

import json

import numpy as np
import pytest
import torch
from model_folders import of_transom
from serve.client import Client, small_trace

import transom
from transom.lens.capture.residual_sizes import block_path, measure_residual_sizes
from transom.runner import load_text_model
from transom.serve.session import Session


@pytest.fixture(scope="module")
def text_run(site):
    return site.session.runs["1"].text_run


def entries(site):
    return site.session.runs["1"].trace.entries


def pooled_maxima(weights, cells):
    """The largest weight of each cell, by a loop."""
    sides = [-(-size // cells) for size in weights.shape]
    rows, columns = (-(-size // side) for size, side in zip(weights.shape, sides, strict=True))
    found = np.zeros((rows, columns))
    for row in range(rows):
        for column in range(columns):
            part = weights[row * sides[0] : (row + 1) * sides[0], column * sides[1] : (column + 1) * sides[1]]
            found[row, column] = part.max()
    return found


@pytest.mark.parametrize("tokens", [5, 23, 100])
def test_thumbnails_hold_the_largest_weight_of_each_cell(tokens):
    trace = small_trace([str(n) for n in range(tokens)])
    answer = Client(Session(trace=trace)).get("/api/runs/1/thumbnails")
    header, place = json.loads(answer.headers["Thumbnails"]), 0
    for (_, sight), (heads, rows, columns) in zip(trace.entries, header["attentions"], strict=True):
        assert heads == sight.shape[1]
        for head in range(heads):
            bytes_of_head = np.frombuffer(answer.content, "u1", rows * columns, place).reshape(rows, columns)
            place += rows * columns
            expected = pooled_maxima(sight.weights(batch=0, head=head).numpy(), 16)
            assert max(rows, columns) <= 16
            np.testing.assert_array_equal(bytes_of_head, np.round(255 * np.sqrt(expected.clip(0, 1))))
    assert place == len(answer.content)


def test_thumbnails_of_some_attentions(site, run):
    whole, part = site.get("/api/runs/1/thumbnails"), site.get("/api/runs/1/thumbnails", first=2, count=1)
    shapes = json.loads(whole.headers["Thumbnails"])["attentions"]
    before = sum(heads * rows * columns for heads, rows, columns in shapes[:2])
    assert part.content == whole.content[before : before + int(np.prod(shapes[2]))]
    assert json.loads(part.headers["Thumbnails"]) == {"first": 2, "attentions": [shapes[2]]}


def test_mean_weights_between_the_tokens_of_a_window(site, run):
    found = site.get("/api/runs/1/mean_weights", first=1, first_target=2, count=3).json()["attentions"]
    windows = {"encoder": (1, 1), "decoder": (2, 2), "cross": (2, 1)}
    for attention, (_, sight), mean in zip(run["attentions"], entries(site), found, strict=True):
        row, key = windows[attention["role"]]
        whole = sum(sight.weights(batch=0, head=head) for head in range(attention["heads"])) / attention["heads"]
        np.testing.assert_allclose(mean, whole[row : row + 3, key : key + 3], rtol=2e-5, atol=1e-7)


def test_what_each_part_adds_is_what_the_layers_return(site, text_run):
    found = site.get("/api/runs/1/residual").json()
    model, lengths = text_run.model.model, {}

    def keep(name):
        return lambda module, args, output: lengths.update({name: output[0].norm(dim=-1).tolist()})

    with torch.no_grad():
        hooks = [
            part.register_forward_hook(keep(f"{side}.blocks.{layer}.{name}"))
            for side in ("encoder", "decoder")
            for layer, block in enumerate(getattr(model, side).blocks)
            for name, part in block.named_children()
            if name in ("attention", "cross", "feed_forward")
        ]
        text_run.model.run(text_run.encoded)
    for hook in hooks:
        hook.remove()
    assert found["missing"] == ""
    assert len(found["blocks"]) == model.config.encoder_layers + model.config.decoder_layers
    for block in found["blocks"]:
        kinds = [part["kind"] for part in block["parts"]]
        assert kinds == (
            ["attention", "cross", "feed_forward"] if "decoder" in block["block"] else [kinds[0], kinds[-1]]
        )
        for part in block["parts"]:
            np.testing.assert_allclose(part["size"], lengths[f"{block['block']}.{part['kind']}"], rtol=1e-4)


def test_a_trace_says_that_nothing_was_measured():
    client = Client(Session(trace=small_trace(["a", "b", "c"])))
    found = client.get("/api/runs/1/residual").json()
    assert found == {"blocks": [], "missing": "a trace has no model, so what its parts add was not measured"}
    carried = client.get("/api/runs/1/influence").json()
    assert (carried["by"], carried["edges"]) == ("carried", None)
    _, sight = client.session.runs["1"].trace.entries[1]
    weights, values = sight.weights(batch=0, head=2).double(), sight.V[0, 2].double()
    expected = sum(float(weights[row, key] * values[key].norm()) for row in range(3) for key in range(3)) / 3
    assert carried["heads"][1][2] == pytest.approx(expected, rel=1e-5)


def test_influence_is_the_slope_of_the_log_probability(site, run, text_run):
    """Against a true knock-out of a head that is nearly linear: the head's output scaled down by a thousandth."""
    row, model = 1, text_run.model.model
    found = site.get("/api/runs/1/influence", row=row).json()
    target = text_run.encoded.target_ids[row + 1]
    cross = next(one for one in run["attentions"] if one["role"] == "cross")
    attention, width = model.decoder.blocks[0].cross, model.config.d_model // model.config.heads
    head, share = 2, 1e-3

    def log_probability(scaled):
        def scale(module, args):
            x = args[0].clone()
            x[..., head * width : (head + 1) * width] *= 1 - scaled
            return (x,)

        hook = attention.W_O.register_forward_pre_hook(scale)
        with torch.no_grad():
            value = text_run.model.run(text_run.encoded)[0, row].double().log_softmax(-1)[target]
        hook.remove()
        return float(value)

    slope = (log_probability(share) - log_probability(-share)) / (2 * share)
    assert found["by"] == "influence"
    assert found["heads"][cross["index"]][head] == pytest.approx(slope, rel=2e-2, abs=1e-4)
    edges = np.array(found["edges"][cross["index"]])
    assert edges.shape == (min(16, cross["queries"]), min(16, cross["keys"]))
    last = max(one["index"] for one in run["attentions"] if one["role"] == "cross")
    others = [each for each in range(len(found["edges"][last])) if each != row]
    assert np.abs(np.array(found["edges"][last])[others]).max() < 1e-6, "other rows of the last block do not reach it"
    refused = site.get("/api/runs/1/influence", row=900)
    assert refused.json()["error"].startswith(f"there are rows={len(run['targets'])}, so 900 is none of them")


def test_one_row_with_its_arithmetic(site, run):
    cross = next(one for one in run["attentions"] if one["role"] == "cross")
    found = site.get(f"/api/runs/1/{cross['index']}/row", head=3, query=2).json()
    _, sight = entries(site)[cross["index"]]
    q, scores = np.float64(found["Q"]), []
    for key, listed in enumerate(found["keys"]):
        assert (listed["key"], listed["token"]) == (key, run["tokens"][key])
        scores.append(found["scale"] * sum(a * b for a, b in zip(q, listed["K"], strict=True)))
        assert listed["score"] == pytest.approx(scores[-1], rel=1e-4, abs=1e-4)
    weights = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose([key["weight"] for key in found["keys"]], weights, rtol=1e-3, atol=1e-6)
    values = sum(weight * np.float64(key["V"]) for weight, key in zip(weights, found["keys"], strict=True))
    np.testing.assert_allclose(found["output"], values, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found["output"], sight.output[0, 3, 2].tolist(), rtol=1e-4, atol=1e-5)
    assert found["others"] == {"count": 0, "weight": 0.0}


def test_one_row_of_a_longer_text():
    client = Client(Session(trace=small_trace([str(n) for n in range(2000)], heads=1, layers=1)))
    found = client.get("/api/runs/1/0/row", query=1500, count=7).json()
    weights = client.session.runs["1"].trace[0].weights(batch=0, head=0, rows=1500)
    strongest = weights.topk(7)
    assert [key["key"] for key in found["keys"]] == sorted(strongest.indices.tolist())
    assert found["others"]["count"] == 1501 - 7
    assert found["others"]["weight"] == pytest.approx(1 - float(strongest.values.sum()), abs=1e-4)
    assert found["masked"] == 499
    early = client.get("/api/runs/1/0/row", query=2, count=64).json()
    assert [key["key"] for key in early["keys"]] == [0, 1, 2], "keys that the row may not see are not listed"


def test_the_row_of_a_masked_attention_names_what_is_dark(site, run):
    masked = next(one for one in run["attentions"] if one["role"] == "decoder")
    found = site.get(f"/api/runs/1/{masked['index']}/row", query=1).json()
    assert [key["score"] is None for key in found["keys"]] == [key > 1 for key in range(masked["keys"])]
    assert found["masked"] == masked["keys"] - 2


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_every_kind_of_model_has_all_of_it(kind, tmp_path):
    client = Client(Session(load_text_model(of_transom(kind, tmp_path / kind))))
    client.post("/api/runs", {"text": "the cat sat", "more": 3 if kind == "decoder" else 0})
    run = client.get("/api/runs/1").json()
    count = len(run["attentions"])
    assert len(client.get("/api/runs/1/mean_weights").json()["attentions"]) == count
    assert client.get("/api/runs/1/residual").json()["missing"] == ""
    found = client.get("/api/runs/1/influence").json()
    assert [len(heads) for heads in found["heads"]] == [one["heads"] for one in run["attentions"]]
    assert found["by"] == ("carried" if kind == "encoder" else "influence")


def test_units_of_a_feed_forward_part_add_up_and_are_worth_their_slope(site, run, text_run):
    """Worths against a run with a unit scaled by a thousandth; vectors against the layer itself."""
    cross, row = max(one["index"] for one in run["attentions"] if one["role"] == "cross"), 2
    found = site.get(f"/api/runs/1/{cross}/feed_forward", query=row, explained=row, count=7, unit=3).json()
    model = text_run.model.model
    part = model.decoder.blocks[-1].feed_forward
    assert (found["activation"], found["gated"], found["by"], found["count"]) == ("ReLU", False, "influence", 640)
    assert found["token"] == run["targets"][row]
    assert found["asked"]["unit"] == 3
    for name in ("effect", "writes"):
        listed = np.array([one[name] for one in found["units"]])
        total = listed.sum(axis=0) + np.array(found["others"][name]) + np.array(found["bias"][name])
        expected = found["effect"] if name == "effect" else found["output"]
        np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-4)
    effects = [abs(one["effect"]) for one in found["units"]]
    assert effects == sorted(effects, reverse=True)
    assert len(effects) == 7
    assert found["others"]["count"] == 633
    target = text_run.encoded.target_ids[row + 1]

    def log_probability(unit, scaled):
        def scale(module, args):
            x = args[0].clone()
            x[0, row, unit] *= 1 + scaled
            return (x,)

        hook = part.W_2.register_forward_pre_hook(scale)
        with torch.no_grad():
            value = text_run.model.run(text_run.encoded)[0, row].double().log_softmax(-1)[target]
        hook.remove()
        return float(value)

    for one in found["units"][:3]:
        slope = (log_probability(one["unit"], 1e-2) - log_probability(one["unit"], -1e-2)) / 2e-2
        assert one["effect"] == pytest.approx(slope, rel=2e-2, abs=1e-4)
        unit = one["unit"]
        np.testing.assert_allclose(one["gate"]["W"], part.W_1.weight[unit].detach(), rtol=1e-5, atol=1e-9)
        products = np.array(found["input"]) @ np.array(one["gate"]["W"]) + one["gate"]["b"]
        assert one["gate"]["value"] == pytest.approx(products, rel=1e-4, abs=1e-4)
        written = one["hidden"] * part.W_2.weight[:, unit].detach()
        np.testing.assert_allclose(one["writes"], written, rtol=1e-4, atol=1e-6)
        curve = np.array(found["curve"])
        assert np.interp(one["gate"]["value"], curve[:, 0], curve[:, 1]) == pytest.approx(one["active"])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_every_kind_of_model_has_feed_forward_parts(kind, tmp_path):
    client = Client(Session(load_text_model(of_transom(kind, tmp_path / kind))))
    client.post("/api/runs", {"text": "the cat sat"})
    found = client.get("/api/runs/1/0/feed_forward", query=1, explained=0).json()
    assert found["by"] == ("size" if kind == "encoder" else "influence")
    sizes = [one["size"] for one in found["units"]]
    if kind == "encoder":
        assert sizes == sorted(sizes, reverse=True)
        assert found["effect"] is found["units"][0]["effect"] is found["others"]["effect"] is None
    assert sizes == pytest.approx([np.linalg.norm(one["writes"]) for one in found["units"]], rel=1e-4)


def test_a_trace_and_an_unknown_unit_are_refused_plainly(site):
    client = Client(Session(trace=small_trace(["a", "b", "c"])))
    refused = client.get("/api/runs/1/0/feed_forward")
    said = "a trace has no model, so its feed-forward parts cannot be taken apart; open the model itself"
    assert (refused.status_code, refused.json()["error"]) == (400, said)
    for fields, error in (({"unit": 640}, "there are unit=640, so 640"), ({"query": 99}, "so 99 is none of them")):
        assert error in site.get("/api/runs/1/0/feed_forward", **fields).json()["error"]


class NoResidual(torch.nn.Module):
    """A block whose attention replaces its input instead of being added to it."""

    def __init__(self):
        super().__init__()
        self.attention = transom.layers.MultiHeadAttention(12, 3)
        self.feed_forward = torch.nn.Linear(12, 12)

    def forward(self, x):
        return self.feed_forward(self.attention(x))


def test_parts_that_are_not_added_are_not_shown():
    torch.manual_seed(3)
    model, x = torch.nn.Sequential(NoResidual(), NoResidual()).eval(), torch.randn(1, 5, 12)
    with transom.watch(model) as trace:
        model(x)
    found = measure_residual_sizes(model, lambda: model(x), trace.names)
    assert list(found) == [block_path(name) for name in trace.names] == ["0", "1"]
    assert set(found.values()) == {None}
