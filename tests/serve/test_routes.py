"""The routes with the embedded model behind them: each number against the Sight it comes from."""

import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest
from serve.browsing import SENTENCE
from serve.client import HEADERS, Client, events_of

from transom.serve import limits
from transom.serve.routes import ROUTES
from transom.serve.session import Session
from transom.show.views import VIEWS


def find_role(run, role):
    return next(attention for attention in run["attentions"] if attention["role"] == role)


def cross(run):
    return find_role(run, "cross")


def sight(site, index):
    return site.session.runs["1"].trace[index]


def test_a_sentence_comes_back_with_its_translation_and_all_attention(site, run):
    config = site.session.runs["1"].model.model.config
    roles = [attention["role"] for attention in run["attentions"]]
    assert roles.count("encoder") == config.encoder_layers
    assert roles.count("decoder") == roles.count("cross") == config.decoder_layers
    assert all(attention["receipt"]["holds"] for attention in run["attentions"])
    assert cross(run)["queries"] == len(run["targets"])
    assert cross(run)["keys"] == len(run["tokens"])
    for row, token in zip(run["likely"], run["written"], strict=True):
        assert row[0]["token"] == token, "it wrote what it found likeliest"
        assert row[0]["probability"] >= row[1]["probability"]
    state = site.get("/api/state").json()
    assert state["models"] == [run["model"]] == [{"name": "the embedded translator", "kind": "encoder_decoder"}]
    assert state["runs"][0]["text"] == SENTENCE


def test_a_trace_knows_what_its_rows_are_to_predict(site, run):
    saved = Client(Session(trace=site.session.runs["1"].trace)).get("/api/runs/1").json()
    assert saved["targets"] == [*run["targets"], run["written"][-1]], "the last written token was not read"
    assert saved["written"] == run["written"]
    for each in (run, saved):
        roles = {(attention["role"], attention["predicts"]) for attention in each["attentions"]}
        assert roles == {("encoder", False), ("decoder", True), ("cross", True)}


def test_words_that_are_too_few_for_a_trace_are_told_where_they_are_shown(site):
    import transom

    trace = transom.Trace(["one"])
    trace.add("layer.0", site.session.runs["1"].trace[0])
    client = Client(Session(trace=trace))
    run = client.get("/api/runs/1").json()
    assert (run["written"], run["attentions"][0]["predicts"]) == ([], False)
    assert client.get("/api/runs/1/0/weights").json()["error"].startswith("'layer.0' has keys=")


def test_a_tile_of_single_weights_holds_the_exact_numbers(site, run):
    index = cross(run)["index"]
    answer = site.get(f"/api/runs/1/{index}/tile", head=2, level=0)
    header = json.loads(answer.headers["Tile"])
    assert header["type"] == "float32"
    values = np.frombuffer(answer.content, "<f4").reshape(header["shape"])
    np.testing.assert_array_equal(values, sight(site, index).weights(batch=0, head=2).numpy())
    again = site.get(f"/api/runs/1/{index}/tile", head=2, level=0)
    assert again.headers["ETag"] == answer.headers["ETag"]


def test_a_browser_that_has_an_answer_gets_none(site, run):
    etag = site.get("/api/runs/1").headers["ETag"]
    (response,) = site.request_all(("GET", "/api/runs/1", None), headers=HEADERS | {"If-None-Match": etag})
    assert (response.status_code, response.content) == (304, b"")


def test_numbers_with_their_words(site, run):
    index = cross(run)["index"]
    found = site.get(f"/api/runs/1/{index}/weights", head=1, first_row=1, rows=3, keys=5).json()
    assert found["rows"] == run["targets"][1:4]
    assert found["keys"] == run["tokens"][:5]
    weights = sight(site, index).weights(batch=0, head=1, rows=slice(1, 4), keys=slice(0, 5))
    np.testing.assert_array_equal(np.float32(found["weights"]), weights.numpy())
    self_attention = find_role(run, "decoder")["index"]
    scores = site.get(f"/api/runs/1/{self_attention}/weights").json()["scores"]
    assert scores[0][1] is None, "what a row may not see has no score"


def test_the_strongest_arrows(site, run):
    index = cross(run)["index"]
    edges = site.get(f"/api/runs/1/{index}/strongest", head=0, count=3).json()["edges"]
    weights = sight(site, index).weights(batch=0, head=0)
    assert [edge["weight"] for edge in edges] == pytest.approx(weights.flatten().topk(3).values.tolist(), rel=1e-5)
    for edge in edges:
        assert float(weights[edge["query"], edge["key"]]) == pytest.approx(edge["weight"], rel=1e-5)
        assert (edge["from"], edge["at"]) == (run["targets"][edge["query"]], run["tokens"][edge["key"]])
    without = site.get(f"/api/runs/1/{index}/strongest", head=0, sink=False).json()["edges"]
    assert all(edge["key"] != 0 for edge in without)
    masked = find_role(run, "decoder")["index"]
    last = site.get(f"/api/runs/1/{masked}/strongest", head=0, count=100).json()["edges"][-1]
    assert (last["query"], last["key"], round(last["weight"], 4)) == (0, 0, 1.0), "a row without a choice tells nothing"


def test_an_arrow_knocked_out_changes_what_comes_next(site, run):
    edge = {"layer": cross(run)["name"], "head": 0, "query": 1, "key": 1}
    answer = site.post("/api/runs/1/knock_out", {"edges": [edge], "how": "before"}).json()
    rows = answer["rows"]
    assert rows[0]["kl"] == pytest.approx(0.0, abs=1e-6), "what came before cannot change"
    assert answer["change"] > 0
    first = {word["token"]: word for word in rows[1]["words"]}
    assert first[run["written"][1]]["before"] == pytest.approx(run["likely"][1][0]["probability"], rel=1e-4)


def test_the_effects_of_the_arrows_of_a_row(site, run):
    index = cross(run)["index"]
    found = site.get(f"/api/runs/1/{index}/effects", head=0, query=1, count=3).json()
    weights = sight(site, index).weights(batch=0, head=0, rows=1)
    assert [row["weight"] for row in found["rows"]] == pytest.approx(weights.topk(3).values.tolist(), rel=1e-5)
    assert found["token"] == run["written"][1]
    assert found["probability"] == pytest.approx(run["likely"][1][0]["probability"], rel=1e-4)
    assert all(row["kl"] >= 0 for row in found["rows"])
    alone = site.get(f"/api/runs/1/{index}/effects", head=0, query=1, key=found["rows"][1]["key"]).json()["rows"]
    assert alone[0]["kl"] == pytest.approx(found["rows"][1]["kl"], rel=1e-3, abs=1e-9)
    # An arrow in the encoder has no token: its effect is on the probability of the whole translation.
    inside = find_role(run, "encoder")["index"]
    likely = site.get(f"/api/runs/1/{inside}/effects", head=0, query=1, count=2).json()
    assert likely["rows"][0]["kl"] is None
    assert likely["value"] < 0


def test_the_head_that_is_opened_first_is_the_one_that_see_shows(site, run):
    from transom.cli.see_analysis import SeeRequest, analyse

    found = site.get("/api/runs/1/telling").json()
    assert run["attentions"][found["attention"]]["role"] == "cross"
    assert run["attentions"][found["attention"]]["name"] == found["layer"]
    seen = analyse(SeeRequest(SENTENCE))
    assert (seen.layer, seen.head, seen.chosen, seen.compared) == tuple(
        found[name] for name in ("layer", "head", "why", "compared")
    )


def test_heads_and_edges_are_ranked_by_influence(site, run):
    quick = site.get("/api/runs/1/ranking").json()
    assert (quick["unit"], {row["effect"] for row in quick["rows"]}) == ("nats", {None})
    assert len(quick["rows"]) == sum(attention["heads"] for attention in run["attentions"])
    estimates = [row["estimate"] for row in quick["rows"]]
    assert estimates == sorted(estimates, reverse=True)
    refined = site.get("/api/runs/1/ranking", refine=3).json()["rows"]
    for row in refined[:3]:
        assert run["attentions"][row["attention"]]["name"] == row["layer"]
        edges = [{"layer": row["layer"], "head": row["head"]}]
        change = site.post("/api/runs/1/knock_out", {"edges": edges, "how": "after"}).json()["change"]
        assert row["effect"] == pytest.approx(change, rel=1e-3)
    index = cross(run)["index"]
    block = site.get(f"/api/runs/1/{index}/influence", head=1, rows=4, keys=5).json()
    weights = site.get(f"/api/runs/1/{index}/weights", head=1, rows=4, keys=5).json()
    assert (block["rows"], block["keys"], block["weights"]) == (weights["rows"], weights["keys"], weights["weights"])
    edges = site.get(f"/api/runs/1/{index}/strongest", head=1, count=3, by="influence").json()["edges"]
    assert edges[0]["estimate"] >= max(map(max, block["estimates"]))
    assert edges[0]["from"] == run["targets"][edges[0]["query"]]
    without = site.get(f"/api/runs/1/{index}/strongest", head=1, sink=False, by="influence").json()["edges"]
    assert all(edge["key"] != 0 for edge in without)


def read_tile(answer):
    header = json.loads(answer.headers["Tile"])
    numbers = np.frombuffer(answer.content, "<f4" if header["type"] == "float32" else "<f2").astype(np.float64)
    return header, header["scale"] * numbers.reshape(header["shape"])


def test_what_mattered_for_one_token_has_signs(site, run):
    """The block, the map, its largest number and the list say the same; a true knock-out of the first edge agrees."""
    token, index, head = 3, cross(run)["index"], 1
    path, name = f"/api/runs/1/{index}", cross(run)["name"]
    block = site.get(f"{path}/influence", head=head, rows=64, keys=64, token=token).json()
    changes = np.array(block["estimates"])
    assert changes.min() < 0 < changes.max()
    assert (block["unit"], block["explained"]["token"]) == ("log_probability", run["written"][token])
    likely = {one["token"]: one["probability"] for one in run["likely"][token]}
    assert block["explained"]["log_probability"] == pytest.approx(np.log(likely[run["written"][token]]), rel=1e-3)
    header, tile = read_tile(site.get(f"{path}/tile", head=head, token=token))
    assert header["type"] == "float32"
    assert tile == pytest.approx(changes, rel=1e-5, abs=1e-8)
    events = site.get(f"{path}/overview", head=head, token=token).text
    assert "one forward and one backward pass of the model" in events.partition("\n\n")[0]
    last = json.loads(events.strip().rpartition("data: ")[2])
    assert (last["row"], last["largest"]) == (token, pytest.approx(np.abs(changes).max(), rel=1e-5))
    edges = site.get(f"{path}/strongest", head=head, count=4, by="influence", token=token).json()["edges"]
    sizes = np.sort(np.abs(changes).flatten())[::-1]
    assert [abs(edge["estimate"]) for edge in edges] == pytest.approx(sizes[:4], rel=1e-4)
    first = edges[0]
    assert first["estimate"] == pytest.approx(changes[first["query"], first["key"]], rel=1e-4)
    edge = {"layer": name, "head": head, "query": first["query"], "key": first["key"]}
    words = site.post("/api/runs/1/knock_out", {"edges": [edge], "how": "before"}).json()["rows"][token]["words"]
    word = next(one for one in words if one["token"] == run["written"][token])
    change = np.log(word["after"] / word["before"])
    assert np.sign(change) == np.sign(first["estimate"])


def test_agreement_of_one_token_grows_by_knock_outs(site, run):
    some = site.get("/api/runs/1/agreement", token=2, samples=4).json()
    more = site.get("/api/runs/1/agreement", token=2, samples=12).json()
    assert (some["samples"], more["samples"], more["token"]) == (4, 12, run["written"][2])
    assert more["rows"][:4] == some["rows"]
    for row in more["rows"][:3]:
        edge = {name: row[name] for name in ("layer", "head", "query", "key")}
        words = site.post("/api/runs/1/knock_out", {"edges": [edge], "how": "before"}).json()["rows"][2]["words"]
        word = next(one for one in words if one["token"] == run["written"][2])
        assert row["change"] == pytest.approx(np.log(word["after"] / word["before"]), rel=2e-2, abs=2e-5)
    pairs = np.array([[row["estimate"], row["change"]] for row in more["rows"]])
    assert more["pearson"] == pytest.approx(np.corrcoef(pairs.T)[0, 1], abs=1e-6)


def test_what_mattered_for_a_token_needs_a_prediction(site, run):
    index = cross(run)["index"]
    late = site.get(f"/api/runs/1/{index}/tile", token=900)
    assert late.json()["error"].startswith(f"there are rows={len(run['targets'])}, so 900 is none of them")
    both = site.get(f"/api/runs/1/{index}/tile", token=1, against="1")
    assert both.json()["error"].startswith("two runs are compared by their weights, but a token is given too")
    alone = Client(Session(trace=site.session.runs["1"].trace)).get("/api/runs/1/agreement", token=1)
    assert alone.status_code == 400
    assert "this is a trace without its model; leave out the token" in alone.json()["error"]


def test_influence_of_a_trace_without_its_model_is_an_error(site):
    client = Client(Session(trace=site.session.runs["1"].trace))
    answer = client.get("/api/runs/1/0/influence")
    assert answer.status_code == 400
    assert "this is a trace without its model; ask for weights" in answer.json()["error"]
    assert client.get("/api/runs/1/ranking").json()["why"] == "its arrows carry most, by weight · ‖value‖"


def test_the_head_of_a_trace_is_told_where_that_is_quick(site, monkeypatch):
    trace = site.session.runs["1"].trace
    client = Client(Session(trace=trace))
    assert client.get("/api/runs/1/telling").json()["why"] == "its arrows carry most, by weight · ‖value‖"
    monkeypatch.setattr("transom.serve.run_queries.QUICKLY_RANKED", 3)
    assert client.get("/api/runs/1/telling").json() == {"attention": None}


def test_heads_with_their_measures(site, run):
    from transom.lens.metrics.head_measures import HEADS

    found = site.get("/api/runs/1/heads").json()
    assert len(found["heads"]) == sum(attention["heads"] for attention in run["attentions"])
    assert list(found["measures"]) == list(HEADS)
    assert found["measures"]["entropy"] == {"spoken": "entropy (of log n)", "meaning": HEADS["entropy"].meaning}


def test_one_head_with_its_measures_and_what_it_does(site, run):
    heads = site.get("/api/runs/1/heads").json()["heads"]
    names = [attention["name"] for attention in run["attentions"]]
    for expected in heads[::5]:
        found = site.get(f"/api/runs/1/{names.index(expected['layer'])}/head?head={expected['head']}").json()
        assert found == expected
        assert found["description"]
    assert site.get("/api/runs/1/0/head?head=99").status_code == 400


def test_how_far_the_heads_are_measured_is_told_and_they_are_measured_once(site, monkeypatch):
    from transom.serve import run_queries

    measured, measure = [], run_queries.measure_heads
    monkeypatch.setattr(run_queries, "measure_heads", lambda run, job: measured.append(run) or measure(run, job))
    paths = ("measuring", "heads", "measuring")
    first, found, again = site.request_all(*(("GET", f"/api/runs/1/{path}", None) for path in paths))
    *shares, last = events_of(first)
    shares = [event["share"] for event in shares]
    attentions = len(site.session.runs["1"].trace)
    assert shares == [round(done / attentions, 3) for done in range(1, attentions)], "a sentence is one band"
    assert last == {"ready": True}
    assert found.json() == site.get("/api/runs/1/heads").json()
    assert events_of(again) == [{"ready": True}]
    assert len(measured) == 2, "once for each context"


def test_the_run_as_a_file(site, tmp_path):
    import transom

    answer = site.get("/api/runs/1/trace")
    path = tmp_path / "run.safetensors"
    path.write_bytes(answer.content)
    assert transom.Trace.load(path).names == site.session.runs["1"].trace.names
    assert answer.headers["Content-Disposition"] == 'attachment; filename="run-1.safetensors"'


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/api/runs/99", None, "there is no run '99' here; the last ones are {runs}"),
        ("/api/runs/1/99/tile", None, "run 1 has {count} attentions, so there is no 99; count from 0"),
        ("/api/runs/1/0/tile?levle=1", None, "there is no field 'levle'; did you mean 'level'?"),
        ("/api/runs/1/0/tile?level=1&level=2", None, "the field 'level' came twice; give it once"),
        ("/api/runs/1/0/tile?head=-1", None, "the query does not fit: Expected `int` >= 0 - at `$.head`; correct it"),
        ("/api/runs", {"text": " "}, "the text is empty, but there must be something to read; give a word or more"),
        ("/api/runs", {"txt": "a"}, "the body does not fit: Object contains unknown field `txt`; correct it"),
    ],
)
def test_what_does_not_fit_is_told(site, run, path, body, message, own_errors):
    answer = site.get(path) if body is None else site.post(path, body)
    assert answer.status_code == 400
    values = {"count": len(run["attentions"]), "runs": ", ".join(site.session.runs)}
    assert answer.json() == {"error": message.format(**values)}


def test_what_is_nowhere(site):
    assert site.get("/api/nothing").status_code == 404
    assert site.get("/../../etc/passwd").status_code == 404


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_behind_the_guard(site, route):
    path = route.path.replace("{run}", "1").replace("{attention:int}", "0").replace("{view}", "matrix")

    def status(headers):
        return site.request_all((route.method, path, None), headers=headers)[0].status_code

    assert status({}) == 401
    assert status(HEADERS | {"Host": "evil.example"}) == 421
    assert status(HEADERS | {"Origin": "https://evil.example"}) == 403
    if route.method == "POST":
        assert status(HEADERS | {"Content-Type": "text/plain"}) == 415


PAGE = Path(__file__).parents[2] / "docs/serve.md"


def test_every_route_is_in_its_page():
    page = PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(("| GET |", "| POST |"))]
    assert rows == [f"| {route.method} | `{route.path}` | {route.about} |" for route in ROUTES]


def test_every_status_and_every_limit_is_in_its_page():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if re.match(r"\| [0-9]{3} \|", line)]
    assert rows == [f"| {status} | {when} |" for status, when in limits.STATUSES.items()]
    documented = dict(re.findall(r"^\| `([A-Z_]+)` \| ([0-9,.]+) ", "\n".join(lines), re.MULTILINE))
    numbers = {name: value for name, value in vars(limits).items() if isinstance(value, int | float)}
    assert {name: float(value.replace(",", "")) for name, value in documented.items()} == numbers


def test_every_refusal_has_its_status_in_the_table():
    refusals = [value for value in vars(limits).values() if isinstance(value, limits.Refusal)]
    assert len(refusals) > 10
    assert {refusal.status for refusal in refusals} <= set(limits.STATUSES)
    assert all("Retry-After" in refusal.headers for refusal in refusals if refusal.status == 503)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("path", ["/api/runs/1/heads", "/api/runs/1/measuring"])
def test_an_internal_error_is_one_line_and_with_debug_its_traceback(site, run, monkeypatch, caplog, path, debug):
    def broken(run, job):
        raise RuntimeError("the ladder\n\x1b[31mbroke")

    monkeypatch.setattr("transom.serve.run_queries.measure_heads", broken)
    caplog.set_level(logging.DEBUG if debug else logging.WARNING, "transom.serve")
    answer = site.get(path)
    message = {"error": "internal error; the log of transom serve says which, and with --debug where"}
    if path.endswith("heads"):
        assert (answer.status_code, answer.json()) == (500, message)
    else:
        assert (answer.status_code, answer.text) == (200, f"event: failed\ndata: {json.dumps(message)}\n\n")
    [record] = caplog.records
    name = path.rpartition("/")[2]
    assert record.getMessage() == (
        f"transom: RuntimeError: the ladder ‹U+001B›[31mbroke; an internal error at GET /api/runs/{{run}}/{name}"
    )
    assert bool(record.exc_info) == debug


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_drawn_or_refused_in_words(site, run, view):
    answer = site.get(f"/api/runs/1/{cross(run)['index']}/picture/{view}", head=1, token=2)
    assert answer.status_code in (200, 400)
    assert ("error" in answer.json()) == (answer.status_code == 400)


def test_arrows_are_those_of_the_weights_and_go_with_what_is_chosen(site, run):
    attention = cross(run)
    path = f"/api/runs/1/{attention['index']}"
    weights = site.get(f"{path}/weights", head=1, rows=64, keys=64).json()["weights"]
    found = site.get(f"{path}/picture/arrows", head=1, token=2, key=1).json()
    (panel,) = found["panels"]
    assert (panel["type"], panel["row"], panel["key"]) == ("head_arrows", 2, 1)
    drawn = {(arrow["source"], arrow["target"]): arrow["weight"] for arrow in panel["arrows"]}
    assert drawn == {
        (row, key): weight for row, each in enumerate(weights) for key, weight in enumerate(each) if weight >= 0.001
    }
    assert panel["following"] == run["written"]
    assert {row[1] for row in found["table"]["rows"]} == {2}, "the numbers are those that are seen"
    size = attention["keys"]
    refused = site.get(f"{path}/picture/arrows", head=1, token=0, key=size)
    message = f"there are keys={size}, so {size} is none of them; count from 0 to {size - 1}"
    assert (refused.status_code, refused.json()) == (400, {"error": message})


def test_a_key_that_is_not_there_is_told(site, run):
    keys = cross(run)["keys"]
    answer = site.get(f"/api/runs/1/{cross(run)['index']}/effects", head=0, query=0, key=keys)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": f"there are keys={keys}, so {keys} is none of them; count from 0 to {keys - 1}, or back from -1"
    }


def test_an_attention_too_long_for_a_picture_is_told(site, run, monkeypatch):
    monkeypatch.setattr("transom.serve.pictures.MOST_WEIGHTS", 47)
    attention = cross(run)
    answer = site.get(f"/api/runs/1/{attention['index']}/picture/steps", head=0)
    assert answer.status_code == 400
    assert answer.json()["error"] == (
        f"a picture has at most 47 weights, but {attention['name']} has queries={attention['queries']} and"
        f" keys={attention['keys']}; look at it on the map"
    )


def test_the_steps_go_from_what_came_in_to_what_went_out(site, run):
    index = cross(run)["index"]
    found = site.get(f"/api/runs/1/{index}/picture/steps", head=1).json()
    names = [panel["title"].split(":")[0] for panel in found["panels"]]
    assert names[:5] == ["embedding", "at_embedding", "Q", "K", "V"]
    assert names[-3:] == ["sum", "joined", "output"]
    name, model, outputs = cross(run)["name"], site.session.runs["1"].model, []
    handle = model.model.get_submodule(name).register_forward_hook(lambda _, args, output: outputs.append(output[0]))
    model.run(site.session.run("1").text_run.encoded)
    handle.remove()
    drawn = np.array(found["panels"][-1]["values"])
    assert np.allclose(drawn, outputs[0][: len(drawn), : drawn.shape[1]].numpy(), rtol=1e-4, atol=1e-4)
    assert site.get(f"/api/runs/1/{index}/picture/steps", head=99).status_code == 400
