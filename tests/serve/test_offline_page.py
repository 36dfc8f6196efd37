"""The offline page: every answer in it is the server's own, and nothing in it can load anything."""

import base64
import gzip
import hashlib
import json
import re
import sys
import types

import numpy as np
import pytest
from jaxtyping import config
from serve.client import small_trace

import transom
from transom.cli import main
from transom.names import Misfit
from transom.serve import offline_answers, offline_page
from transom.serve.offline_answers import HeadIndex, OfflineAnswers
from transom.serve.offline_page import build_page
from transom.serve.session import Session
from transom.serve.worker import Job

# A model runs hundreds of times for one page; its shapes are checked elsewhere.
pytestmark = pytest.mark.usefixtures("own_errors")
SENTENCE = "Where is she?"
OWN = ("/state", "/telling", "/overview", "/weights")  # which differ from the server's answers


@pytest.fixture(scope="module")
def copy(site):
    """The file of the first run, with another head open than the one ranked first."""
    config.update("jaxtyping_disable", True)
    html = build_page(site.session, site.session.run("1"), HeadIndex(4, 3)).html
    config.update("jaxtyping_disable", False)
    return html


def unpack(html):
    packed = re.search(r'id="offline-answers">([^<]*)</script>', html)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


@pytest.mark.slow
def test_every_answer_is_the_servers_own(site, copy):
    stored = unpack(copy)
    paths = [path for path in stored["told"] if not path.partition("?")[0].endswith(OWN)]
    assert {path.partition("?")[0].rpartition("/")[2] for path in paths} >= {"tile", "strongest", "steps", "effects"}
    for path, answer in zip(paths, site.request_all(*(("GET", path, None) for path in paths)), strict=True):
        number, kind, headers = stored["told"][path]
        body = stored["bodies"][number]
        assert answer.status_code == 200, path
        assert answer.content == (base64.b64decode(body) if kind == "application/octet-stream" else body.encode()), path
        assert headers.get("Tile") == answer.headers.get("Tile")


@pytest.mark.slow
def test_weights_and_scores_are_the_servers_to_seven_digits(site, copy):
    stored = unpack(copy)
    found = json.loads(stored["bodies"][stored["told"]["/api/runs/1/4/weights?head=3"][0]])
    theirs = site.get("/api/runs/1/4/weights", head=3, rows=64, keys=64).json()
    assert (found["rows"], found["keys"]) == (theirs["rows"], theirs["keys"])
    for name in ("weights", "scores"):
        np.testing.assert_allclose(found[name], theirs[name], rtol=1e-6)


@pytest.mark.slow
def test_every_head_is_in_it_and_the_one_that_was_open_with_its_steps_and_effects(site, copy):
    stored = unpack(copy)
    state = json.loads(stored["bodies"][stored["told"]["/api/state"][0]])
    heads = sum(attention["heads"] for attention in site.get("/api/runs/1").json()["attentions"])
    assert len(state["taken"]["maps"]) == heads
    assert set(state["taken"]["maps"].values()) == {0}
    assert (state["models"], state["taken"]["attention"], state["taken"]["head"]) == ([], 4, 3)
    assert state["taken"]["effects"] is True
    contents = "It contains the arrows and the map of every head, and every step of encoder.blocks.4.attention, head 3."
    assert state["taken"]["said"] == contents
    assert (
        stored["missing"] == f"this copy does not contain it. {contents} For the rest, open the run with transom serve."
    )


def test_what_does_not_fit_is_left_out_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(offline_answers, "MOST_BYTES", 4 * 23 * 23 * 2)
    session = Session(trace=small_trace([str(n) for n in range(23)]))
    answers = OfflineAnswers(session, session.run("1"), Job(lambda job: None), HeadIndex(1, 2))
    assert answers.finest_levels == {HeadIndex(1, 2): 0, HeadIndex(1, 0): 0}
    assert answers.contents() == (
        "It contains the arrows and the map of 2 of 6 heads, and every step of blocks.1.attention, head 2."
    )


def test_a_long_map_goes_as_deep_as_there_is_room(monkeypatch):
    monkeypatch.setattr(offline_answers, "MOST_BYTES", 4 * 300 * 300)
    session = Session(trace=small_trace([str(n) for n in range(1031)], heads=1, layers=1))
    answers = OfflineAnswers(session, session.run("1"), Job(lambda job: None), HeadIndex(0, 0))
    assert answers.finest_levels == {HeadIndex(0, 0): 2}
    assert answers.contents() == ("It contains the arrows and the map of every head (down to cells of 4 × 4 weights).")
    levels = {re.search("level=([0-9]+)", path)[1] for path in answers.answers if "/tile?" in path}
    assert levels == {"2", "3"}


@pytest.mark.slow
def test_the_policy_allows_the_script_and_the_style_by_their_hashes_alone(copy):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', copy)[1]
    script, style = (
        re.findall(r"<script>(.*)</script>", copy, re.DOTALL)[-1],
        re.search(r"<style>(.*)</style>", copy, re.DOTALL)[1],
    )
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    assert script.isascii(), "a mistaken encoding would change the hash"
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", copy)


def test_modules_in_a_circle_are_an_error(monkeypatch):
    circle = {
        "app.js": 'import "./one.js";\n',
        "one.js": 'import { a } from "./two.js";\n',
        "two.js": 'import "./one.js";\n',
    }
    monkeypatch.setattr(offline_page, "read_static", circle.__getitem__)
    with pytest.raises(Misfit) as error:
        offline_page.bundle_scripts()
    assert str(error.value) == "modules import each other in a circle: app → one → two → one; move what they share"


@pytest.mark.slow
def test_the_page_is_downloaded_by_its_route(site):
    answer = site.get("/api/runs/1/page", attention=4, head=3)
    assert answer.headers["Content-Disposition"] == 'attachment; filename="run-1.html"'
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert unpack(answer.text)["missing"].startswith("this copy does not contain it. It contains the arrows")
    assert site.get("/api/runs/1/page", attention=99).status_code == 400


def test_a_trace_without_attention_has_no_page():
    with pytest.raises(Misfit) as error:
        transom.Trace(["a"]).page()
    assert str(error.value) == (
        "this Trace has no attention to show; run the model inside `with transom.watch(model)` first"
    )


def test_a_notebook_shows_the_page_of_a_trace_and_a_terminal_opens_it(monkeypatch, capsys):
    displayed, browsed, trace = [], [], small_trace(["a", "b", "c"])
    monkeypatch.setattr("webbrowser.open", browsed.append)
    trace.show("page")
    path = capsys.readouterr().out.removeprefix("the page is in ").strip()
    assert browsed == [f"file://{path}"]
    display = types.SimpleNamespace(display=lambda thing, raw=False: displayed.append(thing))
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    view = trace.show()
    trace.show("matrix", head=2)
    assert re.match(r"Page\([\d,]+ characters: ", repr(view.page))
    assert re.match(r'<div data-transom-view="\w+"><iframe sandbox="allow-scripts" ', displayed[0]["text/html"])
    assert displayed[0]["text/plain"] == repr(view)
    assert displayed[1].view == "matrix"


@pytest.mark.slow
def test_see_writes_the_run_as_a_page(tmp_path, capsys):
    path = tmp_path / "look.html"
    assert main(["see", SENTENCE, "--layer", "decoder.blocks.0.cross", "--head", "3", "--page", str(path)]) == 0
    assert f"the run is in {path}, a page to open in a browser" in capsys.readouterr().err
    stored = unpack(path.read_text(encoding="utf-8"))
    assert json.loads(stored["bodies"][stored["told"]["/api/state"][0]])["taken"]["head"] == 3
    assert any("/effects?" in path for path in stored["told"])
