"""What a model writes, told while it writes; and what came out of two runs, beside each other."""

from itertools import pairwise

import pytest
from model_folders import of_transom
from serve.browsing import SENTENCE
from serve.client import Page, told
from serve.watched import watched

from transom.cli.any_model import opened
from transom.serve.studio import Studio


def test_a_translation_is_told_token_by_token(site):
    *tokens, last = told(site.post("/api/writing", {"text": SENTENCE}))
    run = last["run"]
    assert [one["token"] for one in tokens] == run["written"]
    texts = [one["text"] for one in tokens]
    assert texts[-1] == run["output"]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert site.get(f"/api/runs/{run['run']}").json() == run
    failed = site.post("/api/writing", {"text": " "})
    assert failed.text.startswith("event: failed\n")
    assert told(failed) == [{"error": "the text is empty, but there must be something to read; give a word or more"}]


def test_a_decoder_writes_on_token_by_token(tmp_path):
    model = opened(of_transom("decoder", tmp_path / "decoder"))
    there, ids = Page(Studio(model)), model.encode("the cat sat").ids
    *tokens, last = told(there.post("/api/writing", {"text": "the cat sat", "more": 5}))
    new = model.continued(ids, 5)
    assert [one["token"] for one in tokens] == model.strings(new)
    run = last["run"]
    assert run["output"] == tokens[-1]["text"] == model.text(new)
    assert run["tokens"] == model.strings([*ids, *new[:-1]])
    assert run["written"] == model.strings([*ids[1:], *new])
    kept = Page(Studio(trace=there.studio.runs[run["run"]].trace)).get("/api/runs/1").json()
    assert kept["written"] == run["written"], "a trace has what was written last, where it was watched with it"
    assert run["note"] is None
    full = there.post("/api/runs", {"text": "the cat sat", "more": 256}).json()
    room = f"{model.name} has room for {model.longest - len(ids)}: it takes {model.longest} in all"
    assert full["note"] == f"asked to write 256 tokens, {room}"
    read = there.post("/api/runs", {"text": "the cat sat"}).json()
    assert (read["output"], len(read["tokens"])) == ("", len(ids))
    beside = there.get(f"/api/runs/{run['run']}/beside", other=read["run"]).json()["rows"]
    assert beside[-1]["sides"][1] is None
    assert beside[0]["kl"] == pytest.approx(0.0, abs=1e-6), "both read the same so far"


def test_the_model_is_chosen_by_its_name_and_a_trace_stands_beside_it(tmp_path):
    first, second = opened(), opened(of_transom("decoder", tmp_path / "decoder"))
    there = Page(Studio(first, second, trace=watched(["a", "b", "c"]), name="a file"))
    state = there.get("/api/state").json()
    assert [one["name"] for one in state["models"]] == [first.name, second.name]
    assert [one["text"] for one in state["runs"]] == [None]
    by_first, by_second = (
        there.post("/api/runs", {"text": "the cat", "model": name}).json() for name in ("", second.name)
    )
    assert (by_first["model"]["name"], by_second["model"]["name"]) == (first.name, second.name)
    assert by_second["tokens"] == second.strings(second.encode("the cat").ids)
    assert there.get("/api/runs/1").json()["model"] is None
    edges = {"edges": [{"layer": by_second["attentions"][0]["name"], "head": 0}]}
    assert there.post("/api/runs/3/knock_out", edges).json()["change"] > 0
    assert there.post("/api/runs/1/knock_out", edges).json()["error"] == (
        "arrows are knocked out of a model that runs, but a trace is open; start with --model for that"
    )
    assert there.get("/api/runs/2/beside", other="3").json()["rows"] == [], "their words are not the same"
    assert there.post("/api/runs", {"text": "the cat", "model": "none"}).json()["error"] == (
        f"there is no model 'none' here; there are {first.name}, {second.name}"
    )


def test_two_runs_beside_each_other(site, run):
    other = site.post("/api/runs", {"text": "The dog sat on the mat."}).json()
    found = site.get("/api/runs/1/beside", other=other["run"]).json()
    assert [one["output"] for one in found["runs"]] == [run["output"], other["output"]]
    for place, one in enumerate((run, other)):
        for row, written in enumerate(one["written"]):
            side = found["rows"][row]["sides"][place]
            assert (side["reads"], side["writes"]) == (one["targets"][row], written)
            assert side["probability"] == pytest.approx(one["likely"][row][0]["probability"], rel=1e-4)
    logits = [
        site.studio.runs["1"].model.run(site.studio.runs[number].fed)[0, 1].double() for number in ("1", other["run"])
    ]
    one, two = (row.log_softmax(-1) for row in logits)
    assert found["rows"][1]["kl"] == pytest.approx(float((one.exp() * (one - two)).sum()), rel=1e-3)
    assert site.get("/api/runs/1/beside", other="99").status_code == 400
