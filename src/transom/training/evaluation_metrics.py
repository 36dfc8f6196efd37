"""Evaluation metrics: mean loss, BLEU, chrF, repetition loops, accuracy, F1."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from jaxtyping import Int
from torch import Tensor

from transom.models import EncoderDecoder
from transom.names import Misfit
from transom.text.corpora import Pair
from transom.text.holdout_split import sentence_key
from transom.text.repetition import count_loops
from transom.text.tokenizer import Tokenizer
from transom.training.inference import translate


def mean_loss(batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The mean over all targets, from the sum of losses and the number of targets of each batch."""
    total, count = 0.0, 0
    for loss, targets in batches:
        total, count = total + float(loss), count + int(targets)
    return total / max(1, count)


def accuracy(predicted: Int[Tensor, " any"], right: Int[Tensor, " any"]) -> float:
    return float((predicted == right).double().mean())


def macro_f1(predicted: Int[Tensor, " any"], right: Int[Tensor, " any"], labels: int) -> float:
    """The mean over the labels of F1 = 2·hits / (2·hits + misses + false alarms); 0 for a label that never occurs."""
    scores = []
    for label in range(labels):
        hits = int(((predicted == label) & (right == label)).sum())
        wrong = int(((predicted == label) ^ (right == label)).sum())
        scores.append(2 * hits / max(1, 2 * hits + wrong))
    return sum(scores) / max(1, len(scores))


def group_references(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
    """Each different source once, with all its targets."""
    targets: dict[str, list[str]] = {}
    sources: dict[str, str] = {}
    for pair in pairs:
        key = sentence_key(pair.source)
        sources.setdefault(key, pair.source)
        targets.setdefault(key, []).append(pair.target)
    return list(sources.values()), list(targets.values())


@dataclass(frozen=True)
class TranslationScores:
    """BLEU, chrF, sacreBLEU's signature, which names the settings, and how many translations repeat themselves."""

    bleu: float
    chrf: float
    signature: str
    loops: int = 0
    translations: tuple[str, ...] = ()
    targets: tuple[tuple[str, ...], ...] = ()


def translation_scores(
    model: EncoderDecoder, tokenizer: Tokenizer, pairs: Sequence[Pair], beams: int
) -> TranslationScores:
    """Scores of the model's translations against all targets of each source, in lower case if the tokenizer is."""
    sources, targets = group_references(pairs)
    translations = translate(model, tokenizer, sources, beams)
    scores = score_translations(translations, targets, tokenizer.lowercase)
    lists = {"translations": tuple(translations), "targets": tuple(map(tuple, targets))}
    return replace(scores, loops=count_loops(sources, translations), **lists)


def score_translations(
    translations: Sequence[str], targets: Sequence[Sequence[str]], lowercase: bool = False
) -> TranslationScores:
    """BLEU and chrF of translations, each with one target or more."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise Misfit("BLEU is computed by sacrebleu, which is not installed; pip install 'transom[eval]'") from error
    # sacreBLEU takes references in columns, with None for a sentence that has fewer.
    columns: Any = [list(column) for column in zip_longest(*targets)]
    bleu, chrf = BLEU(lowercase=lowercase), CHRF(lowercase=lowercase)
    bleu_score, chrf_score = (metric.corpus_score(list(translations), columns).score for metric in (bleu, chrf))
    return TranslationScores(bleu_score, chrf_score, str(bleu.get_signature()))
