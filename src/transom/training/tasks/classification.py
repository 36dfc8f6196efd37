"""The classification task: texts and labels, and embeddings that start from word vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transom.equations.losses import cross_entropy, disagreement, weighted_cross_entropy
from transom.layers import Embedding
from transom.models import Encoder, EncoderConfig, Model
from transom.models.folder import TOKENIZER
from transom.names import Misfit
from transom.text.batches import Ragged, batches, filter_by_length, pad_rows
from transom.text.corpora import Labelled
from transom.text.tokenizer import Tokenizer
from transom.text.window_batches import WindowBatches
from transom.text.word_vectors import word_vectors
from transom.training import dataset
from transom.training.confusion import ConfusionMatrix
from transom.training.evaluation_metrics import accuracy, macro_f1, mean_loss
from transom.training.fine_tuning import adopt_model
from transom.training.recipe import Recipe, VectorSettings, model_config
from transom.training.stored_corpus import held_out_examples, open_stored_corpus, stored_labels
from transom.training.task import Batch, EvaluationResult

PIECE = 2**20  # labels that are counted at once


def start_from_vectors(embedding: Embedding, tokenizer: Tokenizer, settings: VectorSettings) -> str:
    """Copy the file's vectors into the embedding, frozen or trainable; returns a line on how many words it had."""
    special = len(tokenizer.special)
    result = word_vectors(settings.file, tokenizer.tokens[special:])
    width = result.vectors.shape[1]
    if width != embedding.d_model:
        sizes = f"vectors of {width} numbers, but model.d_model is {embedding.d_model}"
        raise Misfit(f"{settings.file} has {sizes}; set model.d_model = {width}")
    # The embedding multiplies by its own scale, so it is divided out here.
    embedding.vectors.data[special:] = result.vectors * (settings.scale / embedding.scale)
    embedding.vectors.requires_grad_(not settings.frozen)
    return f"{settings.file}: {result.coverage}"


class ClassificationTask:
    """A text in, one of the labels of the training examples out."""

    model_kind = "encoder"

    def __init__(self, recipe: Recipe, folder: Path, note: Callable[[str], None], on_test_set: bool = False) -> None:
        self.recipe, self.note = recipe, note
        if recipe.data.store is None:
            held_out = self.read_texts(folder, on_test_set)
        else:
            held_out = self.open_store(folder, on_test_set)
        self.held_out = self.tokenize_examples(held_out[: recipe.judge.examples or None])

    def read_texts(self, folder: Path, on_test_set: bool) -> list[Labelled]:
        """All training examples in memory; returns the examples to evaluate on."""
        recipe = self.recipe
        train, held_out = dataset.train_and_validation(recipe, Labelled, on_test_set)
        self.labels = sorted({example.label for example in train})
        self.check_labels(held_out)
        self.tokenizer = dataset.load_or_train_tokenizer(recipe, (example.text for example in train), folder)
        self.train_set = self.tokenize_examples(train)
        self.plan = lru_cache(maxsize=2)(
            partial(batches, self.train_set.tokens.lengths, recipe.train.tokens, recipe.seed)
        )
        return held_out

    def open_store(self, folder: Path, on_test_set: bool) -> list[Labelled]:
        """The training examples on disk, unless this is a final evaluation; returns those to evaluate on."""
        recipe, note = self.recipe, self.note
        if on_test_set:
            self.tokenizer, self.labels = Tokenizer.load(folder / TOKENIZER), stored_labels(recipe, note)
        else:
            store, self.tokenizer = open_stored_corpus(recipe, Labelled, folder, note)
            about, texts, self.labels = store.about, store.columns["text"], store.about.labels
            if about.left_out:
                long = f"{about.left_out} of {about.rows} texts have more than {recipe.data.longest} tokens"
                note(f"{long} and are truncated")
            self.train_set = TokenizedTexts(texts, store.columns["label"].flat, self.tokenizer.padding)
            self.plan = WindowBatches(
                lambda rows: texts.lengths_of(rows)[:, None], about.rows, recipe.train.tokens, store.mean, recipe.seed
            )
        held_out = held_out_examples(recipe, Labelled, on_test_set, note)
        self.check_labels(held_out)
        return held_out

    def check_labels(self, held_out: list[Labelled]) -> None:
        unknown = {example.label for example in held_out} - set(self.labels)
        if unknown:
            raise Misfit(
                f"the training labels are {', '.join(self.labels)}, but held-out examples have {min(unknown)!r} too;"
                " add training examples with it"
            )

    def tokenize_examples(self, examples: list[Labelled]) -> "TokenizedTexts":
        """The examples as tokens; a text beyond `data.longest` tokens is truncated."""
        wrapping = self.tokenizer.wrapping(self.model_kind)
        longest = self.recipe.data.longest - wrapping.room
        rows = dataset.tokenize_texts(self.tokenizer, (example.text for example in examples))
        long = filter_by_length(rows.lengths, longest).left_out
        if long:
            self.note(f"{long} of {len(examples)} texts have more than {longest} tokens and are truncated")
        labels = np.array([self.labels.index(example.label) for example in examples], dtype=np.int64)
        tokens = Ragged.from_lists(wrapping.wrap(row[:longest].tolist()) for row in rows)
        return TokenizedTexts(tokens, labels, self.tokenizer.padding)

    def new_model(self) -> Model:
        if self.recipe.start is not None:
            return adopt_model(self.recipe, "encoder", self.note, labels=tuple(self.labels), masked_tokens=False)
        model = Encoder(model_config(EncoderConfig, self.recipe, self.tokenizer.size, labels=self.labels))
        if self.recipe.vectors is not None:
            self.note(start_from_vectors(model.embedding, self.tokenizer, self.recipe.vectors))
        return model

    def batches(self, epoch: int) -> int:
        return len(self.plan(epoch))

    def batch(self, epoch: int, position: int, part: slice) -> Batch:
        return self.train_set.batch(self.plan(epoch)[position][part])

    def loss(self, model: Model, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        labels, share = batch.tensors["label"], self.recipe.train.consistency
        if not share:
            return self.label_loss(self.logits(model, batch), labels, smoothing)
        twice = Batch({name: tensor.repeat(2, *[1] * (tensor.dim() - 1)) for name, tensor in batch.tensors.items()}, 0)
        first, second = self.logits(model, twice).chunk(2)  # the same texts, with other numbers dropped
        (one, count), (other, _) = (self.label_loss(logits, labels, smoothing) for logits in (first, second))
        return (one + other) / 2 + share * disagreement(first, second), count

    def label_loss(self, logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        if self.recipe.train.class_weights == "none":
            return cross_entropy(logits, labels, None, smoothing)
        return weighted_cross_entropy(logits, labels, self.class_weights, smoothing), torch.tensor(len(labels))

    @cached_property
    def class_weights(self) -> Tensor:
        """The weight of each label, so that all weigh the same: examples / (labels · those of the label)."""
        counts = count_labels(self.train_set.labels, len(self.labels))
        return torch.from_numpy(counts.sum() / (len(counts) * np.maximum(counts, 1))).float()

    def logits(self, model: Model, batch: Batch) -> Tensor:
        assert isinstance(model, Encoder)
        tokens = batch.tensors["tokens"]
        return model(tokens, tokens != self.tokenizer.padding)

    def evaluate(self, model: Model) -> EvaluationResult:
        assert isinstance(model, Encoder)
        if list(model.config.labels) != self.labels:
            raise Misfit(
                f"the model has the labels {', '.join(model.config.labels)}, but the examples have"
                f" {', '.join(self.labels)}; give the data it was trained on"
            )
        plan = batches(self.held_out.tokens.lengths, self.recipe.train.tokens, 0, 0)
        results = [(self.logits(model, batch), batch.tensors["label"]) for batch in map(self.held_out.batch, plan)]
        predicted = torch.cat([logits.argmax(dim=-1) for logits, _ in results])
        right = torch.cat([labels for _, labels in results])
        hits = np.empty(len(right), dtype=bool)
        hits[np.concatenate(plan)] = (predicted == right).numpy()
        metrics = {
            "loss": mean_loss(cross_entropy(logits, labels) for logits, labels in results),
            "accuracy": accuracy(predicted, right),
            "f1": macro_f1(predicted, right, len(self.labels)),
        }
        confusion = ConfusionMatrix.from_predictions(tuple(self.labels), predicted.numpy(), right.numpy())
        return EvaluationResult(metrics, "accuracy", higher_is_better=True, confusion=confusion, hits=hits)


def count_labels(labels: np.ndarray, count: int) -> np.ndarray:
    """How many examples each label has; piece by piece, because the labels may be on disk."""
    pieces = (labels[first : first + PIECE] for first in range(0, len(labels), PIECE))
    return sum((np.bincount(piece, minlength=count) for piece in pieces), start=np.zeros(count, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class TokenizedTexts:
    """Texts as tokens, and the numbers of their labels."""

    tokens: Ragged
    labels: np.ndarray
    padding: int

    def batch(self, rows: np.ndarray) -> Batch:
        tokens = pad_rows([self.tokens[row] for row in rows], self.padding)
        labels = torch.from_numpy(self.labels[rows].astype(np.int64))
        return Batch({"tokens": tokens, "label": labels}, len(rows))
