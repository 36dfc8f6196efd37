"""The translation task: text to text, from pairs of any kind."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from torch import Tensor

from transom.equations.losses import perplexity
from transom.kernels.linear_cross_entropy import linear_cross_entropy
from transom.models import EncoderDecoder, EncoderDecoderConfig, Model
from transom.models.folder import TOKENIZER
from transom.names import Misfit
from transom.text.batches import Ragged, batches, filter_by_length, pad_rows
from transom.text.corpora import Pair
from transom.text.special_tokens import Wrapping
from transom.text.tokenizer import Tokenizer
from transom.text.window_batches import WindowBatches
from transom.training import dataset
from transom.training.augmented_data import augment_training_pairs
from transom.training.evaluation_metrics import mean_loss, translation_scores
from transom.training.fine_tuning import adopt_model
from transom.training.recipe import Recipe, adopts_model, model_config
from transom.training.starting_model import start_from_model
from transom.training.stored_corpus import held_out_examples, open_stored_corpus
from transom.training.task import Batch, EvaluationResult


class TranslationTask:
    """Source in, target out. The decoder reads the target shifted right, after the token with which its model starts to
    write, and learns each next token."""

    model_kind = "encoder_decoder"

    def __init__(self, recipe: Recipe, folder: Path, note: Callable[[str], None], on_test_set: bool = False) -> None:
        self.recipe, self.note = recipe, note
        if recipe.data.store is None:
            held_out = self.read_pairs(folder, on_test_set)
        else:
            held_out = self.open_store(folder, on_test_set)
        self.held_out = TokenizedPairs.from_pairs(
            self.tokenizer, held_out[: recipe.judge.examples or None], recipe.data.longest, note
        )

    def read_pairs(self, folder: Path, on_test_set: bool) -> list[Pair]:
        """All training pairs in memory; returns the pairs to evaluate on."""
        recipe, note = self.recipe, self.note
        train, held_out = dataset.train_and_validation(recipe, Pair, on_test_set)
        if not on_test_set:
            train = augment_training_pairs(recipe, train, note)
        texts = (text for pair in train for text in (pair.source, pair.target))
        self.tokenizer = dataset.load_or_train_tokenizer(recipe, texts, folder)
        self.train_set = TokenizedPairs.from_pairs(self.tokenizer, train, recipe.data.longest, note)
        self.plan = lru_cache(maxsize=2)(partial(batches, self.train_set.lengths, recipe.train.tokens, recipe.seed))
        return held_out

    def open_store(self, folder: Path, on_test_set: bool) -> list[Pair]:
        """The training pairs on disk, unless this is a final evaluation; returns those to evaluate on."""
        recipe, note = self.recipe, self.note
        if on_test_set:
            self.tokenizer = Tokenizer.load(folder / TOKENIZER)
            return held_out_examples(recipe, Pair, True, note)
        store, self.tokenizer = open_stored_corpus(recipe, Pair, folder, note)
        if store.about.left_out:
            note(str(store.length_filter(recipe.data.longest)))
        self.train_set = TokenizedPairs(self.tokenizer, store.columns["source"], store.columns["target"])
        self.plan = WindowBatches(
            self.train_set.lengths_of, store.about.rows, recipe.train.tokens, store.mean, recipe.seed
        )
        return held_out_examples(recipe, Pair, False, note)

    def new_model(self) -> Model:
        if adopts_model(self.recipe):
            return adopt_model(self.recipe, "encoder_decoder", self.note)
        model = EncoderDecoder(model_config(EncoderDecoderConfig, self.recipe, self.tokenizer.size))
        if self.recipe.start is not None:
            self.note(start_from_model(model, self.tokenizer, self.recipe.start.model))
        return model

    def batches(self, epoch: int) -> int:
        return len(self.plan(epoch))

    def batch(self, epoch: int, position: int, part: slice) -> Batch:
        return self.train_set.batch(self.plan(epoch)[position][part])

    def loss(self, model: Model, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        assert isinstance(model, EncoderDecoder)
        padding = self.tokenizer.padding
        source, following = batch.tensors["source"], batch.tensors["next"]
        target = shift_right(following, model.generation.decoder_start_token_id, padding)
        # The target is padded at the end, where the causal mask hides it already: only the source needs a mask.
        hidden = model.hidden(source, target, source != padding).flatten(0, 1)
        return linear_cross_entropy(*model.linear_output(hidden), following.flatten(), padding, smoothing)

    def evaluate(self, model: Model) -> EvaluationResult:
        plan = batches(self.held_out.lengths, self.recipe.train.tokens, 0, 0)
        loss = mean_loss(self.loss(model, self.held_out.batch(rows)) for rows in plan)
        metrics = {"loss": loss, "perplexity": perplexity(loss)}
        if not self.recipe.judge.write:
            return EvaluationResult(metrics, "loss", higher_is_better=False)
        assert isinstance(model, EncoderDecoder)
        scores = translation_scores(model, self.tokenizer, self.held_out.pairs, self.recipe.judge.beams)
        metrics |= {"bleu": scores.bleu, "chrf": scores.chrf, "loops": scores.loops}
        lists = {"translations": scores.translations, "targets": scores.targets}
        return EvaluationResult(metrics, "bleu", higher_is_better=True, signature=scores.signature, **lists)


@dataclass(frozen=True, eq=False)
class TokenizedPairs:
    """Pairs as tokens, in memory or on disk; `pairs` has their texts, if they are in memory."""

    tokenizer: Tokenizer
    sources: Ragged
    targets: Ragged
    pairs: list[Pair] = field(default_factory=list)

    @classmethod
    def from_pairs(
        cls, tokenizer: Tokenizer, pairs: list[Pair], longest: int, note: Callable[[str], None]
    ) -> "TokenizedPairs":
        """Pairs from texts; those with a side beyond `longest` tokens are left out."""
        sources = dataset.tokenize_texts(tokenizer, (pair.source for pair in pairs))
        targets = dataset.tokenize_texts(tokenizer, (pair.target for pair in pairs))
        lengths = np.stack([sources.lengths, targets.lengths], axis=1) + count_wrapped(tokenizer)
        short = filter_by_length(lengths, longest)
        if short.left_out:
            note(str(short))
        if not len(short.rows):
            raise Misfit(f"no side may have over {longest} tokens, but all {len(pairs)} pairs do; raise data.longest")
        rows = short.rows
        return cls(tokenizer, sources.select(rows), targets.select(rows), [pairs[row] for row in rows])

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        """The lengths of both sides of some rows, with their special tokens."""
        sides = [self.sources.lengths_of(rows), self.targets.lengths_of(rows)]
        return np.stack(sides, axis=1) + count_wrapped(self.tokenizer)

    @property
    def lengths(self) -> np.ndarray:
        return np.stack([self.sources.lengths, self.targets.lengths], axis=1) + count_wrapped(self.tokenizer)

    def batch(self, rows: np.ndarray) -> Batch:
        """Source and target with the special tokens around them; the target is what comes next at each position."""
        around_source, around_target = self.tokenizer.pair_wrappings()
        padding = self.tokenizer.padding
        tensors = {
            "source": pad_rows(wrap_rows(self.sources, rows, around_source), padding),
            "next": pad_rows(wrap_rows(self.targets, rows, around_target), padding),
        }
        return Batch(tensors, int(self.targets.lengths_of(rows).sum()) + around_target.room * len(rows))


def count_wrapped(tokenizer: Tokenizer) -> np.ndarray:
    """How many special tokens are put around a source, and around a target."""
    return np.array([wrapping.room for wrapping in tokenizer.pair_wrappings()])


def wrap_rows(texts: Ragged, rows: np.ndarray, wrapping: Wrapping) -> list[np.ndarray]:
    """Rows of tokens with special tokens around each."""
    return [np.concatenate([wrapping.before, texts[row], wrapping.after]).astype(np.int64) for row in rows]


def shift_right(following: Tensor, start: int, padding: int) -> Tensor:
    """What a decoder reads to predict the tokens that follow: its start token, and each of them but the last."""
    target = following.roll(1, dims=1)
    target[:, :1] = start
    return target.masked_fill(following == padding, padding)
