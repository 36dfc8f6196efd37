"""The kinds of tokenizers that can be trained: bytes (BPE), words, characters."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from transom.text.special_tokens import SPECIAL

# English contractions are split as in the Penn Treebank (do n't, it 's), as word vectors have them.
WORD = Regex(r"(?i)\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|m|d)\b|\w+|[^\w\s]")
CHARACTER = Regex(r"[\s\S]")
DIGIT = r"\d"


class TokenizerKind(NamedTuple):
    """How to build and train a tokenizer, and the smallest vocabulary it can have."""

    build_engine: Callable[[], Engine]
    trainer: Callable[..., trainers.Trainer]
    smallest: int


def build_bpe_engine() -> Engine:
    """Byte-level BPE (Radford et al. 2019, section 2.2): a text is a sequence of bytes, so nothing is unknown."""
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    engine.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    return engine


def build_list_engine(token: Regex, decoder: object | None) -> Engine:
    """Tokens are found by a regular expression and looked up in a list; one that is not listed is unknown."""
    engine = Engine(models.WordLevel(unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Split(token, "removed", invert=True)  # pyright: ignore[reportAttributeAccessIssue]
    if decoder is not None:
        engine.decoder = decoder  # pyright: ignore[reportAttributeAccessIssue]
    return engine


ALL_BYTES = pre_tokenizers.ByteLevel.alphabet()
KINDS = {
    "bpe": TokenizerKind(
        build_bpe_engine, partial(trainers.BpeTrainer, initial_alphabet=ALL_BYTES), len(SPECIAL) + len(ALL_BYTES)
    ),
    "words": TokenizerKind(partial(build_list_engine, WORD, None), trainers.WordLevelTrainer, len(SPECIAL) + 1),
    "characters": TokenizerKind(
        partial(build_list_engine, CHARACTER, decoders.Fuse()), trainers.WordLevelTrainer, len(SPECIAL) + 1
    ),
}
