"""What a model writes, told while it writes; and what came out of two runs, beside each other."""

from itertools import pairwise

import pytest
from model_folders import MAKERS, of_transom
from serve.browsing import SENTENCE
from serve.client import Client, events_of, small_trace

from transom.runner import load_text_model
from transom.serve.session import Session


def test_a_translation_is_told_token_by_token(site):
    *tokens, last = events_of(site.post("/api/writing", {"text": SENTENCE}))
    run = last["run"]
    assert [event["token"] for event in tokens] == run["written"]
    texts = [event["text"] for event in tokens]
    assert texts[-1] == run["output"]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert site.get(f"/api/runs/{run['run']}").json() == run
    failed = site.post("/api/writing", {"text": " "})
    assert failed.text.startswith("event: failed\n")
    assert events_of(failed) == [
        {"error": "the text is empty, but there must be something to read; give a word or more"}
    ]


def test_a_decoder_writes_on_token_by_token(tmp_path):
    model = load_text_model(of_transom("decoder", tmp_path / "decoder"))
    client, ids = Client(Session(model)), model.encode_text("the cat sat").ids
    *tokens, last = events_of(client.post("/api/writing", {"text": "the cat sat", "more": 5}))
    new = model.continue_tokens(ids, 5)
    assert [event["token"] for event in tokens] == model.token_strings(new)
    run = last["run"]
    assert "the cat sat" + run["output"] == model.decode([*ids, *new])
    assert run["output"].startswith(tokens[-1]["text"]), "half a character is not shown while it is written"
    assert run["tokens"] == model.token_strings([*ids, *new[:-1]])
    assert run["written"] == model.token_strings([*ids[1:], *new])
    saved = Client(Session(trace=client.session.runs[run["run"]].trace)).get("/api/runs/1").json()
    assert saved["written"] == run["written"], "a trace that was watched with it has the last written token"
    assert run["note"] is None
    full = client.post("/api/runs", {"text": "the cat sat", "more": 256}).json()
    room = f"{model.name} has room for {model.longest - len(ids)}: it takes {model.longest} in all"
    assert full["note"] == f"asked to write 256 tokens, {room}"
    read = client.post("/api/runs", {"text": "the cat sat"}).json()
    assert (read["output"], len(read["tokens"])) == ("", len(ids))
    beside = client.get(f"/api/runs/{run['run']}/beside", other=read["run"]).json()["rows"]
    assert beside[-1]["sides"][1] is None
    assert beside[0]["kl"] == pytest.approx(0.0, abs=1e-6), "both read the same so far"


@pytest.mark.parametrize("origin", ["transom", "hf"])
def test_what_is_written_follows_the_text_in_whole_characters(origin, tmp_path, monkeypatch):
    model = load_text_model(MAKERS[origin]("decoder", tmp_path / "decoder"))
    client, text = Client(Session(model)), "the cat"
    written = " sat 猫 é😀." if origin == "transom" else " sat on the mat"
    ids = model.encode_fitting(text)
    new = model.encode_fitting(text + written)[len(ids) :]

    def continue_tokens(ids, most, on_token=None):
        for token in new:
            (on_token or id)(token)
        return new

    monkeypatch.setattr(model, "continue_tokens", continue_tokens)
    *tokens, last = events_of(client.post("/api/writing", {"text": text, "more": len(new)}))
    assert last["run"]["output"] == tokens[-1]["text"] == written
    texts = [event["text"] for event in tokens]
    assert not any("\ufffd" in text for text in texts)
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert len(texts) == len(new)


def test_the_model_is_chosen_by_its_name_and_a_trace_stands_beside_it(tmp_path):
    first, second = load_text_model(), load_text_model(of_transom("decoder", tmp_path / "decoder"))
    client = Client(Session(first, second, trace=small_trace(["a", "b", "c"]), name="a file"))
    state = client.get("/api/state").json()
    assert [model["name"] for model in state["models"]] == [first.name, second.name]
    assert [run["text"] for run in state["runs"]] == [None]
    by_first, by_second = (
        client.post("/api/runs", {"text": "the cat", "model": name}).json() for name in ("", second.name)
    )
    assert (by_first["model"]["name"], by_second["model"]["name"]) == (first.name, second.name)
    assert by_second["tokens"] == second.token_strings(second.encode_text("the cat").ids)
    assert client.get("/api/runs/1").json()["model"] is None
    edges = {"edges": [{"layer": by_second["attentions"][0]["name"], "head": 0}]}
    assert client.post("/api/runs/3/knock_out", edges).json()["change"] > 0
    assert client.post("/api/runs/1/knock_out", edges).json()["error"] == (
        "edges are knocked out of a running model, but this is a trace; start transom serve with --model"
    )
    assert client.get("/api/runs/2/beside", other="3").json()["rows"] == [], "their words are not the same"
    assert client.post("/api/runs", {"text": "the cat", "model": "none"}).json()["error"] == (
        f"there is no model 'none' here; there are {first.name}, {second.name}"
    )


def test_two_runs_beside_each_other(site, run):
    other = site.post("/api/runs", {"text": "The dog sat on the mat."}).json()
    found = site.get("/api/runs/1/beside", other=other["run"]).json()
    assert [row["output"] for row in found["runs"]] == [run["output"], other["output"]]
    for number, each in enumerate((run, other)):
        for row, written in enumerate(each["written"]):
            side = found["rows"][row]["sides"][number]
            assert (side["reads"], side["writes"]) == (each["targets"][row], written)
            assert side["probability"] == pytest.approx(each["likely"][row][0]["probability"], rel=1e-4)
    logits = [
        site.session.runs["1"].model.run(site.session.runs[number].text_run.encoded)[0, 1].double()
        for number in ("1", other["run"])
    ]
    p, q = (row.log_softmax(-1) for row in logits)
    assert found["rows"][1]["kl"] == pytest.approx(float((p.exp() * (p - q)).sum()), rel=1e-3)
    assert site.get("/api/runs/1/beside", other="99").status_code == 400
