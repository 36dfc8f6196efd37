"""The cache of answers: what is dropped when it is full, and with a run."""

import weakref

from serve.client import Client

from transom.runner import load_text_model
from transom.serve import request_context
from transom.serve.answer_cache import BYTES_BESIDE, Answer, AnswerCache
from transom.serve.session import MOST_RUNS, Session


def test_the_least_recently_used_answer_is_dropped_first():
    cache = AnswerCache(limit=2 * (10 + BYTES_BESIDE))
    for name in ("first", "second"):
        cache.keep(("1", name), Answer(bytes(10)))
    assert cache["1", "first"] is not None
    cache.keep(("1", "third"), Answer(bytes(10)))
    assert list(cache.answers) == [("1", "first"), ("1", "third")]
    large = Answer(bytes(3000))
    assert cache.keep(("1", "large"), large) is large
    assert cache["1", "large"] is None


def test_a_run_is_forgotten_with_all_its_answers():
    cache = AnswerCache()
    for run, path in (("1", "heads"), ("2", "heads"), ("1", "tile"), (None, "lesson")):
        cache.keep((run, path), Answer(b"1"))
    cache.forget_run("1")
    assert list(cache.answers) == [("2", "heads"), (None, "lesson")]
    assert cache.size == sum(answer.size for answer in cache.answers.values())


def test_a_forgotten_run_loses_its_answers_and_its_memory(monkeypatch):
    returned = []
    monkeypatch.setattr(request_context, "return_free_memory", lambda: returned.append(True))
    context = request_context.RequestContext(Session())
    context.cache.keep(("1", "arrows"), Answer(b"old"))
    context.cache.keep(("2", "arrows"), Answer(b"new"))
    context.session.on_forget("1")
    assert context.cache["1", "arrows"] is None
    assert context.cache["2", "arrows"] == Answer(b"new")
    assert returned == [True]
    context.close()


def test_a_run_is_gone_before_its_memory_is_given_back(monkeypatch):
    """By the ninth run the first is dead, with all that was asked of it, and no garbage collection is needed."""
    client, runs, dead = Client(Session(load_text_model())), [], []
    monkeypatch.setattr(request_context, "return_free_memory", lambda: dead.append([run() is None for run in runs]))
    asked = ("telling", "influence?row=0", "residual", "0/feed_forward?explained=0", "0/strongest?token=0")
    for number in range(1, MOST_RUNS + 3):
        requests = [("GET", f"/api/runs/1/{path}", None) for path in asked if number == 1]
        answers = client.request_all(("POST", "/api/runs", {"text": "The cat sat."}), *requests)
        assert [answer.status_code for answer in answers] == [200] * len(answers)
        runs.append(weakref.ref(client.session.runs[str(number)]))
    assert dead == [[True] + [False] * (MOST_RUNS - 1), [True] * 2 + [False] * (MOST_RUNS - 1)]
