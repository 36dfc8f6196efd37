"""Tokenizers: bytes (BPE), words and characters, trained, saved and loaded."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from transom.files.atomic_files import write_file
from transom.files.strict_settings import check_choice, parse_json_object
from transom.files.untrusted_files import Limits, decode_utf8, read_bytes
from transom.names import Misfit
from transom.text.case_marks import LABELS, MARKS, mark_case, restore_case

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
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
LARGEST = Limits(document=2**26)  # bytes of a tokenizer.json; one of 250,000 tokens has about half as many
# Byte-level BPE writes each byte as a character: a visible byte as itself, any other as one from 256 on.
VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES = {chr(byte): byte for byte in VISIBLE} | {
    chr(256 + i): byte for i, byte in enumerate(sorted(set(range(256)) - set(VISIBLE)))
}


class Tokenizer:
    """A vocabulary, and the rule that splits a text into its tokens.

    A text is never read as a special token: `<s>` in it is three ordinary characters.
    """

    def __init__(self, engine: Engine, where: str = "the tokenizer") -> None:
        engine.no_padding()
        engine.no_truncation()
        engine.encode_special_tokens = True
        self.engine, self.size = engine, engine.get_vocab_size()
        self.padding, self.start, self.end, self.unknown = (find_special(engine, token, where) for token in SPECIAL)
        self.special = frozenset((self.padding, self.start, self.end, self.unknown))
        self.tokens = list_tokens(engine, where)
        self.case = MARKS in split_patterns(engine)  # whether capitals are marks of their own

    @classmethod
    def train(
        cls,
        kind: str,
        texts: Iterable[str],
        vocabulary: int,
        lowercase: bool = False,
        case: bool = False,
        digits: bool = False,
    ) -> "Tokenizer":
        """A tokenizer of a kind in `KINDS` with at most `vocabulary` tokens; the same texts give the same tokenizer.

        lowercase   all text is lowercased, and stays so
        case        for "bpe": a word is the same token in every case, with a mark before it (`text/case_marks.py`)
        digits      for "bpe": every digit is a token
        """
        check_choice("kind", kind, KINDS)
        check_marks(kind, lowercase, case, digits)
        smallest = KINDS[kind].smallest
        if vocabulary < smallest:
            raise Misfit(f"a vocabulary of {kind} needs {smallest} tokens, but got {vocabulary}; give a larger number")
        engine = KINDS[kind].build_engine()
        if lowercase:
            engine.normalizer = normalizers.Lowercase()  # pyright: ignore[reportAttributeAccessIssue]
        patterns = [pattern for pattern, given in ((MARKS, case), (DIGIT, digits)) if given]
        if patterns:
            splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
            engine.pre_tokenizer = pre_tokenizers.Sequence([*splits, engine.pre_tokenizer])  # pyright: ignore
        # The library passes on an error that the iterator raises, so nothing is caught here.
        trainer = KINDS[kind].trainer(vocab_size=vocabulary, special_tokens=SPECIAL, show_progress=False)
        checked = check_texts(texts)
        engine.train_from_iterator(map(mark_case, checked) if case else checked, trainer=trainer)
        return cls(engine)

    @classmethod
    def load(cls, path: Path | str) -> "Tokenizer":
        """A tokenizer from a tokenizer.json, written by Transom or any other that has the four special tokens."""
        content = decode_utf8(path, read_bytes(path, LARGEST, "name a tokenizer.json"))
        if "model" not in parse_json_object(content.encode(), str(path), LARGEST.document):
            raise Misfit(f"{path} should describe a tokenizer, but it has no model; name a tokenizer.json")
        with library_errors(f"{path} should describe a tokenizer, but it does not", "take another copy"):
            engine = Engine.from_str(content)
        if getattr(engine.model, "dropout", None) is not None:  # it would split the same text differently each time
            engine.model.dropout = None
        return cls(engine, str(path))

    def save(self, path: Path | str) -> None:
        """Write it as a tokenizer.json, atomically."""
        write_file(Path(path), self.engine.to_str(pretty=True).encode("utf-8"))

    @property
    def lowercase(self) -> bool:
        """Whether all text is lowercased, so that decoded text has no capitals."""
        return isinstance(self.engine.normalizer, normalizers.Lowercase)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special ones."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, on all cores."""
        check_many(texts)
        for text in texts:
            check_text(text)
        if self.case:
            texts = [mark_case(text) for text in texts]
        with library_errors("the tokenizer cannot read a text", "train another one, or correct its file"):
            return [encoding.ids for encoding in self.engine.encode_batch_fast(list(texts), add_special_tokens=False)]

    def unknown_words(self, text: str) -> list[str]:
        """The parts of a text that are not in the vocabulary, and are read as the unknown token."""
        if self.unknown not in self.encode(text):
            return []
        encoding = self.engine.encode(text, add_special_tokens=False)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [text[start:end] for token, (start, end) in spans if token == self.unknown]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some tokens; special ones are left out."""
        self.check_ids(ids)
        with library_errors("the tokenizer cannot write these tokens", "train another one, or correct its file"):
            text = self.engine.decode([token for token in ids if token not in self.special], skip_special_tokens=True)
        return restore_case(text) if self.case else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token as text to show; bytes that are not a whole character come as \\xe2."""
        self.check_ids(ids)
        by_byte = isinstance(self.engine.decoder, decoders.ByteLevel)
        texts = [
            decode_bytes(self.tokens[token]) if by_byte and token not in self.special else self.tokens[token]
            for token in ids
        ]
        return [LABELS.get(text, text) for text in texts] if self.case else texts

    def check_ids(self, ids: Sequence[int]) -> None:
        # The library would silently leave out a token that it does not know.
        if len(ids) and not 0 <= min(ids) <= max(ids) < self.size:
            tokens = f"the tokenizer has tokens 0 to {self.size - 1}, but got {min(ids)} to {max(ids)}"
            raise Misfit(f"{tokens}; use the model it was saved with")

    def __repr__(self) -> str:
        return f"Tokenizer({type(self.engine.model).__name__}, size={self.size})"


@contextmanager
def library_errors(expected: str, way_out: str) -> Iterator[None]:
    """Any error of the `tokenizers` library as a Misfit.

    It raises bare Exceptions; a panic is a BaseException without a public name.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise Misfit(f"{expected}: {error}; {way_out}") from error


def check_texts(texts: Iterable[str]) -> Iterator[str]:
    """The texts, each checked; at least one must not be blank."""
    check_many(texts)
    blank = True
    for text in texts:
        check_text(text)
        blank = blank and not text.strip()
        yield text
    if blank:
        raise Misfit("a tokenizer is trained on texts, but these are empty; check the corpus")


def check_many(texts: Iterable[str]) -> None:
    if isinstance(texts, str):
        raise Misfit("texts must be a list, but got one string; put it into a list")


def check_text(text: str) -> None:
    """A text is a string that can be encoded."""
    if not isinstance(text, str):
        raise Misfit(f"a text must be a string, but got a {type(text).__name__}; read the file's text first")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Misfit(
                f"a text must be Unicode, but character {error.start} is half of a surrogate pair;"
                " decode it with errors='replace'"
            ) from error


def check_marks(kind: str, lowercase: bool, case: bool, digits: bool) -> None:
    """Marks and digits are for byte-level BPE; a text in lower case has no capitals to mark."""
    if kind != "bpe" and (case or digits):
        name = "case" if case else "digits"
        raise Misfit(f"{name}=True is for tokens of kind 'bpe', but the kind is {kind!r}; leave it out")
    if case and lowercase:
        raise Misfit("case=True marks capitals, but lowercase=True removes them; choose one")


def split_patterns(engine: Engine) -> list[str]:
    """The regular expressions by which an engine splits a text before anything else."""
    if engine.pre_tokenizer is None:
        return []
    table = parse_json_object(engine.pre_tokenizer.__getstate__(), "the tokenizer's pre_tokenizer", LARGEST.document)
    parts = table.get("pretokenizers", [table])
    patterns = [part.get("pattern") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [str(pattern["Regex"]) for pattern in patterns if isinstance(pattern, dict) and "Regex" in pattern]


def find_special(engine: Engine, token: str, where: str) -> int:
    token_id = engine.token_to_id(token)
    if token_id is None:
        raise Misfit(f"{where} must have {', '.join(SPECIAL)}, but {token} is missing; add it, or train a tokenizer")
    return token_id


def list_tokens(engine: Engine, where: str) -> list[str]:
    """The tokens in the order of their ids, which must have no gaps."""
    tokens = sorted((token_id, token) for token, token_id in engine.get_vocab().items())
    if [token_id for token_id, _ in tokens] != list(range(len(tokens))):
        raise Misfit(
            f"{where} must number {len(tokens)} tokens without gaps, but the last is {tokens[-1][0]}; renumber"
        )
    return [token for _, token in tokens]


def decode_bytes(token: str) -> str:
    """The text of a byte-level token."""
    if not set(token) <= BYTES.keys():  # an added token is written as it is
        return token
    return bytes(BYTES[character] for character in token).decode("utf-8", errors="backslashreplace")
