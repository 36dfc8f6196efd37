"""The results that `bench.results` reproduces: recipe, data files, measure, and the published figure."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from bench.peers.environment import ROOT
from bench.questions import induction

RECIPES = ROOT / "recipes"
TOKENISED = "BLEU over Moses' tokens"
Curves = dict[str, list[tuple[int, float]]]


@dataclass(frozen=True)
class ResultFigures:
    """The figures of a result: measures and how they were taken, seconds of training, curves and how to read them."""

    measures: dict[str, float]
    signature: str
    seconds: float
    threads: int
    curves: Curves
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """A recipe or a command, the files it trains and is evaluated on, and the published figure."""

    what: str
    recipe: str
    judged_on: str
    measure: str
    published: str
    files: dict[str, str | tuple[str, str]] = field(default_factory=dict)
    final_files: dict[str, str | tuple[str, str]] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    beams: int = 4
    level: float | None = None  # the published final loss: a line across the curve
    also: tuple[str, ...] = ()  # further measures in the table
    moses: str = ""  # the language of the translations, if the published BLEU is over Moses' tokens
    work: Callable[[], ResultFigures] | None = None  # if there is no recipe


def multi30k_files(name: str) -> tuple[str, str]:
    return f"multi30k/{name}.en.gz", f"multi30k/{name}.de.gz"


def run_induction() -> ResultFigures:
    """Train two layers of attention, and one, on repeated sequences: the question `induction` of the bench."""
    begun = time.perf_counter()
    found = induction.measure()
    measures = {
        "accuracy": found["two layers"],
        "accuracy of one layer": found["one layer"],
        "highest induction": max(row["induction"] for row in found["heads"]),
        "highest previous": max(row["previous"] for row in found["heads"]),
    }
    course = {
        word: [(step["update"], round(step[word], 4)) for step in found["course"]]
        for word in ("loss", "previous", "induction")
    }
    notes = (
        "Loss in nats a token; of the strongest head, the weight on the token before and on what followed a copy.",
    )
    return ResultFigures(measures, "", time.perf_counter() - begun, torch.get_num_threads(), course, notes)


RESULTS = {
    "shakespeare_char": Result(
        "characters of tiny Shakespeare, 4 layers of 128",
        "recipes/shakespeare_char.toml",
        "the last tenth, all of it once",
        "loss",
        "1.88, nanoGPT's README",
        {"data.train": "tinyshakespeare/input.txt"},
        level=1.88,
    ),
    "shakespeare_large": Result(
        "characters of tiny Shakespeare, 6 layers of 384, for an hour",
        "recipes/shakespeare_large.toml",
        "the last tenth, all of it once",
        "loss",
        "1.4697 after 5,000 updates, nanoGPT's README",
        {"data.train": "tinyshakespeare/input.txt"},
        level=1.4697,
    ),
    "multi30k": Result(
        "Multi30k, English to German, Transformer-Tiny",
        "recipes/multi30k.toml",
        "test2016, 1,000 captions, beam 5, lower case",
        "bleu",
        "41.02 (tokenised), Wu et al. 2021",
        {"data.train": multi30k_files("train"), "data.valid": multi30k_files("val")},
        {"data.valid": multi30k_files("test_2016_flickr")},
        beams=5,
        also=(TOKENISED,),
        moses="de",
    ),
    "en-fr": Result(
        "Tatoeba, English to French: the translator that comes along",
        "recipes/en-fr.toml",
        "2,000 distinct English sentences, all their translations, beam 4",
        "bleu",
        "none",
        {"data.train": "tatoeba-en-fr/en-fr.tsv.gz"},
    ),
    "sst2": Result(
        "film reviews, good or bad, from nothing",
        "recipes/sst2.toml",
        "SST-2 dev, 872 sentences, one seed",
        "accuracy",
        "0.80–0.81, bags of words",
        {"data.train": "sst2/train.txt"},
        {"data.valid": "sst2/dev.txt"},
    ),
    "sst2-glove": Result(
        "film reviews, good or bad, from GloVe's vectors of 50 numbers",
        "recipes/sst2-glove.toml",
        "SST-2 dev, 872 sentences, one seed",
        "accuracy",
        "0.80–0.81, bags of words",
        {"data.train": "sst2/train.txt", "vectors.file": "glove/glove.6B.50d.txt"},
        {"data.valid": "sst2/dev.txt"},
    ),
    "sst2-minilm": Result(
        "film reviews, good or bad, by fine-tuning MiniLM",
        "recipes/sst2-minilm.toml",
        "SST-2 dev, 872 sentences, one seed",
        "accuracy",
        "none from these 6,920 sentences alone",
        {"data.train": "sst2/train.txt", "start.model": "all-MiniLM-L6-v2"},
        {"data.valid": "sst2/dev.txt"},
        also=("f1",),
    ),
    "stories-lora": Result(
        "a writer of children's stories, stories15M, learns an older style by LoRA",
        "recipes/stories-lora.toml",
        "the last tenth of a book of 1918, all of it once",
        "perplexity",
        "178.4 before, by the same command",
        {"data.train": "gutenberg/bryant.txt", "start.model": "stories15M"},
        also=("loss",),
    ),
    "digits": Result(
        "which digit is in a small picture; its 32 patches are the tokens",
        "recipes/digits.toml",
        "800 pictures that training did not see",
        "accuracy",
        "none, the pictures are drawn by a script",
        {"data.train": "digits/pictures.tsv"},
        also=("f1",),
    ),
    "reference": Result(
        "280 pairs of simple sentences, English to French, 300 updates",
        "recipes/reference.toml",
        "the translations of 10 held-out sentences, beam 4",
        "bleu",
        "none",
        settings=(f"data.train={RECIPES}/reference.tsv", "train.updates=300"),
    ),
    "reverse": Result(
        "up to six letters backwards",
        "recipes/reverse.toml",
        "100 held-out pairs, beam 4",
        "bleu",
        "none",
        settings=(f"data.train={RECIPES}/reverse.tsv",),
    ),
    "induction": Result(
        "two layers of attention alone go on with what is repeated",
        "python -m bench induction",
        "64 sequences that no training saw",
        "accuracy",
        "a cliff in the loss, a head above 0.9, one layer fails; Olsson et al. 2022",
        also=("accuracy of one layer", "highest induction"),
        work=run_induction,
    ),
}
