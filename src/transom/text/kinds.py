"""The kinds of tokenizer: what a token is, and how a vocabulary of them is found in a corpus."""

from collections.abc import Callable
from typing import NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
# English contractions come apart as in the Penn Treebank (do n't, it 's), because word vectors have them so.
WORD = Regex(r"(?i)\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|m|d)\b|\w+|[^\w\s]")
CHARACTER = Regex(r"[\s\S]")


class Kind(NamedTuple):
    """How to build one, how to train it, and the smallest vocabulary it can have."""

    engine: Callable[[], Tokenizer]
    trainer: Callable[[int], trainers.Trainer]
    smallest: int


def bytes_engine() -> Tokenizer:
    """Byte-level BPE (Radford et al. 2019, section 2.2): every text is some bytes, so none is unknown."""
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    engine.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    return engine


def bytes_trainer(vocabulary: int) -> trainers.Trainer:
    return trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )


def listed_engine(token: Regex, decoder: object | None) -> Tokenizer:
    """Tokens cut out of the text by a rule and looked up in a list; what is not listed is unknown."""
    engine = Tokenizer(models.WordLevel(unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Split(token, "removed", invert=True)  # pyright: ignore[reportAttributeAccessIssue]
    if decoder is not None:
        engine.decoder = decoder  # pyright: ignore[reportAttributeAccessIssue]
    return engine


def listed_trainer(vocabulary: int) -> trainers.Trainer:
    return trainers.WordLevelTrainer(vocab_size=vocabulary, special_tokens=SPECIAL, show_progress=False)


KINDS = {
    "bpe": Kind(bytes_engine, bytes_trainer, len(SPECIAL) + 256),
    "words": Kind(lambda: listed_engine(WORD, None), listed_trainer, len(SPECIAL) + 1),
    "characters": Kind(lambda: listed_engine(CHARACTER, decoders.Fuse()), listed_trainer, len(SPECIAL) + 1),
}
