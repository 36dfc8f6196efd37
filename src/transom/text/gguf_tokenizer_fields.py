"""A tokenizer as the metadata of a GGUF file: what `gguf_tokenizer.py` reads, the other way round."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transom.files.documents import decode_json
from transom.files.tokenizer_files import read_chat_template
from transom.text.gguf_tokenizer import CONTROL, NAMES, SPLITS, USER_DEFINED, load_gguf_tokenizer
from transom.text.special_tokens import NAMES as ROLES
from transom.text.tokenizer import Tokenizer

NORMAL, UNKNOWN, UNUSED, BYTE = 1, 2, 5, 6  # further types of tokens
NONE = {"tokenizer.ggml.model": "none"}
# Texts on which two tokenizers that differ will mostly differ: spaces, lines, digits, marks, capitals, other scripts.
PROBES = (
    "Hello, World!  Two spaces, it's 3.14 or 1,250; don't.",
    " a leading space and a trailing one ",
    "two\nlines\n\n\tand a tab",
    "Ça coûte 20 € à Zürich… “naïve” – ﬁne Ⅳ",
    "日本語の文 и русский текст, العربية 😀",
    "x",
    "1234567 A1b2 I'M DON'T  \r\n\n  \t x \n",
    "<s> [SEP] </s> <|endoftext|> [MASK]",
)


def gguf_fields(tokenizer: Tokenizer, vocabulary: int) -> dict[str, Any] | None:
    """The metadata that describe a tokenizer; None if no rule that GGUF files name splits text as it does.

    vocabulary   of the model, which may have more rows than the tokenizer has tokens
    """
    general = general_fields(tokenizer, vocabulary)
    if general is None or tokenizer.case:
        return None
    for rule in rules(tokenizer, general["tokens"]):
        fields = {f"tokenizer.ggml.{name}": value for name, value in (general | rule).items()}
        if reads_alike(tokenizer, load_gguf_tokenizer(fields, Path("the GGUF file"))):
            template = read_chat_template(tokenizer.settings, tokenizer.files)
            return fields | ({"tokenizer.chat_template": template} if template else {})
    return None


def general_fields(tokenizer: Tokenizer, vocabulary: int) -> dict[str, Any] | None:
    """Tokens, their types, and which are special; None if the tokenizer puts others around a text."""
    special, template = tokenizer.special_tokens, tokenizer.template
    if template.before not in ((), (special.start,)) or template.after not in ((), (special.end,)):
        return None
    tokens = [*tokenizer.tokens, *(f"[{number}]" for number in range(tokenizer.size, vocabulary))]
    numbers = {NAMES[named[0]]: getattr(special, role) for role, named in ROLES.items()}
    return {
        "tokens": tokens,
        "token_type": token_types(tokenizer, tokens),
        "add_bos_token": bool(template.before),
        "add_eos_token": bool(template.after),
        **{name: number for name, number in numbers.items() if number is not None},
    }


def token_types(tokenizer: Tokenizer, tokens: list[str]) -> list[int]:
    added = {number: token.special for number, token in tokenizer.engine.get_added_tokens_decoder().items()}
    by_byte = bool(getattr(tokenizer.engine.model, "byte_fallback", False))
    known, types = tokenizer.engine.get_vocab(), list[int]()
    for number, token in enumerate(tokens):
        if by_byte and number == tokenizer.unknown:
            types.append(UNKNOWN)
        elif number in tokenizer.special:
            types.append(CONTROL)
        elif number in added:
            types.append(USER_DEFINED)
        elif by_byte and len(token) == 6 and token.startswith("<0x"):
            types.append(BYTE)
        else:
            types.append(NORMAL if token in known else UNUSED)
    return types


def rules(tokenizer: Tokenizer, tokens: list[str]) -> Iterator[dict[str, Any]]:
    """The ways to split a text that a GGUF file could name for this kind of tokenizer."""
    model = decode_json(tokenizer.engine.to_str())["model"]
    if model["type"] != "BPE":
        return
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
    if model.get("byte_fallback"):
        scores = merge_scores(tokens, merges)
        for prefix in (True, False):
            yield {"model": "llama", "scores": scores, "add_space_prefix": prefix}
    else:
        for pre in SPLITS:
            yield {"model": "gpt2", "pre": pre, "merges": [" ".join(merge) for merge in merges]}


def merge_scores(tokens: list[str], merges: list[list[str]]) -> list[float]:
    """A score for each token, higher the earlier a merge makes it; those that none makes come last."""
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(merges):
        ranks.setdefault(left + right, rank)
    return [-float(ranks.get(token, len(merges))) for token in tokens]


def reads_alike(ours: Tokenizer, again: Tokenizer) -> bool:
    """Whether two tokenizers split the probes alike, and give the same tokens and texts."""
    again.engine.encode_special_tokens = ours.engine.encode_special_tokens
    return all(
        split_bytes(ours, text) == split_bytes(again, text)
        and (tokens := ours.encode(text)) == again.encode(text)
        and ours.decode(tokens) == again.decode(tokens)
        for text in PROBES
    )


def split_bytes(tokenizer: Tokenizer, text: str) -> list[str]:
    """The pieces inside which bytes are merged: a small vocabulary gives the same tokens by several rules."""
    engine = tokenizer.engine
    if getattr(engine.model, "byte_fallback", False) or engine.pre_tokenizer is None:
        return []
    normal = text if engine.normalizer is None else engine.normalizer.normalize_str(text)
    return [piece for piece, _ in engine.pre_tokenizer.pre_tokenize_str(normal)]
