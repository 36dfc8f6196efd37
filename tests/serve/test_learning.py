"""Lessons and replays on the page: the same numbers as in the terminal and in the file."""

import math

import numpy as np
import pytest
import torch
from serve.client import Client

from transom.lens.replay import Replay
from transom.lessons.check_file import check_file
from transom.lessons.glossary import GLOSSARY
from transom.lessons.lesson_file import load_shipped, shipped_paths
from transom.lessons.predictions import judge_answer
from transom.names import Misfit
from transom.serve import lesson_data
from transom.serve.session import Session

BIASED = {10}  # lessons whose scores get something from positions


@pytest.fixture(scope="module")
def client():
    return Client(Session())


@pytest.fixture(scope="module")
def lessons(client):
    """Every lesson as the page gets it, by number."""
    numbers = range(1, len(shipped_paths()) + 1)
    responses = client.request_all(*(("GET", f"/api/lessons/{number}", None) for number in numbers))
    return {number: response.json() for number, response in zip(numbers, responses, strict=True)}


@pytest.fixture(scope="module")
def replay():
    torch.manual_seed(31)
    found = Replay([["a", "b", "c"]], None, {"layer.0": [1, 3]})
    for update in (0, 5, 7):
        found.add(update, {"layer.0": torch.rand(2, 3, 3).softmax(dim=-1)})
        found.losses.add(update, 3.0 / (1 + update))
    return found


def test_the_glossary_is_the_one_of_the_lessons(client):
    assert client.get("/api/glossary").json() == GLOSSARY


def test_all_lessons_are_listed_and_one_from_a_file_comes_first(client):
    listed = client.get("/api/lessons").json()
    assert [lesson["title"] for lesson in listed] == [
        load_shipped(number).title for number in range(1, len(shipped_paths()) + 1)
    ]
    assert all(lesson["question"] and lesson["screens"] > 2 for lesson in listed)
    own = Client(Session(lesson=load_shipped(3))).get("/api/lessons").json()
    assert (own[0]["number"], own[0]["title"]) == (0, load_shipped(3).title)


def test_a_lesson_with_its_screens(client, lessons):
    found = lessons[1]
    first, queries, scores, *_, last = found["screens"]
    assert (first["title"], last["title"]) == (load_shipped(1).title, "To remember")
    assert [panel["name"] for panel in queries["matrices"]] == ["embedding", "W_Q", "Q"]
    assert scores["predict"]["right"] == "2"
    assert scores["matrices"][0]["values"] == [[2, 0, 2], [0, 2, 2], [2, 2, 4]]
    assert scores["matrices"][0]["opens"][0][2] == "1·1 + 0·1 + 1·1 + 0·1 = 2"
    weights = next(panel for screen in found["screens"] for panel in screen["matrices"] if panel["name"] == "weights")
    assert [sum(row) for row in weights["values"]] == pytest.approx([1.0] * 3)
    assert client.get("/api/lessons/99").status_code == 400


@pytest.mark.parametrize("number", range(1, len(shipped_paths()) + 1))
def test_every_lesson_is_whole_on_the_page(lessons, number):
    """Each asks, shows W_Q or another matrix, lets one change a number that matters, and no screen has an error."""
    screens = lessons[number]["screens"]
    assert [screen["error"] for screen in screens if screen["error"]] == []
    assert any(screen["predict"] for screen in screens)
    assert any(screen["matrices"] for screen in screens)
    changes = [screen["change"] for screen in screens if screen["change"]]
    assert changes
    for change in changes:
        before, after = ([panel["values"] for panel in change[f"matrices_{when}"]] for when in ("before", "after"))
        assert before != after
    right = [choice["right"] for screen in screens if screen["predict"] for choice in screen["predict"]["choices"]]
    assert right.count(True) == sum(bool(screen["predict"] and screen["predict"]["choices"]) for screen in screens)


def test_what_an_animation_plays_is_what_the_lesson_computes(lessons):
    motion = next(one["motion"] for one in lessons[6]["screens"] if one["motion"])
    scores = np.array(motion["Q"]) @ np.array(motion["K"]).T
    np.testing.assert_allclose(scores, motion["scores"])
    taken = np.array([[-np.inf if score is None else score for score in row] for row in motion["taken"]])
    assert np.isneginf(taken[np.triu_indices(len(taken), 1)]).all()
    weights = np.exp(taken) / np.exp(taken).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights, motion["weights"])
    np.testing.assert_allclose(weights @ np.array(motion["V"]), motion["sum"])


def test_a_wrong_answer_gets_the_cause_that_the_terminal_names(client):
    """In lesson 1 the weight from “The” at “cat” with scores that were not scaled: 1 / (2 e² + 1)."""
    step = load_shipped(1).script[3]
    assert step.predict is not None
    wrong = f"{1 / (2 * math.exp(2) + 1):.2f}"
    found = client.post("/api/lessons/answer", {"number": 1, "screen": 4, "answer": "0.33"}).json()
    verdict = judge_answer(load_shipped(1), step.predict, "0.33")
    assert found == {"right": False, "answer": verdict.right, "causes": list(verdict.causes)}
    text = load_shipped(1).source.text.replace("choices = [0.00, 0.16, 0.33]\n", "")
    asked = client.post("/api/lessons/answer", {"text": text, "screen": 4, "answer": wrong}).json()
    assert "the scores were not divided by √d_head" in asked["causes"]
    assert client.post("/api/lessons/answer", {"number": 1, "screen": 4, "answer": "0.16"}).json()["right"]


def test_a_number_of_ones_own_follows_through(client):
    found = client.post("/api/lessons/change", {"number": 1, "screen": 1, "to": "-7.5"}).json()
    assert (found["before"], found["to"], found["of"]) == ("1", "-7.5", "embeddings, row The, column 1")
    assert found["matrices_after"][0]["values"][0] == [-7.5, 0, 1, 0]
    assert found["matrices_before"][0]["values"][0] == [1, 0, 1, 0]


REFUSED = {
    "neither": ("answer", {"screen": 1}, "a lesson comes by its number or as text; give one of number and text"),
    "both": (
        "answer",
        {"number": 1, "text": ""},
        "a lesson comes by its number or as text; give one of number and text",
    ),
    "no such screen": (
        "answer",
        {"number": 1, "screen": 900},
        "screens 1 to 8 of this lesson ask something, but 900 came; choose one",
    ),
    "asks nothing": (
        "answer",
        {"number": 1, "screen": 1, "answer": "2"},
        "the screen “Queries, keys and values” asks nothing; choose one that does",
    ),
    "no number": (
        "answer",
        {"number": 1, "screen": 2, "answer": "two"},
        "an answer must be a number, but got 'two'; type digits, like 0.25",
    ),
    "nothing to change": (
        "change",
        {"number": 1, "screen": 2, "to": "2"},
        "the screen “Scores: how well does each query match each key?” has no number to change; choose one that has",
    ),
    "too large": ("change", {"number": 1, "screen": 1, "to": "1e400"}, "an answer must be a number, but got '1e400'"),
    "a long text": ("check", {"text": "#" * 100_001}, "Expected `str` of length <= 100000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_requests_that_are_refused(client, case):
    path, body, message = REFUSED[case]
    response = client.post(f"/api/lessons/{path}", body)
    assert response.status_code == 400
    assert message in response.json()["error"]


def test_any_lesson_or_an_empty_one_can_be_edited(client):
    assert client.get("/api/lessons/2/source").json()["text"] == load_shipped(2).source.text
    new = client.get("/api/lessons/new").json()
    report = client.post("/api/lessons/check", {"text": new["text"]}).json()
    assert report["summary"] == "3 claims: 3 right"
    assert [screen["title"] for screen in report["lesson"]["screens"]][-1] == "What this proves"


def test_an_edited_lesson_gets_the_words_of_transom_check(client, tmp_path):
    """A wrong figure, an unknown step and a malformed table: line, complaint and causes as in the terminal."""
    text = load_shipped(1).source.text.replace("value = [0.4223, 0.1554, 0.4223]", "value = [0.4683, 0.0634, 0.4683]")
    text = text.replace('of = "scaled"', 'of = "scaldd"')
    report = client.post("/api/lessons/check", {"text": text}).json()
    path = tmp_path / "lesson.toml"
    path.write_text(text, encoding="utf-8")
    (terminal,) = check_file(path)
    assert report["summary"] == terminal.summary()
    bad = [one for one in report["findings"] if one["verdict"] in ("wrong", "malformed")]
    lines = text.splitlines()
    assert [one["verdict"] for one in bad] == ["malformed", "wrong"]
    assert lines[bad[1]["line"] - 1] == "value = [0.4683, 0.0634, 0.4683]"
    finding = next(one for one in terminal.findings if getattr(one, "verdict", "") == "wrong")
    assert bad[1]["causes"] == list(finding.causes.values())
    assert bad[1]["complaint"] == "weights of The: 3 of 3 entries, printed → right"


MALFORMED = {
    "": "tokens must be given, but they are not",
    "title = [": "should be TOML",
    'title = "x"\ntokens = ["a"]\nembeddings = { csv = "../../../etc/passwd" }': "reads none",
    'title = "x"\ntokens = ["a"]\n[embeddings]\nmodel = "other"': "",
    'title = "x"\n[[step]]\ntitle = "y"\nshow = ["nothing"]': "tokens must be given",
    'title = "x"\npicture = "arrows"\ntokens = ["a"]\nembeddings = [[1]]\n[draws]\nrows = { a = 1 }': "",
    "\x00": "",
    "a = 1\n" * 9000: "",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_a_hostile_lesson_is_a_list_of_complaints(client, text):
    response = client.post("/api/lessons/check", {"text": text})
    assert response.status_code == 200
    findings = response.json()["findings"]
    assert findings
    assert all(1 <= one["line"] <= text.count("\n") + 1 for one in findings)
    assert MALFORMED[text] in " ".join(one["complaint"] for one in findings)


def test_a_replay_frame_by_frame(replay):
    client = Client(Session(replay=replay))
    found = client.get("/api/replay").json()
    assert found["updates"] == [0, 5, 7]
    assert found["attentions"] == [{"name": "layer.0", "heads": [1, 3]}]
    assert found["curve"][1] == pytest.approx([3.0, 0.5, 0.375])
    frames = client.get("/api/replay/frames", name="layer.0", head=3).json()
    assert frames["rows"] == frames["keys"] == ["a", "b", "c"]
    torch.testing.assert_close(torch.tensor(frames["weights"]), replay.weights("layer.0", 3), atol=1e-5, rtol=0)


def test_no_replay_is_told():
    with pytest.raises(Misfit) as caught:
        lesson_data.replay_info(None)
    assert str(caught.value) == (
        "no replay is open; record one with transom train --record, and start transom serve with its file"
    )


def staged_screens(lessons):
    """Every screen that shows an attention, with its numbers for the stage."""
    for number, lesson in lessons.items():
        for screen in lesson["screens"]:
            if screen["motion"]:
                yield number, screen, screen["motion"]


def test_numbers_on_the_stage_follow_from_each_other(lessons):
    """Scores from Q and K, weights from scores, the sum from weights and V, by plain loops."""
    screens = list(staged_screens(lessons))
    assert len(screens) > 60
    assert {3, 4} == {found["level"] for _, _, found in screens}
    for number, screen, found in screens:
        place = (number, screen["title"])
        for row, scores in enumerate(found["taken"]):
            dots = [sum(q * k for q, k in zip(found["Q"][row], K, strict=True)) for K in found["K"]]
            assert dots == pytest.approx(found["scores"][row], abs=1e-9), place
            if number not in BIASED:
                kept = [dot * found["scale"] for dot, score in zip(dots, scores, strict=True) if score is not None]
                assert kept == pytest.approx([score for score in scores if score is not None], abs=1e-9), place
            powers = [0.0 if score is None else math.exp(score) for score in scores]
            weights = [power / sum(powers) for power in powers]
            assert weights == pytest.approx(found["weights"][row], abs=1e-9), place
            columns = list(zip(*found["V"], strict=True))
            total = [sum(weight * value for weight, value in zip(weights, column, strict=True)) for column in columns]
            assert total == pytest.approx(found["sum"][row], abs=1e-9), place


def test_scores_that_are_no_dot_products_are_not_on_the_stage(lessons):
    cases = [screen["case"] for number, screen, _ in staged_screens(lessons) if number == 19]
    assert cases == [""]
