"""Writing on: each next token of a long text."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transom.equations.losses import perplexity
from transom.files.strict import settings
from transom.kernels.linear_loss import linear_cross_entropy
from transom.models import Decoder, DecoderConfig, Model
from transom.names import Misfit
from transom.run import examples
from transom.run.measures import mean_loss
from transom.run.recipe import Recipe, model_settings
from transom.run.task import Batch, Measures
from transom.text.batches import block_count, block_starts
from transom.text.examples import Line


class Write:
    """A stream of tokens, learned in blocks of equal length; `data.held_out` is the number of tokens at its end."""

    model_kind = "decoder"

    def __init__(self, recipe: Recipe, folder: Path, note: Callable[[str], None], tested: bool = False) -> None:
        self.recipe = recipe
        data = recipe.data
        texts = [line.text for line in examples.read(data, data.train, Line)]
        self.tokenizer = examples.tokenizer(recipe, texts, folder)
        self.learned = self.stream(texts)
        if data.valid is not None:
            self.held_out = self.stream(line.text for line in examples.read(data, data.valid, Line))
        else:
            self.learned, self.held_out = parted(self.learned, data.held_out, recipe.train.block)
        block_count(len(self.held_out), recipe.train.block)  # complains if there is not one
        self.batch(0, 0, slice(0))  # complains if there are too few blocks for a batch

    def stream(self, texts: Iterable[str]) -> np.ndarray:
        """All texts behind each other; an end token after each, where there are several."""
        rows = examples.encoded(self.tokenizer, texts)
        if len(rows) == 1:
            return rows[0]
        return np.concatenate([np.append(row, self.tokenizer.end) for row in rows])

    def new_model(self) -> Model:
        given = {"longest": self.recipe.train.block, **model_settings(self.recipe, self.tokenizer.size)}
        return Decoder(settings(DecoderConfig, given, "the recipe's [model]"))

    def batches(self, epoch: int) -> int:
        return block_count(len(self.learned), self.recipe.train.block) // self.recipe.train.rows

    def batch(self, epoch: int, position: int, part: slice) -> Batch:
        asked = self.recipe.train
        starts = block_starts(len(self.learned), asked.block, asked.rows, self.recipe.seed, epoch, position)
        return self.made(self.learned, starts[part])

    def made(self, stream: np.ndarray, starts: np.ndarray) -> Batch:
        block = self.recipe.train.block
        tokens = torch.from_numpy(stream[starts[:, None] + np.arange(block + 1)].astype(np.int64))
        return Batch({"tokens": tokens[:, :-1].contiguous(), "next": tokens[:, 1:].contiguous()}, len(starts) * block)

    def loss(self, model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.smoothed_loss(model, batch, self.recipe.train.smoothing)

    def smoothed_loss(self, model: Model, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
        assert isinstance(model, Decoder)
        hidden = model.hidden(batch.tensors["tokens"]).flatten(0, 1)
        return linear_cross_entropy(hidden, model.unembedding, batch.tensors["next"].flatten(), None, smoothing)

    def judged(self, model: Model, note: Callable[[str], None]) -> Measures:
        """The mean loss over the held-out stream in blocks one after another: all of it, each token once."""
        block, rows = self.recipe.train.block, self.recipe.train.rows
        starts = np.arange(0, len(self.held_out) - block, block)
        if self.recipe.judge.examples:
            starts = starts[: self.recipe.judge.examples]
        parts = (starts[first : first + rows] for first in range(0, len(starts), rows))
        loss = mean_loss(self.smoothed_loss(model, self.made(self.held_out, part), 0.0) for part in parts)
        return Measures({"loss": loss, "perplexity": perplexity(loss)}, "loss", higher_is_better=False)

    def save(self, model: Model, folder: Path) -> None:
        model.save_pretrained(folder, tokenizer=self.tokenizer)


def parted(stream: np.ndarray, held_out: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """The stream without its end, and its end."""
    if not block < held_out < len(stream) - block:
        raise Misfit(
            f"data.held_out is how many tokens at the end are kept for judging, between {block} and"
            f" {len(stream) - block} here, but it is {held_out}; a tenth would be {len(stream) // 10}"
        )
    return stream[:-held_out], stream[-held_out:]
