"""Splitting examples into training and test sets that share no sentence."""

import hashlib
import heapq
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


class SmallestHashes:
    """The smallest different hashes of a stream of sentences, in memory for `count` of them only."""

    def __init__(self, count: int) -> None:
        self.count, self.heap = count, list[tuple[float, float]]()  # negative, so that the largest goes first
        self.kept: set[float] = set()

    def add(self, value: float, tag: float = 0.0) -> None:
        """Add a hash, with a number that stays beside it."""
        if value in self.kept or (len(self.heap) == self.count and value > -self.heap[0][0]):
            return
        self.kept.add(value)
        if len(self.heap) < self.count:
            heapq.heappush(self.heap, (-value, tag))
        else:
            self.kept.remove(-heapq.heapreplace(self.heap, (-value, tag))[0])

    def sorted(self) -> list[tuple[float, float]]:
        """Each hash with its tag, the smallest first."""
        return sorted((-value, tag) for value, tag in self.heap)


class HoldoutBorders:
    """The split of `split_examples`, first into test and rest, then into held-out and train, found in one pass.

    After `add` had every sentence, `border` has the two numbers below which a sentence's hashes put it aside. They are
    the borders that two calls of `split_examples` would find, without all sentences in memory.
    """

    def __init__(self, test: int, held_out: int, seed: int) -> None:
        check_at_least(0, seed=seed, test=test, held_out=held_out)
        self.test, self.held_out, self.seed = test, held_out, seed
        self.of_test = SmallestHashes(test + 1)
        # A test sentence may be among the smallest for held_out as well, so as many more are kept.
        self.of_held_out = SmallestHashes(test + held_out + 1)

    def hashes(self, sentence: str) -> tuple[float, float]:
        source = sentence_key(sentence)
        return sentence_hash(source, self.seed), sentence_hash(source, self.seed + 1)

    def add(self, sentence: str) -> None:
        test, held_out = self.hashes(sentence)
        self.of_test.add(test)
        self.of_held_out.add(held_out, test)

    @property
    def borders(self) -> tuple[float, float]:
        test = border_for([value for value, _ in self.of_test.sorted()], self.test)
        rest = [value for value, tag in self.of_held_out.sorted() if tag >= test]
        return test, border_for(rest, self.held_out)

    def side(self, sentence: str, borders: tuple[float, float]) -> str:
        """`train`, `held_out` or `test`."""
        test, held_out = self.hashes(sentence)
        return "test" if test < borders[0] else "held_out" if held_out < borders[1] else "train"
