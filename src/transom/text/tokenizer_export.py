"""A tokenizer as the files that other libraries read."""

from typing import Any

import msgspec
from tokenizers import Tokenizer as Engine
from tokenizers import processors

from transom.files.tokenizer_files import BESIDE, SETTINGS, TOKENIZER
from transom.text.special_tokens import NAMES, Wrapping
from transom.text.tokenizer import Tokenizer

CLASS = "PreTrainedTokenizerFast"  # transformers' class for any tokenizer.json


def export_files(tokenizer: Tokenizer, kind: str, longest: int) -> dict[str, bytes]:
    """The files of a tokenizer for `transformers`, by their names.

    One of another library goes out as it came in. One of ours gets a tokenizer_config.json, and a rule that puts around
    a text what a model of this kind reads.
    """
    if not tokenizer.is_own:
        return {name: content for name, content in tokenizer.files.items() if name in (TOKENIZER, *BESIDE)}
    engine = Engine.from_str(tokenizer.engine.to_str())
    engine.post_processor = template(tokenizer, tokenizer.wrapping(kind))  # pyright: ignore[reportAttributeAccessIssue]
    settings: dict[str, Any] = {
        "tokenizer_class": CLASS,
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a text is never read as a special token
    }
    for role, names in NAMES.items():
        settings[names[0]] = tokenizer.tokens[tokenizer.special_tokens.require(role)]
    encoded = msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n"
    return {TOKENIZER: engine.to_str(pretty=True).encode("utf-8"), SETTINGS: encoded}


def template(tokenizer: Tokenizer, wrapping: Wrapping) -> processors.TemplateProcessing:
    """The rule that puts special tokens around a text."""
    names = [tokenizer.tokens[number] for number in (*wrapping.before, *wrapping.after)]
    before, after = names[: len(wrapping.before)], names[len(wrapping.before) :]
    numbers = [(tokenizer.tokens[number], number) for number in {*wrapping.before, *wrapping.after}]
    return processors.TemplateProcessing(single=[*before, "$A", *after], special_tokens=numbers)
