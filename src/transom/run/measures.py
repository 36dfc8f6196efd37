"""How good a model is on what it never saw."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from torch import Tensor

from transom.models import EncoderDecoder
from transom.names import Misfit
from transom.text.examples import Pair
from transom.text.held_out import sentence_key
from transom.text.tokenizer import Tokenizer


def mean_loss(sums: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The mean over all targets, from the sum and count of each batch."""
    total, count = 0.0, 0
    for loss, targets in sums:
        total, count = total + float(loss), count + int(targets)
    return total / max(1, count)


def accuracy(said: Int[Tensor, " any"], right: Int[Tensor, " any"]) -> float:
    return float((said == right).double().mean())


def macro_f1(said: Int[Tensor, " any"], right: Int[Tensor, " any"], labels: int) -> float:
    """The mean over the labels of F1 = 2·hits / (2·hits + misses + false alarms); 0 for a label never met or said."""
    found = []
    for label in range(labels):
        hits = int(((said == label) & (right == label)).sum())
        wrong = int(((said == label) ^ (right == label)).sum())
        found.append(2 * hits / max(1, 2 * hits + wrong))
    return sum(found) / max(1, len(found))


def references(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
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
    """What sacreBLEU says of translations, and under which settings: its signature goes with every figure."""

    bleu: float
    chrf: float
    signature: str


def translation_scores(
    model: EncoderDecoder, tokenizer: Tokenizer, pairs: Sequence[Pair], beams: int
) -> TranslationScores:
    """Of the model's translations, against all targets that a source has.

    A model that knows small letters only is judged in small letters; the signature tells.
    """
    from transom.run.texts import translated

    sources, targets = references(pairs)
    return scores_of(translated(model, tokenizer, sources, beams), targets, tokenizer.lowercase)


def scores_of(said: Sequence[str], targets: Sequence[Sequence[str]], lowercase: bool = False) -> TranslationScores:
    """BLEU and chrF of what was said; each has one target or more."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise Misfit("BLEU is computed by sacrebleu, which is not installed; pip install 'transom[eval]'") from error
    most = max(map(len, targets), default=1)
    # sacreBLEU takes references in columns; where a sentence has fewer, None fills the gap.
    columns: Any = [[one[place] if place < len(one) else None for one in targets] for place in range(most)]
    bleu, chrf = BLEU(lowercase=lowercase), CHRF(lowercase=lowercase)
    found = bleu.corpus_score(list(said), columns), chrf.corpus_score(list(said), columns)
    return TranslationScores(found[0].score, found[1].score, str(bleu.get_signature()))
