"""The audit: a sample has the verdicts on file, its page says what its file says, and it can be believed."""

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).parent.parent
pytest.importorskip("transformers")
pytest.importorskip("audit.judgement", reason="the audit is beside the tests, in the repository")
judgement = import_module("audit.judgement")
configurations = import_module("audit.configurations")
report = import_module("audit.report")
detector = import_module("audit.attention_detector")
comparison = import_module("audit.comparison")
subject = import_module("audit.subject")

RESULT = json.loads((ROOT / "docs/audit.json").read_text(encoding="utf-8"))
ROWS = {configurations.Configuration(row["name"], row["implementation"]): row for row in RESULT["rows"]}
RAN = [one for one, row in ROWS.items() if row["verdict"] not in {judgement.NOT_BUILDABLE, judgement.NOT_OFFERED}]
# In the full audit only: they take seconds each.
SLOW = {"falcon_h1", "sam2_vision_model", "sam3_vision_model", "textnet", "vits", "videoprism"}


@pytest.mark.slow
def test_a_sample_of_forty_has_the_verdicts_on_file():
    quick = [one for one in RAN if one.name not in SLOW]
    chosen = configurations.sample(quick, 40)
    found = {(row["name"], row["implementation"]): row for row in import_module("audit.pool").run_all(chosen, jobs=2)}
    assert len(found) == 40
    for one in chosen:
        row = found[one.name, one.implementation]
        assert "broken" not in row, row
        known = ROWS[one]
        assert (str(one), row["verdict"], row["reason"]) == (str(one), known["verdict"], known.get("reason", ""))


def test_nothing_is_silent_wrong_changed_or_foreign():
    assert [str(one) for one, row in ROWS.items() if row["verdict"] in judgement.BAD] == []


def test_enough_configurations_ran_and_most_are_exact():
    exact = [one for one in RAN if ROWS[one]["verdict"] in {judgement.EXACT, judgement.IN_WINDOWS}]
    assert len(RAN) >= 250
    assert len(exact) > 0.85 * len(RAN)


def test_the_file_counts_what_it_lists():
    assert RESULT["counts"] == report.summarise(RESULT["rows"])
    assert {"torch", "transformers", "transom"} == set(RESULT["versions"])


def test_the_page_is_made_from_the_file():
    assert (ROOT / "docs/audit.md").read_text(encoding="utf-8") == report.to_page(RESULT)


def test_everything_that_is_not_exact_has_a_reason():
    quiet = {judgement.EXACT, judgement.IN_WINDOWS}
    assert not [str(one) for one, row in ROWS.items() if row["verdict"] not in quiet and not row.get("reason")]


class Scores(nn.Module):
    """Attention by hand, with a function in place of the softmax, or nothing."""

    def __init__(self, function=None):
        super().__init__()
        self.map, self.function = nn.Linear(6, 18), function

    def forward(self, x):
        Q, K, V = self.map(x).chunk(3, -1)
        scores = Q @ K.mT
        return (scores if self.function is None else self.function(scores)) @ V


def detect_in(model, x):
    with torch.no_grad(), detector.detect(model) as active:
        model(x)
    return active.found


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda s: s.softmax(-1), detector.SOFTMAX),
        (lambda s: s.exp() / s.exp().sum(-1, keepdim=True), detector.SOFTMAX),
        (lambda s: (s - s.logsumexp(-1, keepdim=True)).exp(), detector.SOFTMAX),
        (torch.sigmoid, detector.SOFTMAX),
        (None, detector.LINEAR),
    ],
)
def test_the_detector_finds_attention_and_its_weights(function, kind):
    model, x = Scores(function), torch.randn(2, 5, 6)
    (found,) = detect_in(model, x)
    assert found.kind == kind
    assert found.modules == [model]
    if kind == detector.SOFTMAX:
        Q, K, _ = model.map(x).chunk(3, -1)
        assert torch.allclose(found.weights, function(Q @ K.mT), atol=1e-6)


def test_the_detector_finds_fused_attention_and_its_weights():
    class Fused(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x, is_causal=True)

    x = torch.randn(2, 3, 5, 4)
    (found,) = detect_in(Fused(), x)
    scores = (x @ x.mT / 2).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    assert torch.allclose(found.weights, scores.softmax(-1), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(6, 6), nn.Softmax(-1), nn.Linear(6, 6)),
        nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 6)),
        nn.Conv1d(5, 5, 3),
    ],
)
def test_the_detector_finds_nothing_where_there_is_none(model):
    assert detect_in(model, torch.randn(2, 5, 6)) == []


def judge_with(monkeypatch, change):
    """The verdict on a small attention whose trace was changed behind its back."""
    x = torch.randn(2, 5, 6)
    one = subject.Subject(Scores(lambda s: s.softmax(-1)), {}, (x,))
    run = comparison.watch_run

    def watch_run(subject):
        trace, watched, refusal = run(subject)
        return change(trace), watched, refusal

    monkeypatch.setattr(comparison, "watch_run", watch_run)
    return comparison.judge(one)


def test_an_honest_trace_is_exact(monkeypatch):
    assert judge_with(monkeypatch, lambda trace: trace).verdict == judgement.EXACT


def test_a_trace_that_hides_an_attention_is_silent(monkeypatch):
    def hide(trace):
        trace.entries.clear()
        return trace

    found = judge_with(monkeypatch, hide)
    assert (found.verdict, found.reason) == (
        judgement.SILENT,
        "softmax attention in '(model)' is neither shown nor listed",
    )


def test_an_output_that_changes_is_found(monkeypatch):
    x = torch.randn(2, 5, 6)
    one = subject.Subject(Scores(lambda s: s.softmax(-1)), {}, (x,))
    monkeypatch.setattr(comparison, "watch_run", lambda subject: (type("T", (list,), {"unseen": []})(), [x + 1e-7], ""))
    assert comparison.judge(one).verdict == judgement.CHANGED


def test_an_error_of_another_kind_is_found(monkeypatch):
    def fail(subject):
        raise KeyError("layers")

    monkeypatch.setattr(comparison, "watch_run", fail)
    found = comparison.judge(subject.Subject(Scores(lambda s: s.softmax(-1)), {}, (torch.randn(2, 5, 6),)))
    assert (found.verdict, found.reason) == (judgement.FOREIGN, "KeyError: 'layers'")
