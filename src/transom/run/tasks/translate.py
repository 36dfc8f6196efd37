"""Text to text: translation, summarising, any pairs."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from torch import Tensor

from transom.equations.losses import perplexity
from transom.files.strict import settings
from transom.kernels.linear_loss import linear_cross_entropy
from transom.models import EncoderDecoder, EncoderDecoderConfig, Model
from transom.names import Misfit
from transom.run import examples
from transom.run.measures import mean_loss, translation_scores
from transom.run.recipe import Recipe, model_settings
from transom.run.task import Batch, Measures
from transom.text.batches import batches, fitting, padded
from transom.text.examples import Pair
from transom.text.ragged import Ragged


class Translate:
    """Source in, target out. The decoder is fed the whole target, shifted right, and learns each next token."""

    model_kind = "encoder_decoder"

    def __init__(self, recipe: Recipe, folder: Path, note: Callable[[str], None], tested: bool = False) -> None:
        self.recipe = recipe
        learned, held_out = examples.learned_and_held_out(recipe, Pair, tested)
        texts = (text for pair in learned for text in (pair.source, pair.target))
        self.tokenizer = examples.tokenizer(recipe, texts, folder)
        self.learned = Sides(self, learned, recipe.data.longest, note)
        self.held_out = Sides(self, held_out[: recipe.judge.examples or None], recipe.data.longest, note)
        self.plan = lru_cache(maxsize=2)(self.planned)

    def new_model(self) -> Model:
        given = model_settings(self.recipe, self.tokenizer.size)
        return EncoderDecoder(settings(EncoderDecoderConfig, given, "the recipe's [model]"))

    def planned(self, epoch: int) -> list[np.ndarray]:
        return batches(self.learned.lengths, self.recipe.train.tokens, self.recipe.seed, epoch)

    def batches(self, epoch: int) -> int:
        return len(self.plan(epoch))

    def batch(self, epoch: int, position: int, part: slice) -> Batch:
        return self.learned.batch(self.plan(epoch)[position][part])

    def loss(self, model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.smoothed_loss(model, batch, self.recipe.train.smoothing)

    def smoothed_loss(self, model: Model, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
        assert isinstance(model, EncoderDecoder)
        padding = self.tokenizer.padding
        source = batch.tensors["source"]
        # Padding stands behind the target, where the causal mask hides it already: only the source needs a mask.
        hidden = model.hidden(source, batch.tensors["target"], source != padding).flatten(0, 1)
        return linear_cross_entropy(hidden, model.unembedding, batch.tensors["next"].flatten(), padding, smoothing)

    def judged(self, model: Model, note: Callable[[str], None]) -> Measures:
        plan = batches(self.held_out.lengths, self.recipe.train.tokens, 0, 0)
        loss = mean_loss(self.smoothed_loss(model, self.held_out.batch(rows), 0.0) for rows in plan)
        numbers = {"loss": loss, "perplexity": perplexity(loss)}
        if not self.recipe.judge.write:
            return Measures(numbers, "loss", higher_is_better=False)
        assert isinstance(model, EncoderDecoder)
        scores = translation_scores(model, self.tokenizer, self.held_out.pairs, self.recipe.judge.beams)
        numbers |= {"bleu": scores.bleu, "chrf": scores.chrf}
        return Measures(numbers, "bleu", higher_is_better=True, how=scores.signature)

    def save(self, model: Model, folder: Path) -> None:
        model.save_pretrained(folder, tokenizer=self.tokenizer)


class Sides:
    """Pairs as tokens, source and target."""

    def __init__(self, task: Translate, pairs: list[Pair], longest: int, note: Callable[[str], None]) -> None:
        self.tokenizer = task.tokenizer
        sources = examples.encoded(task.tokenizer, (pair.source for pair in pairs))
        targets = examples.encoded(task.tokenizer, (pair.target for pair in pairs))
        # One place more for the token that starts or ends a side.
        short = fitting(np.stack([sources.lengths, targets.lengths], axis=1) + 1, longest)
        if short.left_out:
            note(str(short))
        if not len(short.rows):
            raise Misfit(
                f"there should be pairs of at most {longest} tokens a side, but the shortest of {len(pairs)} has more;"
                " raise data.longest"
            )
        self.pairs = [pairs[row] for row in short.rows]
        self.sources, self.targets = sources.chosen(short.rows), targets.chosen(short.rows)

    @property
    def lengths(self) -> np.ndarray:
        return np.stack([self.sources.lengths, self.targets.lengths], axis=1) + 1

    def batch(self, rows: np.ndarray) -> Batch:
        """Source with its end, target behind its start, and what each target token should be followed by."""
        start, end, padding = self.tokenizer.start, self.tokenizer.end, self.tokenizer.padding
        tensors = {
            "source": padded(framed(self.sources, rows, after=[end]), padding),
            "target": padded(framed(self.targets, rows, before=[start]), padding),
            "next": padded(framed(self.targets, rows, after=[end]), padding),
        }
        return Batch(tensors, int(self.targets.lengths[rows].sum()) + len(rows))


def framed(
    texts: Ragged, rows: np.ndarray, before: list[int] | None = None, after: list[int] | None = None
) -> list[np.ndarray]:
    """Rows of tokens with what goes before and after each."""
    return [np.concatenate([before or [], texts[int(row)], after or []]).astype(np.int64) for row in rows]
