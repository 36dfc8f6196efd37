"""Pairs for recipes/shorten/shorten.toml: English sentences, and the same shortened by rule.

    python recipes/shorten/make_pairs.py PATH/en-fr.tsv.gz out/shorten.tsv

The rules, each applied if it leaves at least three words: a clause at the start that ends with a comma goes (When it
rained, …), so does a clause at the end (… because it rained) and an insertion (…, my neighbour, …), and so do words
that say how much or how surely (very, really, I think that). A third of the pairs are sentences that the rules
shorten, a third are made of two sentences so that several rules meet (I think that … because …), and in a third two
sentences follow each other and the first is kept: it stands for the title. The seed is 7; the same file gives the same
pairs.
"""

import random
import re
import sys
from pathlib import Path

from transom.files.atomic_files import write_file
from transom.text.augmentation import find_proper_words, lower_first
from transom.text.corpora import Pair, read_tsv

SEED, COUNT, FEWEST = 7, 60_000, 3
STARTS = r"(?:When|If|Although|Though|Because|Since|As|While|After|Before|Unless|Once|In fact|However|Unfortunately)"
ENDS = r"(?:because|although|though|when|while|since|unless|until|before|after|if|so that|as soon as|even though)"
OPINIONS = r"(?:I think|I believe|I know|I'm sure|It seems|I hope|I guess|I suppose)"
SUBJECTS = r"(?:I|you|he|she|it|we|they|this|the|there|Tom|Mary|my|your|his|her|our)"
FILLERS = r"(?:very|really|just|quite|actually|simply|certainly|probably|definitely|extremely|completely)"
STARTING = ("I think that", "I think", "I believe that", "I know that", "It seems that", "I hope", "")
BETWEEN = ("because", "although", "when", "while", "since", "until", "after", "before", "if", "as soon as")
RULES = (
    (re.compile(rf"^{STARTS}\b[^,.?!]*, "), ""),
    (re.compile(rf",? {ENDS} [^,?!]*(?=[.?!]$)"), ""),
    (re.compile(r", (?!and|but|or|please)[^,.?!]+, "), " "),
    (re.compile(rf"^{OPINIONS}(?: that)? (?={SUBJECTS}\b)"), ""),
    (re.compile(rf" {FILLERS}\b"), ""),
)


def shorten(sentence: str) -> str:
    """A sentence after each rule that leaves enough of it."""
    for pattern, other in RULES:
        shorter = pattern.sub(other, sentence)
        if len(shorter.split()) >= FEWEST:
            sentence = shorter[0].upper() + shorter[1:]
    return sentence


def combine(first: str, second: str, proper: frozenset[str], rng: random.Random) -> str:
    """A statement with another one after it, and often an opinion before it."""
    start, between = rng.choice(STARTING), rng.choice(BETWEEN)
    opening = f"{start} {lower_first(first[:-1], proper)}" if start else first[:-1]
    return f"{opening} {between} {lower_first(second, proper)}"


def make_pairs(sentences: list[str]) -> list[Pair]:
    """A third are sentences that the rules shorten, a third two sentences in one, a third two one after another."""
    rng, part = random.Random(SEED), COUNT // 3
    order = sorted(sentences, key=lambda _: rng.random())
    shortened = [Pair(sentence, shorten(sentence)) for sentence in order]
    singles = [pair for pair in shortened if pair.source != pair.target][:part]
    statements = [sentence for sentence in order if sentence.endswith(".")]
    proper = find_proper_words(Pair(sentence, "") for sentence in sentences)
    combined = [combine(rng.choice(statements), rng.choice(statements), proper, rng) for _ in range(part)]
    firsts, seconds = shortened[:part], order[-part:]
    doubles = [Pair(f"{pair.source} {second}", pair.target) for pair, second in zip(firsts, seconds, strict=True)]
    return [*singles, *(Pair(text, shorten(text)) for text in combined), *doubles]


def main() -> None:
    """Read the corpus, write the pairs."""
    source, target = sys.argv[1:]
    sentences = dict.fromkeys(pair.source for pair in read_tsv(source, [0, 1], Pair))
    plain = [text for text in sentences if re.fullmatch(r"[A-Z][^\"\t]*[.?!]", text) and 4 <= len(text.split()) <= 20]
    pairs = make_pairs(plain)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    write_file(Path(target), "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs).encode())
    before, after = (sum(len(getattr(pair, side).split()) for pair in pairs) for side in ("source", "target"))
    print(f"{len(pairs)} pairs; {after / before:.0%} of the words are kept")


if __name__ == "__main__":
    main()
