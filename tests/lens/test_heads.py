"""Every measure of a head against a loop over the whole matrix, for every kind of attention; and the table of them."""

import csv
import io
import json
import math

import pytest
import torch

import transom
from transom.kernels import tiled_attention
from transom.lens.metrics.head_measures import HEADS, Measure, RowValues
from transom.lens.metrics.heads import measure_sums
from transom.lens.trace import Trace
from transom.names import Misfit

torch.manual_seed(31)
BATCH, KV_HEADS, HEAD_COUNT, KEYS = 2, 2, 6, 13
IDS = torch.randint(0, 5, (BATCH, KEYS))
REAL = torch.ones(BATCH, KEYS, dtype=torch.bool)
REAL[1, 9:] = False
LEFT = REAL.flip(1)
Q = 3 * torch.randn(BATCH, HEAD_COUNT, KEYS, 5).double()
K, V = (torch.randn(BATCH, KV_HEADS, KEYS, width).double() for width in (5, 3))
ALLOWED = torch.rand(BATCH, HEAD_COUNT, KEYS, KEYS) < 0.6
ALLOWED[1, 2, 3] = False  # a row that may look nowhere
TRIANGLE = torch.ones(KEYS, KEYS, dtype=torch.bool).tril()

# What is given, what is real, and how many queries there are: the last of them.
KINDS = {
    "encoder": ({}, REAL | True, KEYS),
    "causal": ({"causal": True}, REAL | True, KEYS),
    "a cache": ({"causal": True}, REAL | True, 7),
    "padded": ({"allowed": transom.padding(REAL)}, REAL, KEYS),
    "padded in front, causal": ({"allowed": transom.padding(LEFT) & transom.causal()}, LEFT, KEYS),
    "a window": ({"allowed": transom.sliding_window(4) & transom.causal()}, REAL | True, KEYS),
    "any mask": ({"allowed": ALLOWED}, REAL | True, KEYS),
    "a mask as a bias": (
        {"bias": torch.zeros(BATCH, 1, 1, KEYS).double().masked_fill(~REAL[:, None, None], -1e30)},
        REAL,
        KEYS,
    ),
}


def trace_of(sight, tokens=None, name="layers.3.attention"):
    trace = Trace(tokens)
    trace.add(name, sight)
    return trace


def seen(kind):
    given, _, queries = KINDS[kind]
    return transom.sight(Q[:, :, KEYS - queries :], K, V, **given)


@pytest.fixture(params=[None, 40], ids=["one band", "many bands"])
def bands(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(tiled_attention, "FEWEST_ROWS", 3)
        monkeypatch.setattr(tiled_attention, "BLOCK_SCORES", request.param)


def test_progress_goes_on_within_an_attention(bands):
    shares = []
    trace = trace_of(seen("causal"))
    trace.add("layers.4.attention", seen("a cache"))
    transom.heads(trace, progress=lambda done, of: shares.append((done, of)))
    done = [one for one, of in shares if of == 2]
    assert len(done) == len(shares) == sum(len(list(tiled_attention.row_blocks(sight.problem))) for sight in trace)
    assert done == sorted(set(done)), "it never stands still"
    assert (done[0], 1.0 in done, done[-1] < 2.0) == (0.0, True, True)


def row_by_loop(measure, weights, i, b, h, real):
    """One row's number from its weights as plain floats; None where it does not count."""
    ids, keys = IDS[b].tolist(), [j for j in range(KEYS) if weights[j] > 0]
    first = real.index(True)
    if measure.startswith("entropy"):
        keys = [j for j in keys if measure == "entropy" or j != first]
        total = sum(weights[j] for j in keys)
        shares = [weights[j] / total for j in keys]
        return -sum(p * math.log(p) for p in shares) / math.log(len(keys)) if len(keys) > 1 else None
    earlier = [j for j in range(i) if real[j] and weights[j] > 0]
    if measure == "retrieval":
        if i + 1 >= KEYS or not real[i + 1] or weights[i + 1] > 0:
            return None
        copies = [j for j in range(i + 1) if real[j] and weights[j] > 0 and ids[j] == ids[i + 1]]
        return float(max(range(KEYS), key=lambda j: weights[j]) in copies) if copies else None
    wanted = {
        "induction": [j for j in earlier if j > 0 and ids[j - 1] == ids[i]],
        "duplicate": [j for j in earlier if ids[j] == ids[i]],
    }
    if measure in wanted:
        return sum(weights[j] for j in wanted[measure]) if wanted[measure] else None
    lengths = [math.sqrt(sum(x * x for x in V[b, h // 3, j].tolist())) for j in range(KEYS)]
    return {
        "sink": lambda: weights[first],
        "own": lambda: weights[i] if weights[i] > 0 else None,
        "next": lambda: weights[i + 1] if i + 1 < KEYS and weights[i + 1] > 0 else None,
        "previous": lambda: weights[i - 1] if i > 0 and real[i - 1] else None,
        "distance": lambda: sum(weights[j] * abs(i - j) for j in range(KEYS)),
        "confidence": lambda: max(weights),
        "value_norm": lambda: sum(weights[j] * lengths[j] for j in range(KEYS)),
    }[measure]()


def by_loop(measure, sight, real):
    """Per head the mean over the rows that count."""
    weights = sight.weights()
    queries, found = weights.shape[2], []
    if measure == "largest_sink":
        return largest_sink_by_loop(weights, real)
    for h in range(HEAD_COUNT):
        rows = [
            row_by_loop(measure, weights[b, h, i].tolist(), i + KEYS - queries, b, h, real[b].tolist())
            for b in range(BATCH)
            for i in range(queries)
            if real[b, i + KEYS - queries] and weights[b, h, i].sum() > 0
        ]
        rows = [row for row in rows if row is not None]
        found.append(sum(rows) / len(rows) if rows else None)
    return found


def largest_sink_by_loop(weights, real):
    """For each sequence the key that received most; divided by the number of rows."""
    queries, found = weights.shape[2], []
    for h in range(HEAD_COUNT):
        total, count = 0.0, 0
        for b in range(BATCH):
            rows = [i for i in range(queries) if real[b, i + KEYS - queries] and weights[b, h, i].sum() > 0]
            total += max(sum(float(weights[b, h, i, j]) for i in rows) for j in range(KEYS))
            count += len(rows)
        found.append(total / count)
    return found


# What a kind of attention has no row for: a causal one does not see the next token, the others see it.
WITHOUT = {
    "next": {"causal", "a cache", "padded in front, causal", "a window"},
    "retrieval": {"encoder", "padded", "a mask as a bias"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_measure_is_the_loops(kind, bands):
    sight, real = seen(kind), KINDS[kind][1]
    table = transom.heads(trace_of(sight), tokens=IDS)
    assert table.measures == tuple(HEADS)
    for measure in HEADS:
        expected = by_loop(measure, sight, real)
        is_without = kind in WITHOUT.get(measure, ())
        assert expected.count(None) == HEAD_COUNT * is_without, "the example should tell every measure"
        assert [row[measure] for row in table] == pytest.approx(expected, abs=1e-12), measure


def test_padding_can_be_told_where_no_mask_tells_it():
    bias = torch.zeros(1, 1, KEYS, KEYS).double().masked_fill(~TRIANGLE, -torch.inf)
    sight = transom.sight(Q, K, V, bias=bias)
    table = transom.heads(trace_of(sight), ["sink", "previous", "confidence"], real=REAL.long())
    for measure in table.measures:
        assert [row[measure] for row in table] == pytest.approx(by_loop(measure, sight, REAL), abs=1e-12)


def test_tokens_may_be_words_of_the_trace_or_ids():
    sight = seen("causal")
    words = [[str(one) for one in row] for row in IDS.tolist()]
    by_ids = transom.heads(trace_of(sight), tokens=IDS.tolist())
    assert transom.heads(trace_of(sight, words)).csv() == by_ids.csv()
    assert transom.heads(trace_of(sight, words), tokens=IDS).csv() == by_ids.csv()


def test_without_tokens_what_compares_them_is_left_out_and_said():
    table = transom.heads(trace_of(seen("causal")))
    assert table["layers.3.attention", 5]["induction"] is None
    assert str(table).splitlines()[-1] == (
        "– induction, duplicate, retrieval of layers.3.attention: it compares tokens, and none are known; give tokens"
    )


def test_cross_attention_has_only_what_makes_sense():
    table = transom.heads(trace_of(seen("encoder"), name="decoder.blocks.0.cross"), tokens=IDS, targets=IDS)
    had = {"entropy", "largest_sink", "confidence", "value_norm"}
    assert all(row.cross and {name for name, value in row.values.items() if value is not None} == had for row in table)
    why = "it looks from one sequence at another, so that positions and tokens of the two do not compare"
    assert str(table).splitlines()[-1].endswith(f"of decoder.blocks.0.cross: {why}")


def test_more_queries_than_keys_without_a_mask_are_taken_for_cross_attention():
    table = transom.heads(trace_of(transom.sight(Q, K[:, :, :7], V[:, :, :7])))
    assert table.missing["layers.3.attention", "distance"].startswith("it looks from one sequence at another")


def test_an_encoder_decoder_has_tokens_for_each_side():
    trace = Trace()
    for name in ("encoder.0.attention", "decoder.0.self", "decoder.0.cross"):
        trace.add(name, seen("causal"))
    other = (IDS + IDS.roll(3, 1)) % 4
    table = transom.heads(trace, ["duplicate"], tokens=IDS, targets=other)
    own = [transom.heads(trace_of(seen("causal")), ["duplicate"], tokens=one) for one in (IDS, other)]
    found = [[row["duplicate"] for row in part] for part in (table, *own)]
    assert found[0] == found[1] + found[2] + [None] * HEAD_COUNT


def test_statistics_alone_tell_some_and_the_rest_is_said(own_errors):
    model = transom.layers.MultiHeadAttention(d_model=12, heads=3).double()
    x = torch.randn(2, 7, 12).double()
    with transom.watch(model) as whole:
        model(x, causal=True)
    with transom.watch(model, keep="statistics") as few:
        model(x, causal=True)
    for measure in ("confidence", "distance"):
        ours, theirs = (transom.heads(trace, [measure]) for trace in (few, whole))
        assert [row[measure] for row in ours] == pytest.approx([row[measure] for row in theirs])
    assert transom.heads(few)["(model)", 0]["entropy"] is None
    with pytest.raises(Misfit) as caught:
        transom.heads(few, ["previous"])
    assert str(caught.value) == (
        "'previous' of '(model)' cannot be computed: it needs the weights, of which only statistics were kept; watch"
        " with keep='qkv'"
    )


def test_weights_alone_have_no_values():
    sight = transom.sight(Q, K, V[..., :0])
    table = transom.heads(trace_of(sight), ["value_norm", "confidence"])
    assert table["layers.3.attention", 0]["value_norm"] is None
    assert table.missing == {("layers.3.attention", "value_norm"): "its values were not seen"}


def test_a_measure_of_ones_own_is_a_row_of_the_table(monkeypatch):
    monkeypatch.setitem(
        HEADS, "last", Measure("the weight on the last key", lambda look: RowValues(look.weights[..., -1]))
    )
    table = transom.heads(trace_of(seen("encoder")))
    weights = seen("encoder").weights()
    assert table.measures[-1] == "last"
    assert [row["last"] for row in table] == pytest.approx(weights[..., -1].mean(dim=(0, 2)).tolist())


@pytest.mark.parametrize("measure", HEADS)
def test_every_measure_says_what_it_means_and_is_in_the_page(measure):
    from test_docs import text

    assert f"| `{measure}` |" in text("docs/lens.md")
    assert HEADS[measure].meaning


def test_steps_of_a_cache_join_to_the_whole():
    whole = seen("causal")
    trace = Trace()
    for first, last in ((0, 5), (5, 6), (6, 13)):
        trace.add("a", transom.sight(Q[:, :, first:last], K[:, :, :last], V[:, :, :last], causal=True))
    table = transom.heads(trace, tokens=IDS)
    expected = transom.heads(trace_of(whole, name="a"), tokens=IDS)
    for ours, theirs in zip(table, expected, strict=True):
        assert ours.counts == theirs.counts
        assert ours.values.pop("next") is theirs.values.pop("next") is None
        assert list(ours.values.values()) == pytest.approx(list(theirs.values.values()))


def test_sums_join_exactly_in_any_order():
    parts = [measure_sums(trace_of(seen(kind)), tokens=IDS) for kind in KINDS]
    from transom.lens.metrics.head_sums import HeadSums

    one, other = HeadSums.merge_all(parts), HeadSums.merge_all(reversed([HeadSums.merge_all(parts[3:]), *parts[:3]]))
    assert one == other
    assert parts[0] == measure_sums(trace_of(seen("encoder")), tokens=IDS), "the parts are as they were"


@pytest.fixture(scope="module")
def table():
    trace = trace_of(seen("causal"), name="a.b")
    trace.add("decoder.cross", seen("encoder"))
    return transom.heads(trace, ["entropy", "previous", "confidence"])


def test_the_table_sorts_filters_and_finds(table):
    by_previous = table.sorted("previous")
    numbers = [row["previous"] for row in by_previous]
    assert numbers[:6] == sorted(numbers[:6], reverse=True)
    assert numbers[6:] == [None] * 6
    assert len(table.sorted("previous", 2)) == 2
    assert {row.layer for row in table.only(lambda row: row.cross)} == {"decoder.cross"}
    assert table["a.b", 3].head == 3


def test_the_table_as_csv_json_and_text(table):
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [float(row["entropy"]) for row in rows] == [row["entropy"] for row in table]
    assert rows[-1]["previous"] == ""
    assert rows[-1]["cross"] == "1"
    told = json.loads(table.json())
    assert told["heads"][0]["rows"] == {"entropy": 24, "previous": 24, "confidence": 26}
    assert told["missing"][0] | {"why": ""} == {"layer": "decoder.cross", "measure": "previous", "why": ""}
    lines = str(table).splitlines()
    assert lines[0] == "layer          head  entropy (of log n)  previous  confidence"
    assert lines[12].startswith("decoder.cross     5")
    assert lines[12].split()[3] == "–"


def nothing():
    return trace_of(seen("causal"))


def not_a_number():
    spoiled = Q.clone()
    spoiled[0, 1, 2] = torch.nan
    return trace_of(transom.sight(spoiled, K, V))


MISTAKES = {
    "an unknown measure": (
        lambda: transom.heads(nothing(), ["inducton"]),
        "there is no measure 'inducton'; did you mean 'induction'?",
    ),
    "an empty trace": (
        lambda: transom.heads(Trace()),
        "heads measures a run, but the trace holds no attention; run the model inside transom.watch",
    ),
    "too few tokens": (
        lambda: transom.heads(nothing(), tokens=["a", "b"]),
        "tokens are 1 sequences of 2, but 'layers.3.attention' has batch=2 and keys=13; give one word or id per token,"
        " and targets for what a decoder reads",
    ),
    "a wrong real": (
        lambda: transom.heads(nothing(), real=REAL[:, :5]),
        "real is (batch=2, token=5), but 'layers.3.attention' has batch=2 and 13 tokens; give one entry per token",
    ),
    "NaN": (
        lambda: transom.heads(not_a_number()),
        "'layers.3.attention' cannot be measured, as some of its weights are NaN; look at what the model was given",
    ),
    "NaN among the values": (
        lambda: transom.heads(trace_of(transom.sight(Q, K, V.masked_fill(IDS[:, None, :, None] == 3, torch.nan)))),
        "'value_norm' of 'layers.3.attention' is not a number; look at what the model was given",
    ),
    "a column that is not there": (
        lambda: transom.heads(nothing(), ["sink"]).sorted("entropy"),
        "'entropy' was not measured; there are sink",
    ),
    "a head that is not there": (
        lambda: transom.heads(nothing(), ["sink"])["layers.3.atention", 1],
        "there is no head ('layers.3.atention', 1); did you mean 'layers.3.attention'?",
    ),
    "other measures": (
        lambda: measure_sums(nothing(), ["sink"]).merge(measure_sums(nothing(), ["previous"])),
        "one has the measures sink, the other previous; join what was measured alike",
    ),
    "another model": (
        lambda: measure_sums(nothing(), ["sink"]).merge(measure_sums(trace_of(seen("causal"), name="b"), ["sink"])),
        "one has the attentions layers.3.attention, the other b; these are of different models, so measure them apart",
    ),
}


@pytest.mark.usefixtures("own_errors")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_said(mistake):
    act, message = MISTAKES[mistake]
    with pytest.raises(Misfit) as caught:
        act()
    assert str(caught.value) == message


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["Llama, grouped", "Mistral, sliding window", "BERT", "T5, relative bias", "BART"])
def test_hugging_face_models_tell_their_padding_and_their_sides(name):
    pytest.importorskip("transformers")
    from architectures import IDS as THEIRS
    from architectures import MASK, SDPA

    one = SDPA[name]
    model = one.build("sdpa")
    with torch.no_grad(), transom.watch(model) as trace:
        model(**one.inputs)
    table = transom.heads(trace, tokens=THEIRS, targets=THEIRS[:, :7])
    told = transom.heads(trace, tokens=THEIRS, targets=THEIRS[:, :7], real=MASK)
    assert table.csv() == told.csv()
    assert table.rows[0].counts["confidence"] == int(MASK.sum())
    both = name in ("T5, relative bias", "BART")
    assert sum(row.cross for row in table) == (len(table) // 3 if both else 0)
    assert all(row["distance"] is not None for row in table if not row.cross)
