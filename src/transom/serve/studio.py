"""What is open on the page: models that can be run, the last few runs, and each run's attentions as plain data."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.fields import AskRun
from transom.serve.running import Told, watched

if TYPE_CHECKING:
    from transom.lens import Sight, Trace
    from transom.lens.pyramid import Pyramid
    from transom.lens.receipt import Receipt
    from transom.lens.replay import Replay
    from transom.lessons import Lesson

MOST_RUNS = 8
MOST_PYRAMIDS = 8
MOST_NUMBERS = 2**26  # of all floors of a run's maps together
ALL_TRIED = 2**24  # weights of a head up to which a picture is drawn of it: that tries every row of its receipt


class Run:
    """One text through a model, or a trace from a file, with every attention of it."""

    def __init__(self, number: str, trace: "Trace", said: dict[str, Any]) -> None:
        self.number, self.trace, self.said = number, trace, said
        self.receipts = [proof(name, sight) for name, sight in trace.seen]
        self.pyramids: OrderedDict[tuple[int, int], Pyramid] = OrderedDict()
        self.model: Any = None  # that ran, and what it was fed; a trace has neither
        self.fed: Any = None

    def attention(self, index: int) -> tuple[str, "Sight"]:
        """Name and Sight by the order of running."""
        if not 0 <= index < len(self.trace.seen):
            raise Misfit(f"run {self.number} has {len(self.trace.seen)} attentions, so {index} is none; count from 0")
        return self.trace.seen[index]

    def pyramid(self, index: int, head: int) -> "Pyramid":
        """The map of one head; the last few are kept, with what they have worked out."""
        from transom.lens.pyramid import Pyramid

        _, sight = self.attention(index)
        if (index, head) not in self.pyramids:
            self.pyramids[index, head] = Pyramid(sight, head)
        self.pyramids.move_to_end((index, head))
        while len(self.pyramids) > MOST_PYRAMIDS or (len(self.pyramids) > 1 and self.numbers > MOST_NUMBERS):
            self.pyramids.popitem(last=False)
        return self.pyramids[index, head]

    @property
    def numbers(self) -> int:
        return sum(one.floor.numbers for one in self.pyramids.values() if one.floor is not None)

    def told(self) -> dict[str, Any]:
        """The run as JSON: its words, and what attentions there are."""
        listed = [attention_told(self.trace, index, receipt) for index, receipt in enumerate(self.receipts)]
        return {"run": self.number, "model": named(self.model), **self.said, "attentions": listed}


def proof(name: str, sight: "Sight") -> "Receipt":
    """The receipt of an attention, by some of its rows where there are very many; nothing is shown if it fails."""
    from transom.lens.receipt import rows_tried

    receipt = sight.receipt(rows_tried(sight.problem.whole))
    if receipt.fails:
        raise Misfit(
            f"the weights of {name!r} do not make the output that the model used ({receipt}); nothing of it is shown,"
            " watch the model again"
        )
    return receipt


def attention_told(trace: "Trace", index: int, receipt: "Receipt") -> dict[str, Any]:
    """One attention: where it is, its sizes, and the words of its rows and columns by reference."""
    from transom.lens.labels import in_decoder, is_cross

    name, sight = trace.seen[index]
    _, heads, queries, keys = sight.problem.whole
    role = "cross" if is_cross(name) else "decoder" if in_decoder(name) else "encoder" if "encoder" in name else "self"
    return {
        "index": index,
        "name": name,
        "role": role,
        "heads": heads,
        "queries": queries,
        "keys": keys,
        "predicts": predicted(trace, name) is not None,
        "receipt": {"holds": receipt.holds, "said": str(receipt)},
    }


def predicted(trace: "Trace", name: str) -> list[str | None] | None:
    """What each row of an attention is to predict; None where rows predict nothing, or where there are not words for
    all of them, which is told when they are to be shown."""
    try:
        return trace.labels(name).predicts
    except Misfit:
        return None


class Studio:
    """Models to choose from, if any are open, and the runs (a trace is the first of them); a lesson or a replay may be
    open too."""

    def __init__(
        self,
        *models: Any,
        trace: "Trace | None" = None,
        lesson: "Lesson | None" = None,
        replay: "Replay | None" = None,
        name: str = "",
    ) -> None:
        self.models = {one.name: one for one in models}
        self.lesson, self.replay = lesson, replay
        self.name = name or next(iter(self.models), "a trace")
        self.runs: OrderedDict[str, Run] = OrderedDict()
        self.count = 0
        self.forgotten: Callable[[str], None] = lambda number: None
        if trace is not None:
            self.add(trace, words_of(trace) | {"text": None, "seconds": None, "note": None})

    def add(self, trace: "Trace", said: dict[str, Any], model: Any = None, fed: Any = None) -> Run:
        """A run as it was watched; of a trace from a file there is no model, nor what it was fed."""
        self.count += 1
        run = self.runs[str(self.count)] = Run(str(self.count), trace, said)
        run.model, run.fed = model, fed
        while len(self.runs) > MOST_RUNS:
            gone, _ = self.runs.popitem(last=False)
            self.forgotten(gone)
        return run

    def run(self, number: str) -> Run:
        if number not in self.runs:
            raise Misfit(f"there is no run {number!r:.20} here; the last ones are {', '.join(self.runs) or 'none yet'}")
        return self.runs[number]

    def titled(self, run: Run) -> str:
        """What ran: its model, or what was opened."""
        return run.model.name if run.model else self.name

    def look(self, asked: AskRun, told: Told | None = None) -> Run:
        """Run a model on a text and keep all of its attention; `told` hears each token as soon as it is written."""
        model = self.chosen(asked.model)
        trace, said, fed = watched(model, asked, told)
        return self.add(trace, said, model, fed)

    def chosen(self, name: str) -> Any:
        """The model of that name; unless one is named, the first."""
        if not self.models:
            raise Misfit("a trace is open, and no model to run; start transom serve with --model for that")
        if name and name not in self.models:
            raise Misfit(f"there is no model {name!r:.80} here; there are {', '.join(self.models)}")
        return self.models[name or next(iter(self.models))]

    def told(self) -> dict[str, Any]:
        """What is open, as JSON."""
        models = [named(one) for one in self.models.values()]
        opened = {"lesson": self.lesson is not None, "replay": self.replay is not None}
        return {"name": self.name, "models": models, **opened, "runs": [summary(run) for run in self.runs.values()]}


def named(model: Any) -> dict[str, str] | None:
    return None if model is None else {"name": model.name, "kind": model.kind}


def summary(run: Run) -> dict[str, Any]:
    return {
        "run": run.number,
        "text": run.said["text"],
        "output": run.said["output"],
        "attentions": len(run.trace.seen),
    }


def words_of(trace: "Trace") -> dict[str, Any]:
    """The words of a trace's first sequence, and what its rows are to predict; none where they were not kept."""
    tokens, targets = (words[0] if words else [] for words in (trace.tokens, trace.targets))
    following = next(filter(None, (predicted(trace, name) for name in trace.names)), [])
    written = [word for word in following if word is not None]  # what comes after the last row may not be known
    return {"tokens": tokens, "targets": targets, "written": written, "output": None, "likely": []}
