"""What is open on the page: a model that can be run, the last few runs, and each run's attentions as plain data."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.fields import AskRun

if TYPE_CHECKING:
    from transom.lens import Sight, Trace
    from transom.lens.pyramid import Pyramid
    from transom.lens.receipt import Receipt
    from transom.lens.replay import Replay
    from transom.lessons import Lesson

Told = Callable[[dict[str, Any]], object]
MOST_RUNS = 8
MOST_PYRAMIDS = 8
MOST_NUMBERS = 2**26  # of all floors of a run's maps together
ALL_TRIED = 2**24  # weights of a head up to which a picture is drawn of it: that tries every row of its receipt
LIKELY = 5  # of the words that could come next, so many are told


class Run:
    """One text through a model, or a trace from a file, with every attention of it."""

    def __init__(self, number: str, trace: "Trace", said: dict[str, Any]) -> None:
        self.number, self.trace, self.said = number, trace, said
        self.receipts = [proof(name, sight) for name, sight in trace.seen]
        self.pyramids: OrderedDict[tuple[int, int], Pyramid] = OrderedDict()
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
        return {"run": self.number, **self.said, "attentions": listed}


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
    """A model, if one is open, and the runs (a trace is the first of them); a lesson or a replay may be open too."""

    def __init__(
        self,
        model: Any = None,
        trace: "Trace | None" = None,
        lesson: "Lesson | None" = None,
        replay: "Replay | None" = None,
        name: str = "",
    ) -> None:
        self.model, self.lesson, self.replay = model, lesson, replay
        self.name = name or (model.name if model is not None else "a trace")
        self.runs: OrderedDict[str, Run] = OrderedDict()
        self.count = 0
        self.forgotten: Callable[[str], None] = lambda number: None
        if trace is not None:
            self.add(trace, words_of(trace) | {"text": None, "seconds": None, "note": None})

    def add(self, trace: "Trace", said: dict[str, Any]) -> Run:
        self.count += 1
        run = self.runs[str(self.count)] = Run(str(self.count), trace, said)
        while len(self.runs) > MOST_RUNS:
            gone, _ = self.runs.popitem(last=False)
            self.forgotten(gone)
        return run

    def run(self, number: str) -> Run:
        if number not in self.runs:
            raise Misfit(f"there is no run {number!r:.20} here; the last ones are {', '.join(self.runs) or 'none yet'}")
        return self.runs[number]

    def look(self, asked: AskRun, told: Told | None = None) -> Run:
        """Run the model on a text and keep all of its attention; `told` hears each token as soon as it is written."""
        from transom.lens import watch

        if self.model is None:
            raise Misfit("a trace is open, and no model to run; start transom serve with --model for that")
        began, ids = time.perf_counter(), []

        def wrote(token: int) -> None:
            ids.append(token)
            if told is not None:
                told({"token": self.model.strings([token])[0], "text": self.model.text(ids)})

        fed, new = self.read(asked, wrote)
        last = self.model.strings(new[-1:])  # written, but not read
        with watch(self.model.model, tokens=[*fed.tokens, *last], targets=fed.targets or None) as trace:
            logits = self.model.run(fed)
        note = self.model.shortened(fed, new, asked.more) or None
        told_of = {"likely": self.likely(logits, fed), "seconds": since(began), "note": note}
        return self.ran(trace, asked.text, fed, new, told_of)

    def ran(self, trace: "Trace", text: str, fed: Any, new: list[int], told: dict[str, Any] | None = None) -> Run:
        """A run of the model as it was watched; `told` has what is known of it besides."""
        last = self.model.strings(new[-1:])
        said = {
            "text": text,
            "tokens": fed.tokens,
            "targets": fed.targets,
            "written": fed.written or ([*fed.tokens[1:], *last] if self.model.kind == "decoder" else []),
            "output": self.model.text(fed.target_ids[1:] or new),
            "likely": [],
            "seconds": None,
            "note": None,
        }
        run = self.add(trace, said | (told or {}))
        run.fed = fed
        return run

    def read(self, asked: AskRun, wrote: Callable[[int], object]) -> tuple[Any, list[int]]:
        """The text as the model takes it, with what it writes; and the tokens that a decoder wrote on."""
        fed = self.model.encode(asked.text, asked.target, wrote)
        if not asked.more:
            return fed, []
        new = self.model.continued(fed.ids, asked.more, wrote)
        return self.model.fed([*fed.ids, *new[:-1]]), new

    def likely(self, logits: Any, fed: Any) -> list[list[dict[str, Any]]]:
        """For each row of a model that writes, the words it found likeliest to come next."""
        if self.model.kind == "encoder":
            return []
        top = logits[0].float().softmax(dim=-1).topk(min(LIKELY, logits.shape[-1]))
        words = [self.model.strings(row) for row in top.indices.tolist()]
        return [
            [{"token": word, "probability": share} for word, share in zip(row, shares, strict=True)]
            for row, shares in zip(words, top.values.tolist(), strict=True)
        ]

    def told(self) -> dict[str, Any]:
        """What is open, as JSON."""
        model = None if self.model is None else {"name": self.model.name, "kind": self.model.kind}
        opened = {"lesson": self.lesson is not None, "replay": self.replay is not None}
        return {"name": self.name, "model": model, **opened, "runs": [summary(run) for run in self.runs.values()]}


def since(began: float) -> float:
    return round(time.perf_counter() - began, 4)


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
