"""Splitting examples into training and test sets that share no sentence."""

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import astuple

from transom.files.strict_settings import check_at_least
from transom.names import Misfit
from transom.text.corpora import Example


def split_examples(
    examples: Iterable[Example], held_out: float | int, seed: int
) -> tuple[list[Example], list[Example]]:
    """The training examples, and those held out; all examples with the same source sentence go to the same side.

    held_out   a share between 0 and 1, or a number of different sentences

    The side depends only on the sentence and the seed (for a number also on the other sentences), never on the
    position in the file.
    """
    check_at_least(0, seed=seed)
    examples = list(examples)
    sources = [sentence_key(astuple(example)[0]) for example in examples]
    hashes = {source: sentence_hash(source, seed) for source in set(sources)}
    border = held_out if isinstance(held_out, float) else border_for(sorted(hashes.values()), held_out)
    train = [example for example, source in zip(examples, sources, strict=True) if hashes[source] >= border]
    test = [example for example, source in zip(examples, sources, strict=True) if hashes[source] < border]
    if not train or not test:
        raise Misfit(
            f"both sides need examples, but held_out={held_out} of {len(hashes)} different sentences leaves"
            f" {len(train)} to train on and {len(test)} to test with; choose another share, or a whole number"
        )
    return train, test


def sentence_key(sentence: str) -> str:
    """A sentence without what does not make it another one: case, white space and the Unicode form of its letters."""
    return " ".join(unicodedata.normalize("NFKC", sentence).casefold().split())


def sentence_hash(source: str, seed: int) -> float:
    """A number from 0 up to 1, the same for the same sentence and seed."""
    digest = hashlib.blake2b(f"{seed} {source}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def border_for(hashes: list[float], count: int) -> float:
    """The number below which exactly `count` of these sorted hashes lie."""
    return hashes[count] if 0 <= count < len(hashes) else float(count > 0)
