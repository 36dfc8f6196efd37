"""Two models compared on the same examples: is one better, or is the difference chance? By paired bootstrap.

The examples are drawn again with replacement many times; what the models would have reached on each draw shows how far
the difference depends on which examples there happen to be (Koehn 2004, section 3).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from jaxtyping import Bool

from transom.names import Misfit

SAMPLES, SEED = 1000, 12345  # sacreBLEU's own numbers
PIECE = 2**22  # draws at once


@dataclass(frozen=True)
class Comparison:
    """A metric of two models, and how sure the difference is.

    p        the probability of a difference as large as this one, or larger, if both were equally good
    low, high   95 % of the drawn differences (second minus first) lie between; None if the library does not say
    """

    metric: str
    first: float
    second: float
    p: float
    low: float | None = None
    high: float | None = None
    samples: int = SAMPLES
    signature: str = ""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)

    def summary(self) -> str:
        between = "" if self.low is None else f", 95 % of draws between {self.low:+.4g} and {self.high:+.4g}"
        return (
            f"{self.metric}: {self.first:.4g} and {self.second:.4g}, difference {self.second - self.first:+.4g}"
            f"{between}, p = {self.p:.3g} ({self.samples} draws)"
        )


def compare_hits(
    first: Bool[np.ndarray, " any"], second: Bool[np.ndarray, " any2"], samples: int = SAMPLES, seed: int = SEED
) -> Comparison:
    """The accuracy of two models, from which of the same examples each has right.

    p is computed as sacreBLEU does (Riezler & Maxwell 2005, figure 1): the share of draws, shifted to a mean of zero,
    whose difference is at least as large as the one seen, with one added to both counts.
    """
    if len(first) != len(second) or not len(first):
        raise Misfit(f"both models need the same examples, but there are {len(first)} and {len(second)}; give the same")
    change = second.astype(np.int64) - first.astype(np.int64)
    rng, differences = np.random.default_rng(seed), np.empty(samples)
    step = max(1, PIECE // len(change))
    for start in range(0, samples, step):
        rows = rng.integers(0, len(change), (min(step, samples - start), len(change)))
        differences[start : start + len(rows)] = change[rows].mean(axis=1)
    seen = change.mean()
    # In whole hits, because a rounding error must not decide whether a draw is as large.
    drawn, hits = np.rint(differences * len(change)), float(change.sum())
    as_large = int((np.abs(drawn - drawn.mean()) >= abs(hits)).sum())
    low, high = np.quantile(differences, [0.025, 0.975])
    p = (as_large + 1) / (samples + 1)
    first_accuracy = float(first.mean())
    return Comparison("accuracy", first_accuracy, first_accuracy + float(seen), p, float(low), float(high), samples)


def compare_translations(
    first: Sequence[str],
    second: Sequence[str],
    targets: Sequence[Sequence[str]],
    lowercase: bool,
    samples: int = SAMPLES,
) -> list[Comparison]:
    """BLEU and chrF of two models' translations, by sacreBLEU's own paired bootstrap."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
        from sacrebleu.significance import PairedTest
    except ImportError as error:
        raise Misfit("BLEU is computed by sacrebleu, which is not installed; pip install 'transom[eval]'") from error
    columns: Any = [list(column) for column in zip_longest(*targets)]
    metrics: dict[str, Any] = {
        "BLEU": BLEU(lowercase=lowercase, references=columns),
        "chrF": CHRF(lowercase=lowercase, references=columns),
    }
    systems: Any = [("first", list(first)), ("second", list(second))]
    test = PairedTest(systems, metrics, None, test_type="bs", n_samples=samples)
    answers: tuple[Any, Any] = test()
    signatures, scores = answers
    return [
        Comparison(name.lower(), one.score, other.score, float(other.p_value), None, None, samples, str(signature))
        for (name, signature), (one, other) in zip(
            signatures.items(), (scores[name] for name in signatures), strict=True
        )
    ]
