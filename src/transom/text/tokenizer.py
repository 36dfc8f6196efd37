"""Tokenizers: bytes (BPE), words and characters, trained, saved and loaded."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Engine

from transom.files.atomic_files import write_file
from transom.files.strict_settings import check_choice, parse_json_object
from transom.files.tokenizer_files import LARGEST, SETTINGS, TOKENIZER, read_settings, read_tokenizer_files
from transom.files.untrusted_files import decode_utf8
from transom.names import Misfit
from transom.text.case_marks import LABELS, MARKS, mark_case, restore_case
from transom.text.special_tokens import SPECIAL, Wrapping, find_named, find_own, find_wrapping
from transom.text.tokenizer_kinds import DIGIT, KINDS

MOST_TOKENS = 2**24
CONTRACTIONS = ("n't", "'m", "'s", "'ve", "'re")
# What transformers replaces in the text of a tokenizer with clean_up_tokenization_spaces, in this order.
CLEANED = [(f" {mark}", mark) for mark in ".?!,"] + [(" ' ", "'")] + [(f" {end}", end) for end in CONTRACTIONS]
# Byte-level BPE writes each byte as a character: a visible byte as itself, any other as one from 256 on.
VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES = {chr(byte): byte for byte in VISIBLE} | {
    chr(256 + i): byte for i, byte in enumerate(sorted(set(range(256)) - set(VISIBLE)))
}


class Tokenizer:
    """A vocabulary, and the rule that splits a text into its tokens.

    In Transom's own tokenizers a text is never read as a special token: `<s>` in it is three ordinary characters. One
    with a tokenizer_config.json, of another library, reads them as that library does.

    special     the special tokens, of all kinds
    settings    what tokenizer_config.json says; empty for Transom's own
    files       the content of tokenizer.json and of the files beside it, by name, if it was loaded from some
    """

    def __init__(
        self,
        engine: Engine,
        where: str = "the tokenizer",
        settings: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        engine.no_padding()
        engine.no_truncation()
        self.engine, self.settings, self.files = engine, settings or {}, dict(files or {})
        self.is_own = is_own = settings is None  # one of Transom's, not of another library
        engine.encode_special_tokens = is_own or bool(self.settings.get("split_special_tokens"))
        self.special_tokens = find_own(engine, where) if is_own else find_named(engine, self.settings, where)
        self.special, self.unknown = self.special_tokens.all, self.special_tokens.unknown
        self.tokens = list_tokens(engine, where, fill_gaps=not is_own)
        self.size = len(self.tokens)
        self.case = MARKS in split_patterns(engine)  # whether capitals are marks of their own
        with library_errors(f"{where} cannot read a text", "take another copy"):
            self.template = Wrapping() if is_own else find_wrapping(engine)

    @property
    def padding(self) -> int:
        """The padding token."""
        return self.special_tokens.require("padding")

    @property
    def start(self) -> int:
        """The token before the first one of a text."""
        return self.special_tokens.require("start")

    @property
    def end(self) -> int:
        """The token after the last one of a text."""
        return self.special_tokens.require("end")

    def wrapping(self, kind: str) -> Wrapping:
        """The special tokens around a text that a model of this kind (a row of `MODELS`) reads.

        A tokenizer of another library has a rule of its own. With ours, an encoder–decoder reads and writes an end.
        """
        if self.is_own and kind == "encoder_decoder":
            return Wrapping(after=(self.end,))
        return self.template

    def pair_wrappings(self) -> tuple[Wrapping, Wrapping]:
        """The special tokens around a source, and around its target, which has an end in any case."""
        wrap = self.wrapping("encoder_decoder")
        return wrap, wrap if wrap.after[-1:] == (self.end,) else Wrapping(wrap.before, (*wrap.after, self.end))

    def fill_up(self, vocabulary: int) -> None:
        """Give a model's further tokens names: some have more rows than their tokenizer has tokens."""
        self.tokens += [f"[{number}]" for number in range(self.size, vocabulary)]
        self.size = len(self.tokens)

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
        """A tokenizer from a tokenizer.json: Transom's, or another with the four special tokens, or another that has a
        tokenizer_config.json beside it."""
        return cls.from_files(read_tokenizer_files(Path(path)), Path(path))

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], path: Path) -> "Tokenizer":
        """A tokenizer from the content of its files; `path` is that of tokenizer.json, for messages."""
        content = decode_utf8(path, files[TOKENIZER])
        if "model" not in parse_json_object(content.encode(), str(path), LARGEST.document):
            raise Misfit(f"{path} should describe a tokenizer, but it has no model; name a tokenizer.json")
        with library_errors(f"{path} should describe a tokenizer, but it does not", "take another copy"):
            engine = Engine.from_str(content)
        if getattr(engine.model, "dropout", None) is not None:  # it would split the same text differently each time
            engine.model.dropout = None
        settings = read_settings(files, path.parent)
        return cls(engine, str(path if settings is None else path.parent / SETTINGS), settings, files)

    def save(self, path: Path | str) -> None:
        """Write it as a tokenizer.json, atomically; one of another library as it was read, with the files beside it."""
        path = Path(path)
        if self.is_own:
            write_file(path, self.engine.to_str(pretty=True).encode("utf-8"))
            return
        for name, content in self.files.items():
            write_file(path if name == TOKENIZER else path.parent / name, content)

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
        if self.settings.get("clean_up_tokenization_spaces") and not isinstance(self.engine.model, models.BPE):
            text = clean_up(text)
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


def list_tokens(engine: Engine, where: str, fill_gaps: bool = False) -> list[str]:
    """The tokens in the order of their ids; gaps are an error, or get names."""
    by_id = {token_id: token for token, token_id in engine.get_vocab().items()}
    last = max(by_id, default=-1)
    if fill_gaps and last < MOST_TOKENS:
        return [by_id.get(token_id, f"[{token_id}]") for token_id in range(last + 1)]
    if last != len(by_id) - 1:
        raise Misfit(f"{where} must number {len(by_id)} tokens without gaps, but the last is {last}; renumber")
    return [by_id[token_id] for token_id in range(last + 1)]


def clean_up(text: str) -> str:
    """A text without the spaces that a decoder of whole words puts before punctuation and contractions."""
    for spaced, joined in CLEANED:
        text = text.replace(spaced, joined)
    return text


def decode_bytes(token: str) -> str:
    """The text of a byte-level token."""
    if not set(token) <= BYTES.keys():  # an added token is written as it is
        return token
    return bytes(BYTES[character] for character in token).decode("utf-8", errors="backslashreplace")
