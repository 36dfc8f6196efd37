"""A text through a model, token by token as it is written, and all of its attention."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transom.serve.fields import AskRun

if TYPE_CHECKING:
    from transom.lens import Trace

Told = Callable[[dict[str, Any]], object]
LIKELY = 5  # words that are told of each row


def watched(model: Any, asked: AskRun, told: Told | None = None) -> tuple["Trace", dict[str, Any], Any]:
    """The trace of it, what is said of it, and what the model was fed; `told` hears each token once it is written."""
    from transom.lens import watch

    began, ids = time.perf_counter(), []

    def wrote(token: int) -> None:
        ids.append(token)
        if told is not None:
            told({"token": model.strings([token])[0], "text": model.text(ids)})

    fed, new = read(model, asked, wrote)
    last = model.strings(new[-1:])  # written, but not read
    with watch(model.model, tokens=[*fed.tokens, *last], targets=fed.targets or None) as trace:
        logits = model.run(fed)
    said = said_of(model, asked.text, fed, new) | {
        "likely": likely(model, logits),
        "seconds": round(time.perf_counter() - began, 4),
        "note": model.shortened(fed, new, asked.more) or None,
    }
    return trace, said, fed


def read(model: Any, asked: AskRun, wrote: Callable[[int], object]) -> tuple[Any, list[int]]:
    """The text as the model takes it, with what it writes; and the tokens that a decoder wrote on."""
    fed = model.encode(asked.text, asked.target, wrote)
    if not asked.more:
        return fed, []
    new = model.continued(fed.ids, asked.more, wrote)
    return model.fed([*fed.ids, *new[:-1]]), new


def said_of(model: Any, text: str, fed: Any, new: list[int]) -> dict[str, Any]:
    """The words of a run, and what came out."""
    last = model.strings(new[-1:])
    return {
        "text": text,
        "tokens": fed.tokens,
        "targets": fed.targets,
        "written": fed.written or ([*fed.tokens[1:], *last] if model.kind == "decoder" else []),
        "output": model.text(fed.target_ids[1:] or new),
        "likely": [],
        "seconds": None,
        "note": None,
    }


def likely(model: Any, logits: Any) -> list[list[dict[str, Any]]]:
    """For each row of a model that writes, the words it found likeliest to come next."""
    if model.kind == "encoder":
        return []
    top = logits[0].float().softmax(dim=-1).topk(min(LIKELY, logits.shape[-1]))
    words = [model.strings(row) for row in top.indices.tolist()]
    return [
        [{"token": word, "probability": share} for word, share in zip(row, shares, strict=True)]
        for row, shares in zip(words, top.values.tolist(), strict=True)
    ]
