"""A page that is taken away: every answer in it is the server's own, and nothing in it can reach out or be spoiled."""

import base64
import gzip
import hashlib
import json
import re
import sys
import types

import numpy as np
import pytest
from serve.watched import watched

import transom
from transom.cli import main
from transom.names import Misfit
from transom.serve import one_file, record
from transom.serve.record import Head, Record
from transom.serve.studio import Studio
from transom.serve.taken import page
from transom.serve.work import Job

SENTENCE = "Where is she?"
OWN = ("/state", "/telling", "/overview", "/weights")  # told as the copy has them, not as a server would


@pytest.fixture(scope="module")
def copy(site):
    """The file of the first run, with a head open that is not the most telling."""
    return page(site.studio, site.studio.run("1"), Head(4, 3)).html


def unpacked(html):
    packed = re.search(r'id="taken">([^<]*)</script>', html)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


@pytest.mark.slow
def test_every_answer_is_the_servers_own(site, copy):
    kept = unpacked(copy)
    paths = [path for path in kept["told"] if not path.partition("?")[0].endswith(OWN)]
    assert {path.partition("?")[0].rpartition("/")[2] for path in paths} >= {"tile", "strongest", "steps", "effects"}
    for path, answer in zip(paths, site.asked(*(("GET", path, None) for path in paths)), strict=True):
        number, kind, headers = kept["told"][path]
        body = kept["bodies"][number]
        assert answer.status_code == 200, path
        assert answer.content == (base64.b64decode(body) if kind == "application/octet-stream" else body.encode()), path
        assert headers.get("Tile") == answer.headers.get("Tile")


@pytest.mark.slow
def test_weights_and_scores_are_the_servers_to_seven_digits(site, copy):
    kept = unpacked(copy)
    found = json.loads(kept["bodies"][kept["told"]["/api/runs/1/4/weights?head=3"][0]])
    theirs = site.get("/api/runs/1/4/weights", head=3, rows=64, keys=64).json()
    assert (found["rows"], found["keys"]) == (theirs["rows"], theirs["keys"])
    for name in ("weights", "scores"):
        np.testing.assert_allclose(found[name], theirs[name], rtol=1e-6)


@pytest.mark.slow
def test_every_head_is_in_it_and_the_one_that_was_open_with_its_steps_and_effects(site, copy):
    kept = unpacked(copy)
    state = json.loads(kept["bodies"][kept["told"]["/api/state"][0]])
    heads = sum(one["heads"] for one in site.get("/api/runs/1").json()["attentions"])
    assert len(state["taken"]["maps"]) == heads
    assert set(state["taken"]["maps"].values()) == {0}
    assert (state["models"], state["taken"]["attention"], state["taken"]["head"]) == ([], 4, 3)
    assert state["taken"]["effects"] is True
    said = "In it: arrows and map of every head, every step of decoder.blocks.0.cross, head 3."
    assert state["taken"]["said"] == said
    assert kept["missing"] == f"this was not taken along. {said} For the rest, open the run with transom serve."


def test_what_does_not_fit_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(record, "MOST_BYTES", 4 * 23 * 23 * 2)
    studio = Studio(trace=watched([str(n) for n in range(23)]))
    kept = Record(studio, studio.run("1"), Job(lambda job: None), Head(1, 2))
    assert kept.maps == {Head(1, 2): 0, Head(1, 0): 0}
    assert kept.sentence() == "In it: arrows and map of 2 of 6 heads, every step of blocks.1.attention, head 2."


def test_a_long_map_goes_as_deep_as_there_is_room(monkeypatch):
    monkeypatch.setattr(record, "MOST_BYTES", 4 * 300 * 300)
    studio = Studio(trace=watched([str(n) for n in range(1031)], heads=1, layers=1))
    kept = Record(studio, studio.run("1"), Job(lambda job: None), Head(0, 0))
    assert kept.maps == {Head(0, 0): 2}
    assert kept.sentence() == "In it: arrows and map of every head (cells of 4 × 4 weights at the deepest)."
    levels = {re.search("level=([0-9]+)", path)[1] for path in kept.answers if "/tile?" in path}
    assert levels == {"2", "3"}


@pytest.mark.slow
def test_the_policy_allows_the_script_and_the_style_by_their_hashes_alone(copy):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', copy)[1]
    script, style = (
        re.findall(r"<script>(.*)</script>", copy, re.DOTALL)[-1],
        re.search(r"<style>(.*)</style>", copy, re.DOTALL)[1],
    )
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in (script, style)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    assert script.isascii(), "an encoding that is mistaken would spoil the hash"
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", copy)


def test_modules_in_a_circle_are_told(monkeypatch):
    circle = {
        "app.js": 'import "./one.js";\n',
        "one.js": 'import { a } from "./two.js";\n',
        "two.js": 'import "./one.js";\n',
    }
    monkeypatch.setattr(one_file, "static", circle.__getitem__)
    with pytest.raises(Misfit) as error:
        one_file.bundled()
    assert str(error.value) == "modules import one another in a circle: app → one → two → one; move what they share"


@pytest.mark.slow
def test_the_page_takes_itself_away_by_its_own_route(site):
    answer = site.get("/api/runs/1/page", attention=4, head=3)
    assert answer.headers["Content-Disposition"] == 'attachment; filename="run-1.html"'
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert unpacked(answer.text)["missing"].startswith("this was not taken along. In it: arrows and map of every head")
    assert site.get("/api/runs/1/page", attention=99).status_code == 400


def test_a_trace_without_attention_has_no_page():
    with pytest.raises(Misfit) as error:
        transom.Trace(["a"]).page()
    assert str(error.value) == (
        "this Trace has no attention to look at; run the model inside `with transom.watch(model)`, and then ask"
    )


def test_a_notebook_shows_the_page_of_a_trace_and_a_terminal_opens_it(monkeypatch, capsys):
    displayed, browsed, trace = [], [], watched(["a", "b", "c"])
    monkeypatch.setattr("webbrowser.open", browsed.append)
    trace.show("page")
    path = capsys.readouterr().out.removeprefix("the page is in ").strip()
    assert browsed == [f"file://{path}"]
    display = types.SimpleNamespace(display=displayed.append)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    trace.show()
    trace.show("matrix", head=2)
    assert re.match(r"Page\([\d,]+ letters: ", repr(displayed[0]))
    assert displayed[0]._repr_html_().startswith('<iframe sandbox="allow-scripts" ')
    assert displayed[1].view == "matrix"


@pytest.mark.slow
def test_see_writes_the_run_as_a_page(tmp_path, capsys):
    path = tmp_path / "look.html"
    assert main(["see", SENTENCE, "--layer", "decoder.blocks.0.cross", "--head", "3", "--page", str(path)]) == 0
    assert f"the run is in {path}, to look around in with a browser" in capsys.readouterr().err
    kept = unpacked(path.read_text(encoding="utf-8"))
    assert json.loads(kept["bodies"][kept["told"]["/api/state"][0]])["taken"]["head"] == 3
    assert any("/effects?" in asked for asked in kept["told"])
