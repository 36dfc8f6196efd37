"""The tokenizer in the metadata of a GGUF file, as a tokenizer.json with a tokenizer_config.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine

from transom.files.tokenizer_files import SETTINGS, TOKENIZER
from transom.names import Misfit
from transom.text.tokenizer import Tokenizer, library_errors

CONTROL, USER_DEFINED = 3, 4  # types of tokens
# How a text is split before its bytes are merged, by the name that llama.cpp gives it: regular expressions, each of
# whose matches is a piece of its own, and whether GPT-2's rule comes after them.
DIGIT = r"\p{N}"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
SPLITS: dict[str, tuple[tuple[str, ...], bool]] = {
    "gpt-2": ((), True),
    "smollm": ((DIGIT,), True),
    "llama-bpe": ((LLAMA3,), False),
    "qwen2": ((QWEN2,), False),
}
NAMES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def load_gguf_tokenizer(metadata: Mapping[str, Any], path: Path) -> Tokenizer:
    """The tokenizer that the metadata of a GGUF file describes."""
    own = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items()}
    tokens = read_list(own, "tokens", str, path)
    kind = own.get("model")
    if kind not in ENGINES:
        raise Misfit(f"{path} has a tokenizer {kind!r:.40}, but Transom reads {', '.join(ENGINES)}; take another model")
    with library_errors(f"{path} should hold a tokenizer, but it cannot be built", "take another copy"):
        engine = ENGINES[kind](own, tokens, path)
        add_special(engine, own, tokens, path)
        settings = read_names(own, tokens, path)
        adds_start = own.get("add_bos_token", kind == "llama")
        engine.post_processor = template(  # pyright: ignore[reportAttributeAccessIssue]
            settings.get("bos_token") if adds_start else None,
            settings.get("eos_token") if own.get("add_eos_token") else None,
            engine,
        )
    if isinstance(metadata.get("tokenizer.chat_template"), str):
        settings["chat_template"] = metadata["tokenizer.chat_template"]
    files = {TOKENIZER: engine.to_str(pretty=True).encode(), SETTINGS: msgspec.json.encode(settings)}
    return Tokenizer.from_files(files, path)


def read_list(own: Mapping[str, Any], name: str, kind: type, path: Path) -> list[Any]:
    """A list of the metadata, whose items are of one type."""
    values = own.get(name)
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise Misfit(f"{path} should list its tokenizer's {name}, but it does not; take another model")
    return values


def build_byte_level(own: Mapping[str, Any], tokens: Sequence[str], path: Path) -> Engine:
    """Byte-level BPE, as GPT-2's."""
    pre = own.get("pre", "gpt-2")
    if pre not in SPLITS:
        raise Misfit(
            f"{path} splits text by the rule {pre!r:.40}, but Transom knows {', '.join(SPLITS)}; take another model"
        )
    merges = [tuple(merge.split(" ")) for merge in read_list(own, "merges", str, path)]
    if any(len(merge) != 2 for merge in merges):
        raise Misfit(f"{path} should merge two pieces at a time, but it does not; take another copy")
    engine = Engine(models.BPE(vocab=number_tokens(tokens, path), merges=merges))
    patterns, has_rule = SPLITS[pre]
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=has_rule))
    if pre == "qwen2":
        engine.normalizer = normalizers.NFC()  # pyright: ignore[reportAttributeAccessIssue]
    engine.pre_tokenizer = pre_tokenizers.Sequence(steps)  # pyright: ignore[reportAttributeAccessIssue]
    engine.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    return engine


def build_sentence_pieces(own: Mapping[str, Any], tokens: Sequence[str], path: Path) -> Engine:
    """SentencePiece's BPE, as Llama 2's: ▁ for a space, unknown characters as bytes, merges by the scores of pieces."""
    scores = read_list(own, "scores", float, path)
    if len(scores) != len(tokens):
        raise Misfit(f"{path} should have a score for each token, but it has {len(scores)}; take another copy")
    vocabulary = number_tokens(tokens, path)
    unknown = own.get("unknown_token_id", 0)
    name = tokens[unknown] if type(unknown) is int and 0 <= unknown < len(tokens) else None
    merges = list_merges(tokens, scores, vocabulary)
    engine = Engine(models.BPE(vocab=vocabulary, merges=merges, unk_token=name, fuse_unk=True, byte_fallback=True))
    first = [normalizers.Prepend("▁")] if own.get("add_space_prefix", True) else []
    engine.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "▁")])  # pyright: ignore
    strip = [decoders.Strip(" ", 1, 0)] if first else []
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    engine.decoder = decoders.Sequence(steps)  # pyright: ignore[reportAttributeAccessIssue]
    return engine


def list_merges(tokens: Sequence[str], scores: Sequence[float], vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """The pairs of pieces that make another, those of the likeliest piece first."""
    found: list[tuple[float, int, int, str, str]] = []
    for token, score in zip(tokens, scores, strict=True):
        for place in range(1, len(token)):
            left, right = token[:place], token[place:]
            if left in vocabulary and right in vocabulary:
                found.append((-score, vocabulary[left], vocabulary[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]


ENGINES = {"gpt2": build_byte_level, "llama": build_sentence_pieces}


def number_tokens(tokens: Sequence[str], path: Path) -> dict[str, int]:
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        raise Misfit(f"{path} should list each token once, but some come twice; take another copy")
    return vocabulary


def add_special(engine: Engine, own: Mapping[str, Any], tokens: Sequence[str], path: Path) -> None:
    """Tokens that are read whole in a text: control tokens, and those that a user defined."""
    types = read_list(own, "token_type", int, path) if "token_type" in own else []
    for token, kind in zip(tokens, types, strict=False):
        if kind in (CONTROL, USER_DEFINED):
            engine.add_tokens([AddedToken(token, special=kind == CONTROL, normalized=False)])


def read_names(own: Mapping[str, Any], tokens: Sequence[str], path: Path) -> dict[str, Any]:
    """The special tokens, as tokenizer_config.json names them."""
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for name, key in NAMES.items():
        number = own.get(key)
        if number is None:
            continue
        if type(number) is not int or not 0 <= number < len(tokens):
            raise Misfit(f"{path} names token {number!r:.40} as {key}, but it has {len(tokens)}; take another copy")
        settings[name] = tokens[number]
    return settings


def template(start: str | None, end: str | None, engine: Engine) -> processors.TemplateProcessing:
    names = [name for name in (start, end) if name is not None]
    single = [*([start] if start else []), "$A", *([end] if end else [])]
    return processors.TemplateProcessing(
        single=single, special_tokens=[(name, engine.token_to_id(name)) for name in dict.fromkeys(names)]
    )
