"""Lessons and replays on the page: the same numbers as in the terminal and in the file."""

import pytest
import torch
from serve.client import Client

from transom.lens.replay import Replay
from transom.lessons.glossary import GLOSSARY
from transom.lessons.lesson_file import load_shipped, shipped_paths
from transom.names import Misfit
from transom.serve import lesson_data
from transom.serve.session import Session


@pytest.fixture(scope="module")
def client():
    return Client(Session())


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
    own = Client(Session(lesson=load_shipped(3))).get("/api/lessons").json()
    assert own[0] == {"number": 0, "title": load_shipped(3).title}


def test_a_lesson_with_its_pages_and_steps(client):
    found = client.get("/api/lessons/1").json()
    assert found["pages"][0]["title"] == load_shipped(1).title
    weights = next(panel for panel in found["steps"]["panels"] if panel["title"].lower().startswith("weights"))
    assert [sum(row) for row in weights["values"]] == pytest.approx([1.0] * 3)
    asked = found["screens"][1]["predict"]
    assert (asked["right"], found["pages"][2]["before"]) == ("2", 3)
    assert client.get("/api/lessons/99").status_code == 400


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
