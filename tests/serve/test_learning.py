"""Lessons and replays on the page: the same numbers as in the terminal and in the file."""

import asyncio

import httpx
import pytest
import torch

from transom.lens.replay import Replay
from transom.lessons.glossary import GLOSSARY
from transom.lessons.shelf import paths, shipped
from transom.names import Misfit
from transom.serve import learning
from transom.serve.app import built
from transom.serve.routes import Desk
from transom.serve.studio import Studio

HOST = "127.0.0.1:4711"


def asked(path, studio=None, **query):
    async def one():
        desk = Desk(studio or Studio())
        transport = httpx.ASGITransport(built(desk, [HOST], "t"))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            found = await client.get(path, params=query, headers={"Authorization": "Bearer t"})
        desk.worker.close()
        return found

    return asyncio.run(one())


@pytest.fixture(scope="module")
def replay():
    torch.manual_seed(31)
    found = Replay([["a", "b", "c"]], None, {"layer.0": [1, 3]})
    for update in (0, 5, 7):
        found.add(update, {"layer.0": torch.rand(2, 3, 3).softmax(dim=-1)})
        found.losses.add(update, 3.0 / (1 + update))
    return found


def test_the_glossary_is_the_one_of_the_lessons():
    assert asked("/api/glossary").json() == GLOSSARY


def test_all_lessons_are_listed_and_one_from_a_file_comes_first():
    listed = asked("/api/lessons").json()
    assert [one["title"] for one in listed] == [shipped(number).title for number in range(1, len(paths()) + 1)]
    own = asked("/api/lessons", Studio(lesson=shipped(3))).json()
    assert own[0] == {"number": 0, "title": shipped(3).title}


def test_a_lesson_with_its_pages_and_steps():
    found = asked("/api/lessons/1").json()
    assert found["pages"][0]["title"] == shipped(1).title
    weights = next(panel for panel in found["steps"]["panels"] if panel["title"].lower().startswith("weights"))
    assert [sum(row) for row in weights["values"]] == pytest.approx([1.0] * 3)
    assert asked("/api/lessons/99").status_code == 400


def test_a_replay_frame_by_frame(replay):
    studio = Studio(replay=replay)
    found = asked("/api/replay", studio).json()
    assert found["updates"] == [0, 5, 7]
    assert found["attentions"] == [{"name": "layer.0", "heads": [1, 3]}]
    assert found["curve"][1] == pytest.approx([3.0, 0.5, 0.375])
    frames = asked("/api/replay/frames", studio, name="layer.0", head=3).json()
    assert frames["rows"] == frames["keys"] == ["a", "b", "c"]
    torch.testing.assert_close(torch.tensor(frames["weights"]), replay.weights("layer.0", 3), atol=1e-5, rtol=0)


def test_no_replay_is_told():
    with pytest.raises(Misfit) as caught:
        learning.replay(None)
    assert str(caught.value) == (
        "no replay is open; record one with transom train --record, and start transom serve with its file"
    )
