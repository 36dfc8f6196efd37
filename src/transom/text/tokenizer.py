"""Text to tokens and back, by the `tokenizers` library."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tokenizers import Tokenizer as Engine
from tokenizers import decoders, normalizers

from transom.files.documents import Malformed, decode_json
from transom.files.durable import write_file
from transom.files.outside import Limits, decoded, whole
from transom.files.strict import chosen
from transom.names import Misfit
from transom.text.kinds import KINDS, SPECIAL

LARGEST = Limits(document=2**26)  # bytes of a tokenizer.json; those of 250,000 tokens have about half of it
# The sign that byte-level BPE writes for each byte: itself where it can be seen, one from 256 on where it cannot.
SEEN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES = {chr(byte): byte for byte in SEEN} | {
    chr(256 + place): byte for place, byte in enumerate(sorted(set(range(256)) - set(SEEN)))
}


class Tokenizer:
    """A vocabulary, and the rule that cuts a text into it.

    A text is never read as a special token: `<s>` in it is three signs like any others.
    """

    def __init__(self, engine: Engine, where: str = "the tokenizer") -> None:
        engine.no_padding()
        engine.no_truncation()
        engine.encode_special_tokens = True
        self.engine, self.size = engine, engine.get_vocab_size()
        self.padding, self.start, self.end, self.unknown = (special_token(engine, token, where) for token in SPECIAL)
        self.special = frozenset((self.padding, self.start, self.end, self.unknown))
        self.tokens = listed(engine, where)

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], vocabulary: int, lowercase: bool = False) -> "Tokenizer":
        """A tokenizer of some kind (see `KINDS`) with the most useful `vocabulary` tokens of these texts, or fewer.

        The same texts give the same tokenizer.
        """
        chosen("kind", kind, KINDS)
        smallest = KINDS[kind].smallest
        if vocabulary < smallest:
            raise Misfit(
                f"a vocabulary of {kind} needs {smallest} tokens or more, but got {vocabulary}; give a larger number"
            )
        engine = KINDS[kind].engine()
        if lowercase:
            engine.normalizer = normalizers.Lowercase()  # pyright: ignore[reportAttributeAccessIssue]
        # An error inside the texts comes out of the library as it went in, so nothing is caught here.
        engine.train_from_iterator(some(texts), trainer=KINDS[kind].trainer(vocabulary))
        return cls(engine)

    @classmethod
    def load(cls, path: Path | str) -> "Tokenizer":
        """A tokenizer from a tokenizer.json, Transom's own or another's that has the four special tokens."""
        content = decoded(path, whole(path, LARGEST, "name a tokenizer.json"))
        check_object(path, content)
        with complaining(f"{path} should describe a tokenizer, but it does not", "take another copy"):
            engine = Engine.from_str(content)
        if getattr(engine.model, "dropout", None) is not None:  # it would cut the same text differently each time
            engine.model.dropout = None
        return cls(engine, str(path))

    def save(self, path: Path | str) -> None:
        """Write it as a tokenizer.json, under a temporary name first."""
        write_file(Path(path), self.engine.to_str(pretty=True).encode("utf-8"))

    @property
    def lowercase(self) -> bool:
        """Whether it knows small letters only, so that what it writes has no others."""
        return isinstance(self.engine.normalizer, normalizers.Lowercase)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special ones."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, on all cores."""
        check_many(texts)
        for text in texts:
            check_text(text)
        with complaining("the tokenizer cannot read a text", "train another one, or mend its file"):
            return [found.ids for found in self.engine.encode_batch_fast(list(texts), add_special_tokens=False)]

    def unknown_words(self, text: str) -> list[str]:
        """The pieces of a text that are in no token of the vocabulary, and are read as the unknown one."""
        if self.unknown not in self.encode(text):
            return []
        found = self.engine.encode(text, add_special_tokens=False)
        return [text[slice(*place)] for one, place in zip(found.ids, found.offsets, strict=True) if one == self.unknown]

    def decode(self, ids: Sequence[int]) -> str:
        """The text that tokens stand for; special ones are left out."""
        self.check_ids(ids)
        with complaining("the tokenizer cannot write these tokens", "train another one, or mend its file"):
            return self.engine.decode([token for token in ids if token not in self.special], skip_special_tokens=True)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each token stands for, to be shown: bytes that are no whole letter come as \\xe2."""
        self.check_ids(ids)
        by_byte = isinstance(self.engine.decoder, decoders.ByteLevel)
        return [
            of_bytes(self.tokens[token]) if by_byte and token not in self.special else self.tokens[token]
            for token in ids
        ]

    def check_ids(self, ids: Sequence[int]) -> None:
        # The library would leave out a token that it does not know.
        if len(ids) and not 0 <= min(ids) <= max(ids) < self.size:
            raise Misfit(
                f"the tokenizer knows tokens 0 to {self.size - 1}, but tokens {min(ids)} to {max(ids)} came;"
                " use the model it was saved with"
            )

    def __repr__(self) -> str:
        return f"Tokenizer({type(self.engine.model).__name__}, size={self.size})"


@contextmanager
def complaining(what: str, way_out: str) -> Iterator[None]:
    """Whatever the library makes of rules from outside as a Misfit.

    It raises bare Exceptions; where it panics, that is a BaseException without a public name.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise Misfit(f"{what}: {error}; {way_out}") from error


def some(texts: Iterable[str]) -> Iterator[str]:
    """The texts, each seen to be one, and at least one of them with something in it."""
    check_many(texts)
    anything = False
    for text in texts:
        check_text(text)
        anything = anything or bool(text.strip())
        yield text
    if not anything:
        raise Misfit("a tokenizer is trained on texts, but there was nothing in them; check the corpus")


def check_many(texts: Iterable[str]) -> None:
    if isinstance(texts, str):
        raise Misfit("texts must be many, but one string came; put it into a list")


def check_text(text: str) -> None:
    """A text is a string that can be written down."""
    if not isinstance(text, str):
        raise Misfit(f"a text must be a string, but a {type(text).__name__} came; read the file's text first")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Misfit(
                f"a text must be Unicode, but character {error.start} is half of a surrogate pair;"
                " decode it with errors='replace'"
            ) from error


def check_object(path: Path | str, content: str) -> None:
    """A tokenizer.json is one JSON object that has a model."""
    try:
        found = decode_json(content, most=LARGEST.document)
    except Malformed as error:
        raise Misfit(f"{path} should be JSON, but it cannot be read: {error}; take another copy") from error
    if not isinstance(found, dict) or "model" not in found:
        raise Misfit(f"{path} should describe a tokenizer, but it has no model; name a tokenizer.json")


def special_token(engine: Engine, token: str, where: str) -> int:
    found = engine.token_to_id(token)
    if found is None:
        raise Misfit(
            f"{where} must have the tokens {', '.join(SPECIAL)}, but {token} is missing;"
            " add it to the file, or train a tokenizer"
        )
    return found


def listed(engine: Engine, where: str) -> list[str]:
    """The tokens in the order of their ids, which have no gaps."""
    tokens = sorted((place, token) for token, place in engine.get_vocab().items())
    if [place for place, _ in tokens] != list(range(len(tokens))):
        raise Misfit(
            f"{where} must number its {len(tokens)} tokens from 0 without gaps, but the last one is {tokens[-1][0]};"
            " number them anew"
        )
    return [token for _, token in tokens]


def of_bytes(token: str) -> str:
    """The text of a byte-level token."""
    if not set(token) <= BYTES.keys():  # an added token is written as it is
        return token
    return bytes(BYTES[sign] for sign in token).decode("utf-8", errors="backslashreplace")
