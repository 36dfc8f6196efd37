"""The language-modelling task: predict each next token of a long text."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transom.equations.losses import perplexity
from transom.kernels.linear_cross_entropy import linear_cross_entropy
from transom.models import Decoder, DecoderConfig, Model
from transom.names import Misfit
from transom.text.batches import block_count, block_starts
from transom.text.corpora import Line
from transom.text.window_batches import permuted_starts
from transom.training import dataset
from transom.training.evaluation_metrics import mean_loss
from transom.training.fine_tuning import adopt_model
from transom.training.recipe import Recipe, model_config
from transom.training.stored_corpus import open_stored_corpus, require_store
from transom.training.task import Batch, EvaluationResult


class LanguageModellingTask:
    """A stream of tokens, learned in blocks of equal length; `data.held_out` is the number of tokens at its end."""

    model_kind = "decoder"

    def __init__(self, recipe: Recipe, folder: Path, note: Callable[[str], None], on_test_set: bool = False) -> None:
        self.recipe, self.note = recipe, note
        data = recipe.data
        if data.store is None:
            texts = [line.text for line in dataset.read_examples(data, data.train, Line)]
            self.tokenizer = dataset.load_or_train_tokenizer(recipe, texts, folder)
            self.train_set, self.starts = self.tokenize_stream(texts), block_starts
        else:
            open_store = require_store if on_test_set else open_stored_corpus
            store, self.tokenizer = open_store(recipe, Line, folder, note)
            self.train_set, self.starts = store.columns["text"].flat, permuted_starts
        if data.valid is not None:
            self.held_out = self.tokenize_stream(line.text for line in dataset.read_examples(data, data.valid, Line))
        else:
            self.train_set, self.held_out = split_stream(self.train_set, data.held_out, recipe.train.block)
        block_count(len(self.held_out), recipe.train.block)  # raises an error if there is not one block
        self.batch(0, 0, slice(0))  # raises an error if there are too few blocks for a batch

    def tokenize_stream(self, texts: Iterable[str]) -> np.ndarray:
        """All texts as one stream; if there are several, each is followed by an end token."""
        rows = dataset.tokenize_texts(self.tokenizer, texts)
        if len(rows) == 1:
            return rows[0]
        return np.concatenate([np.append(row, self.tokenizer.end) for row in rows])

    def new_model(self) -> Model:
        if self.recipe.start is not None:
            return adopt_model(self.recipe, "decoder", self.note)
        return Decoder(model_config(DecoderConfig, self.recipe, self.tokenizer.size, longest=self.recipe.train.block))

    def batches(self, epoch: int) -> int:
        return block_count(len(self.train_set), self.recipe.train.block) // self.recipe.train.rows

    def batch(self, epoch: int, position: int, part: slice) -> Batch:
        settings = self.recipe.train
        starts = self.starts(len(self.train_set), settings.block, settings.rows, self.recipe.seed, epoch, position)
        return self.cut_blocks(self.train_set, starts[part])

    def cut_blocks(self, stream: np.ndarray, starts: np.ndarray) -> Batch:
        block = self.recipe.train.block
        tokens = torch.from_numpy(stream[starts[:, None] + np.arange(block + 1)].astype(np.int64))
        return Batch({"tokens": tokens[:, :-1].contiguous(), "next": tokens[:, 1:].contiguous()}, len(starts) * block)

    def loss(self, model: Model, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        assert isinstance(model, Decoder)
        hidden = model.hidden(batch.tensors["tokens"]).flatten(0, 1)
        return linear_cross_entropy(*model.linear_output(hidden), batch.tensors["next"].flatten(), None, smoothing)

    def evaluate(self, model: Model) -> EvaluationResult:
        """The mean loss over the held-out stream, block by block, each token once."""
        block, rows = self.recipe.train.block, self.recipe.train.rows
        starts = np.arange(0, len(self.held_out) - block, block)[: self.recipe.judge.examples or None]
        parts = (starts[first : first + rows] for first in range(0, len(starts), rows))
        loss = mean_loss(self.loss(model, self.cut_blocks(self.held_out, part)) for part in parts)
        return EvaluationResult({"loss": loss, "perplexity": perplexity(loss)}, "loss", higher_is_better=False)


def split_stream(stream: np.ndarray, held_out: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """The stream without its end, and its end."""
    if not block < held_out < len(stream) - block:
        raise Misfit(
            f"data.held_out is how many tokens at the end are kept for evaluation, between {block} and"
            f" {len(stream) - block} here, but it is {held_out}; a tenth would be {len(stream) // 10}"
        )
    return stream[:-held_out], stream[-held_out:]
