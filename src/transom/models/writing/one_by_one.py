"""Writing one token after another: the likeliest, or one drawn by its probability."""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

from transom.equations.sampling import drawn
from transom.models.writing.chance import Chance
from transom.models.writing.job import Job, Result
from transom.models.writing.largest import likeliest, whole
from transom.models.writing.page import Page
from transom.models.writing.steps import Answer, Steps

Streamer = Callable[[int, int], object]


def written(job: Job, steps: Steps, chance: Chance | None = None, streamer: Streamer | None = None) -> Result:
    """Each row until it ends, and its score; what has ended leaves the batch."""
    page, logits = opened(job, steps)
    while True:
        tokens = chosen(job, page, logits, chance)
        page.write(tokens)
        if streamer is not None:
            tell(streamer, page.rows, tokens)
        finished = job.stopping.finished(tokens, page.so_far, page.skipped)
        if page.new >= job.least:
            finished = finished | (page.room <= page.new)
        if finished.any():
            left = page.lay_away(finished, job.settings.length_penalty)
            if len(left) == 0:
                return page.result()
            steps.select(left, left)
            tokens = tokens[left]
            if chance is not None:
                chance.select(left)
        logits = steps.next(tokens)


def chosen(job: Job, page: Page, answer: Answer, chance: Chance | None) -> Int[Tensor, " batch"]:
    """The next token of each row, by the rules; where scores are wanted, what it adds to them is added."""
    if chance is None and not job.scored and not job.rules.any:
        return likeliest(answer)
    logits = whole(answer)
    own = logits.log_softmax(dim=1) if job.scored else None
    if job.rules.any:
        logits = job.rules.applied(logits, page.so_far, page.real_so_far)
    tokens = likeliest(logits) if chance is None else drawn(logits, chance.uniform().to(logits.device))
    if own is not None:
        page.scores += own.gather(1, tokens[:, None])[:, 0]
    return tokens


def opened(job: Job, steps: Steps) -> tuple[Page, Answer]:
    """The page and the first logits: a prompt is read once, however many sequences are to be drawn after it."""
    logits, times = steps.first(), job.settings.num_return_sequences
    prompts = torch.arange(len(job.prompt), device=job.prompt.device)
    if times > 1:
        prompts = prompts.repeat_interleave(times)
        steps.select(prompts, prompts)
        logits = whole(logits)[prompts]
    return Page(job, prompts), logits


def tell(streamer: Streamer, rows: Int[Tensor, " batch"], tokens: Int[Tensor, " batch"]) -> None:
    """Hand each new token to the streamer, with the row it belongs to."""
    for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
        streamer(row, token)
