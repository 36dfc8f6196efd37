"""Text to label."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transom.equations.losses import cross_entropy
from transom.files.strict import settings
from transom.models import Encoder, EncoderConfig, Model
from transom.names import Misfit
from transom.run import examples
from transom.run.measures import accuracy, macro_f1, mean_loss
from transom.run.recipe import Recipe, model_settings
from transom.run.starting_vectors import start_from_vectors
from transom.run.task import Batch, Measures
from transom.text.batches import batches, fitting, padded
from transom.text.examples import Labelled
from transom.text.ragged import Ragged


class Classify:
    """A text in, one of the labels out that the training examples have."""

    model_kind = "encoder"

    def __init__(self, recipe: Recipe, folder: Path, note: Callable[[str], None], tested: bool = False) -> None:
        self.recipe, self.note = recipe, note
        learned, held_out = examples.learned_and_held_out(recipe, Labelled, tested)
        self.labels = sorted({example.label for example in learned})
        unknown = {example.label for example in held_out} - set(self.labels)
        if unknown:
            raise Misfit(
                f"the labels learned are {', '.join(self.labels)}, but the held-out examples have {min(unknown)!r} too;"
                " give examples of it to learn from"
            )
        self.tokenizer = examples.tokenizer(recipe, (example.text for example in learned), folder)
        self.learned = Texts(self, learned, recipe.data.longest)
        self.held_out = Texts(self, held_out[: recipe.judge.examples or None], recipe.data.longest)
        self.plan = lru_cache(maxsize=2)(self.planned)

    def new_model(self) -> Model:
        given = {**model_settings(self.recipe, self.tokenizer.size), "labels": self.labels}
        model = Encoder(settings(EncoderConfig, given, "the recipe's [model]"))
        if self.recipe.vectors is not None:
            self.note(start_from_vectors(model.embedding, self.tokenizer, self.recipe.vectors))
        return model

    def planned(self, epoch: int) -> list[np.ndarray]:
        return batches(self.learned.tokens.lengths, self.recipe.train.tokens, self.recipe.seed, epoch)

    def batches(self, epoch: int) -> int:
        return len(self.plan(epoch))

    def batch(self, epoch: int, position: int, part: slice) -> Batch:
        return self.learned.batch(self.plan(epoch)[position][part])

    def loss(self, model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
        return cross_entropy(self.logits(model, batch), batch.tensors["label"], None, self.recipe.train.smoothing)

    def logits(self, model: Model, batch: Batch) -> Tensor:
        assert isinstance(model, Encoder)
        tokens = batch.tensors["tokens"]
        return model(tokens, tokens != self.tokenizer.padding)

    def judged(self, model: Model, note: Callable[[str], None]) -> Measures:
        assert isinstance(model, Encoder)
        if list(model.config.labels) != self.labels:
            raise Misfit(
                f"the model tells {', '.join(model.config.labels)} apart, but the examples have"
                f" {', '.join(self.labels)}; give the data it was trained on"
            )
        plan = batches(self.held_out.tokens.lengths, self.recipe.train.tokens, 0, 0)
        found = [(self.logits(model, batch), batch.tensors["label"]) for batch in map(self.held_out.batch, plan)]
        said = torch.cat([logits.argmax(dim=-1) for logits, _ in found])
        right = torch.cat([labels for _, labels in found])
        numbers = {
            "loss": mean_loss(cross_entropy(logits, labels) for logits, labels in found),
            "accuracy": accuracy(said, right),
            "f1": macro_f1(said, right, len(self.labels)),
        }
        return Measures(numbers, "accuracy", higher_is_better=True)

    def save(self, model: Model, folder: Path) -> None:
        model.save_pretrained(folder, tokenizer=self.tokenizer)


class Texts:
    """Labelled texts as tokens; a text beyond `longest` tokens is cut there."""

    def __init__(self, task: Classify, labelled: list[Labelled], longest: int) -> None:
        self.padding = task.tokenizer.padding
        every = examples.encoded(task.tokenizer, (example.text for example in labelled))
        long = len(labelled) - len(fitting(every.lengths, longest).rows)
        if long:
            task.note(f"{long} of {len(labelled)} texts have more than {longest} tokens and are cut")
        self.tokens = Ragged.from_lists(row[:longest] for row in every)
        self.labels = torch.tensor([task.labels.index(example.label) for example in labelled])

    def batch(self, rows: np.ndarray) -> Batch:
        tokens = padded([self.tokens[int(row)] for row in rows], self.padding)
        return Batch({"tokens": tokens, "label": self.labels[torch.from_numpy(rows)]}, len(rows))
