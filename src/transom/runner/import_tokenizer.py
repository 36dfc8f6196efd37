"""The tokenizer of a Hugging Face folder, with the same tokens and texts as `transformers` gives."""

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transom.files.tokenizer_files import BESIDE, TOKENIZER, read_tokenizer_files
from transom.names import Misfit
from transom.runner.pretrained import errors_as_misfit, load_pretrained

if TYPE_CHECKING:
    from transom.text.special_tokens import Wrapping
    from transom.text.tokenizer import Tokenizer


class ImportedTokenizer(NamedTuple):
    """A tokenizer, and what there is to say about how it was made."""

    tokenizer: "Tokenizer"
    notes: list[str]


def import_tokenizer(folder: Path) -> ImportedTokenizer:
    """The tokenizer of a folder; its files stay as they are where transformers reads the same from them.

    Where it does not (some of its classes build a tokenizer of their own), or where there is no tokenizer.json, what
    transformers makes of the folder is taken. Without transformers, tokenizer.json is taken as it is.
    """
    from transom.text.tokenizer import Tokenizer

    has_file = (folder / TOKENIZER).is_file()
    plain = Tokenizer.load(folder / TOKENIZER) if has_file else None
    if find_spec("transformers") is None:
        if plain is None:
            raise Misfit(
                f"{folder} has no {TOKENIZER}, and to make one of its other files needs the extra hf; install it with"
                " pip install 'transom[hf]'"
            )
        return ImportedTokenizer(plain, ["transformers is not installed, so its tokens were not compared"])
    if plain is not None and plain.case:  # it was exported by Transom
        return ImportedTokenizer(plain, [])
    theirs = load_pretrained("AutoTokenizer", str(folder), "have a tokenizer")
    if plain is not None and find_difference(plain, theirs) is None and plain.special_tokens == roles_of(plain, theirs):
        return ImportedTokenizer(plain, [])
    if not getattr(theirs, "is_fast", False):
        raise Misfit(
            f"{folder} has a {type(theirs).__name__}, which is no {TOKENIZER} but Python with files of its own, and"
            " Transom cannot read text in the same way; convert it to a tokenizer.json"
        )
    made = make_files(folder, theirs)
    difference = find_difference(made, theirs)
    if difference is not None:
        raise Misfit(f"{folder} cannot be tokenised as by transformers: {difference}; take another model")
    reason = f"its {TOKENIZER} alone reads text otherwise" if has_file else f"it has no {TOKENIZER}"
    return ImportedTokenizer(made, [f"{reason}: the tokenizer is as transformers makes it ({type(theirs).__name__})"])


def make_files(folder: Path, theirs: Any) -> "Tokenizer":
    """A tokenizer of transformers as files, and loaded from them."""
    from transom.text.tokenizer import Tokenizer

    with tempfile.TemporaryDirectory() as made, errors_as_misfit(str(folder), "have a tokenizer"):
        theirs.save_pretrained(made)
        files = read_tokenizer_files(Path(made) / TOKENIZER)
    return Tokenizer.from_files(
        {name: files[name] for name in (TOKENIZER, *BESIDE) if name in files}, folder / TOKENIZER
    )


def find_difference(ours: "Tokenizer", theirs: Any, wrapping: "Wrapping | None" = None) -> str | None:
    """The first text that the two tokenizers read or write differently, in words; None if there is none."""
    from transom.text.gguf_tokenizer_fields import PROBES

    wrapping = ours.template if wrapping is None else wrapping
    for text in PROBES:
        expected = list(theirs(text)["input_ids"])
        found = wrapping.wrap(ours.encode(text))
        if found != expected:
            return f"{text!r} is {expected[:8]}… there, and {found[:8]}… here"
        written = theirs.decode(expected, skip_special_tokens=True)
        if ours.decode(found) != written:
            return f"the tokens of {text!r} are written {written!r} there, and {ours.decode(found)!r} here"
    return None


def roles_of(ours: "Tokenizer", theirs: Any) -> Any:
    """The special tokens of transformers' tokenizer, as ours would have them."""
    from transom.text.special_tokens import NAMES

    numbers = {}
    for role, names in NAMES.items():
        found = (getattr(theirs, f"{name}_id") for name in names if getattr(theirs, name) is not None)
        numbers[role] = next(found, None)
    named = {number for number in numbers.values() if number is not None}
    return type(ours.special_tokens)(**numbers, all=ours.special_tokens.all | named)
