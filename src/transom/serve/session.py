"""The open state of the page: models to choose from, the last few runs, and their attentions as plain data."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.request_fields import RunRequest

if TYPE_CHECKING:
    from transom.lens import Sight, Trace
    from transom.lens.attention.pyramid import Pyramid
    from transom.lens.attention.receipt import Receipt
    from transom.lens.attribution.head_ranking import HeadRanker
    from transom.lens.replay import Replay
    from transom.lessons import Lesson
    from transom.runner import TextModel
    from transom.runner.text_model import OnToken
    from transom.runner.watched_run import TextRun

OnWritten = Callable[[dict[str, str]], object]  # called with each token the model writes, and the text so far
NO_TOKENS = (
    "Rows and keys are numbered, as the tokens are not known:"
    " transom.watch(model, tokenizer=…) or watch(model, tokens=…) names them."
)
MOST_RUNS = 8
MOST_PYRAMIDS = 8
MOST_NUMBERS = 2**26  # in the bases of all pyramids of a run


class SessionRun:
    """One text through a model, or a trace from a file, with all its attentions.

    info       text, tokens and output of the run, as JSON
    text_run   the model and its inputs; None for a trace from a file
    """

    def __init__(self, number: str, trace: "Trace", info: dict[str, Any], text_run: "TextRun | None" = None) -> None:
        self.number, self.trace, self.info, self.text_run = number, trace, info, text_run
        self.receipts = [require_receipt(name, sight.require_full()) for name, sight in trace.entries]
        self.pyramids: OrderedDict[tuple[int, int], Pyramid] = OrderedDict()
        self.ranker: HeadRanker | None = None  # made when heads are first ranked; keeps their estimates

    @property
    def model(self) -> "TextModel | None":
        """The model that ran; None for a trace from a file."""
        return None if self.text_run is None else self.text_run.model

    def attention(self, index: int) -> tuple[str, "Sight"]:
        """Name and Sight of an attention, counted in the order of running."""
        count = len(self.trace.entries)
        if not 0 <= index < count:
            raise Misfit(f"run {self.number} has {count} attentions, so there is no {index}; count from 0")
        name, sight = self.trace.entries[index]
        return name, sight.require_full()

    def pyramid(self, index: int, head: int) -> "Pyramid":
        """The map of one head; the last few are kept, with what they have computed."""
        from transom.lens.attention.pyramid import Pyramid

        _, sight = self.attention(index)
        if (index, head) not in self.pyramids:
            self.pyramids[index, head] = Pyramid(sight, head)
        self.pyramids.move_to_end((index, head))
        while len(self.pyramids) > MOST_PYRAMIDS or (len(self.pyramids) > 1 and self.stored_numbers > MOST_NUMBERS):
            self.pyramids.popitem(last=False)
        return self.pyramids[index, head]

    @property
    def stored_numbers(self) -> int:
        return sum(pyramid.base.numbers for pyramid in self.pyramids.values() if pyramid.base is not None)

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON: its tokens and its attentions."""
        attentions = [attention_info(self, index) for index in range(len(self.receipts))]
        return {"run": self.number, "model": model_info(self.model), **self.info, "attentions": attentions}

    def summary(self) -> dict[str, Any]:
        """The run as a row in the list of runs."""
        text, output = self.info["text"], self.info["output"]
        return {"run": self.number, "text": text, "output": output, "attentions": len(self.receipts)}


def require_receipt(name: str, sight: "Sight") -> "Receipt":
    """The receipt of an attention, of some rows if there are very many; an error if it fails."""
    from transom.lens.attention.receipt import default_row_count

    receipt = sight.receipt(default_row_count(sight.problem.shape))
    if receipt.fails:
        raise Misfit(
            f"the weights of {name!r} do not reproduce the output that the model used ({receipt}), so nothing of it is"
            " shown; watch the model again"
        )
    return receipt


def attention_info(run: SessionRun, index: int) -> dict[str, Any]:
    """One attention as JSON: its name, its role, its sizes and its receipt."""
    from transom.lens.attention.labels import in_decoder, is_cross

    name, sight = run.trace.entries[index]
    _, heads, queries, keys = sight.shape
    role = "cross" if is_cross(name) else "decoder" if in_decoder(name) else "encoder" if "encoder" in name else "self"
    receipt = run.receipts[index]
    return {
        "index": index,
        "name": name,
        "role": role,
        "heads": heads,
        "queries": queries,
        "keys": keys,
        "predicts": predicted_tokens(run.trace, name) is not None,
        "receipt": {"holds": receipt.holds, "said": str(receipt)},
    }


def predicted_tokens(trace: "Trace", name: str) -> list[str | None] | None:
    """The token that each row of an attention predicts; None if rows predict nothing, or if the trace has too few
    tokens, which is an error only where they are shown."""
    try:
        return trace.labels(name).predicts
    except Misfit:
        return None


class Session:
    """The open models and runs; a trace is the first run. A lesson or a replay may be open too."""

    def __init__(
        self,
        *models: "TextModel",
        trace: "Trace | None" = None,
        lesson: "Lesson | None" = None,
        replay: "Replay | None" = None,
        name: str = "",
    ) -> None:
        self.models = {model.name: model for model in models}
        self.lesson, self.replay = lesson, replay
        self.name = name or next(iter(self.models), "a trace")
        self.runs: OrderedDict[str, SessionRun] = OrderedDict()
        self.count = 0
        self.on_forget: Callable[[str], None] = lambda number: None
        if trace is not None:
            self.add(trace, trace_info(trace))

    def add(self, trace: "Trace", info: dict[str, Any], text_run: "TextRun | None" = None) -> SessionRun:
        """Add a watched run; the oldest is dropped if there are too many."""
        from transom.lens.unseen_attention import unseen_note

        self.count += 1
        notes = [note for note in (info["note"], unseen_note(trace.unseen)) if note]
        info = info | {"note": " ".join(notes) or None, "unseen": [vars(one) for one in trace.unseen]}
        run = self.runs[str(self.count)] = SessionRun(str(self.count), trace, info, text_run)
        while len(self.runs) > MOST_RUNS:
            self.on_forget(self.runs.popitem(last=False)[0])  # the run itself is gone by then, and its memory free
        return run

    def run(self, number: str) -> SessionRun:
        if number not in self.runs:
            raise Misfit(f"there is no run {number!r:.20} here; the last ones are {', '.join(self.runs) or 'none yet'}")
        return self.runs[number]

    def run_title(self, run: SessionRun) -> str:
        """The name of the model that ran, or of the file that was opened."""
        return run.model.name if run.model else self.name

    def run_text(self, fields: RunRequest, on_written: OnWritten | None = None) -> SessionRun:
        """Run a model on a text and record all its attention."""
        from transom.runner.watched_run import encode_and_continue, likely_labels, likely_tokens, watch_run

        model, start = self.find_model(fields.model), time.perf_counter()
        on_token = None if on_written is None else report_tokens(model, fields.text, on_written)
        text_run = encode_and_continue(model, fields.text, fields.target, fields.more, on_token)
        trace, output = watch_run(text_run)
        result = {"likely": likely_tokens(model, output), "seconds": round(time.perf_counter() - start, 4)}
        labels = likely_labels(model, output)
        return self.add(trace, text_run.to_dict() | result | ({"output": labels} if labels else {}), text_run)

    def find_model(self, name: str) -> "TextModel":
        """The model of that name; the first one if the name is empty."""
        if not self.models:
            raise Misfit("a trace is open, but no model to run; start transom serve with --model")
        if name and name not in self.models:
            raise Misfit(f"there is no model {name!r:.80} here; there are {', '.join(self.models)}")
        return self.models[name or next(iter(self.models))]

    def to_dict(self) -> dict[str, Any]:
        """What is open, as JSON."""
        models = [model_info(model) for model in self.models.values()]
        opened = {"lesson": self.lesson is not None, "replay": self.replay is not None}
        return {"name": self.name, "models": models, **opened, "runs": [run.summary() for run in self.runs.values()]}


def report_tokens(model: "TextModel", prompt: str, on_written: OnWritten) -> "OnToken":
    """A function of each token that a model writes, which reports it with the text so far, in whole characters."""
    from transom.training.inference import TextStreamer

    streamer = TextStreamer(model.written_decoder(prompt))

    def on_token(token: int) -> None:
        streamer.on_token(0, token)
        on_written({"token": model.token_strings([token])[0], "text": streamer.sent})

    return on_token


def model_info(model: "TextModel | None") -> dict[str, str] | None:
    return None if model is None else {"name": model.name, "kind": model.kind}


def trace_info(trace: "Trace") -> dict[str, Any]:
    """What is known of a trace from a file: the tokens of its first sequence, and what its rows predict."""
    tokens, targets = (sequences[0] if sequences else [] for sequences in (trace.tokens, trace.targets))
    predicted = next(filter(None, (predicted_tokens(trace, name) for name in trace.names)), [])
    written = [token for token in predicted if token is not None]  # the token after the last row may not be known
    info = {"tokens": tokens, "targets": targets, "written": written, "output": None, "likely": []}
    is_unnamed = trace.tokens is None and trace.targets is None and trace.grid is None
    return info | {"text": None, "seconds": None, "note": NO_TOKENS if is_unnamed else None}
