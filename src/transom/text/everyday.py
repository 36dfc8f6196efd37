"""Everyday sentences of several kinds, each with a check of its translation that needs no reference corpus.

A file has three columns: kind, sentence, check. A check is

    = translation | translation     one of these, whatever its case and punctuation
    ~ a|b; c                        all of these parts, each in one of its forms: here a or b, and c
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transom.files.untrusted_files import read_numbered_lines, require_file
from transom.names import Misfit
from transom.text.repetition import has_repetition_loop

HEADER = ["kind", "english", "check"]
SHORT = 3  # letters; a part of so few must be a whole word, a longer one may be the beginning of a word


@dataclass(frozen=True)
class EverydaySentence:
    """A sentence, its kind, and what its translation must be or have."""

    kind: str
    source: str
    accepted: tuple[str, ...]  # whole translations, any of them
    parts: tuple[tuple[str, ...], ...]  # any form of each

    def accepts(self, translation: str) -> bool:
        """Whether a translation passes: an accepted one, or all parts, not over twice as long, without a loop."""
        words = normalize(translation)
        if self.accepted:
            return words in map(normalize, self.accepted)
        if len(words.split()) > 2 * len(normalize(self.source).split()) + 4 or has_repetition_loop(translation):
            return False
        return all(any(has_part(translation, form) for form in forms) for forms in self.parts)


def normalize(text: str) -> str:
    """The words of a text in lower case, with one space between them; apostrophes and hyphens separate words."""
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def has_part(translation: str, form: str) -> bool:
    """Whether a translation has a word or words; a form with symbols, such as 😀 or a@b.org, is looked up as it is."""
    words = normalize(form)
    if re.sub(r"[\s'’-]+", " ", form.casefold()) != words:
        return form.casefold() in translation.casefold()
    text = f" {normalize(translation)} "
    return f" {words} " in text if len(words) <= SHORT else f" {words}" in text


def read_everyday(path: Path | str) -> list[EverydaySentence]:
    """The sentences of a file; its first line names the columns."""
    sentences: list[EverydaySentence] = []
    for number, line in read_numbered_lines(require_file(path)):
        columns = line.split("\t")
        if number == 1 and columns == HEADER:
            continue
        if number == 1 or len(columns) != len(HEADER) or columns[2][:2] not in ("= ", "~ "):
            raise Misfit(
                f"{path}, line {number}: expected {', '.join(HEADER)} with tabs between them, and a check that starts"
                " with = or ~, but the line is another; see docs/training.md"
            )
        kind, source, check = columns
        forms = [tuple(form.strip() for form in part.split("|")) for part in check[2:].split(";")]
        accepted, parts = (forms[0], ()) if check[0] == "=" else ((), tuple(forms))
        sentences.append(EverydaySentence(kind, source, accepted, parts))
    return sentences


def rates_by_kind(sentences: Sequence[EverydaySentence], translations: Sequence[str]) -> dict[str, tuple[int, int]]:
    """How many translations pass, and how many there are, of each kind in the order of the file."""
    passed: Counter[str] = Counter()
    for sentence, translation in zip(sentences, translations, strict=True):
        passed[sentence.kind] += sentence.accepts(translation)
    counts = Counter(sentence.kind for sentence in sentences)
    return {kind: (passed[kind], count) for kind, count in counts.items()}


def list_failures(
    sentences: Iterable[EverydaySentence], translations: Iterable[str]
) -> list[tuple[EverydaySentence, str]]:
    """The sentences whose translation does not pass, with that translation."""
    pairs = zip(sentences, translations, strict=True)
    return [(sentence, translation) for sentence, translation in pairs if not sentence.accepts(translation)]
