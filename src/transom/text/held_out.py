"""Holding examples out for testing, so that no sentence is in both parts."""

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import astuple

from transom.names import Misfit
from transom.text.checks import check_numbers
from transom.text.examples import Some


def split(examples: Iterable[Some], held_out: float | int, seed: int) -> tuple[list[Some], list[Some]]:
    """The examples to learn from, and those held out; all that share a source sentence go the same way.

    held_out   a share between 0 and 1, or a whole number of different sentences

    The way a sentence goes depends on itself and the seed alone (and, for a whole number, on which others there are),
    never on its place in the file.
    """
    check_numbers(seed=seed)
    every = list(examples)
    sources = [sentence_key(astuple(example)[0]) for example in every]
    places = {source: place(source, seed) for source in set(sources)}
    border = held_out if isinstance(held_out, float) else counted_border(sorted(places.values()), held_out)
    learn = [example for example, source in zip(every, sources, strict=True) if places[source] >= border]
    test = [example for example, source in zip(every, sources, strict=True) if places[source] < border]
    if not learn or not test:
        raise Misfit(
            f"there must be examples of both kinds, but held_out={held_out} of {len(places)} different sentences leaves"
            f" {len(learn)} to learn from and {len(test)} to test with; choose another share, or a whole number"
        )
    return learn, test


def sentence_key(sentence: str) -> str:
    """What makes two sentences the same: case, white space and the Unicode form of a letter do not count."""
    return " ".join(unicodedata.normalize("NFKC", sentence).casefold().split())


def place(source: str, seed: int) -> float:
    """The number from 0 up to 1 that belongs to a sentence under a seed."""
    digest = hashlib.blake2b(f"{seed} {source}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def counted_border(places: list[float], count: int) -> float:
    """The border below which just `count` of these places lie."""
    return places[count] if 0 <= count < len(places) else float(count > 0)
