"""Special tokens: which token of a vocabulary is padding, start, end or unknown, and which are put around a text.

Transom's own tokenizers have four by name. Those of other libraries have a file beside tokenizer.json,
tokenizer_config.json, which names theirs, and a rule in tokenizer.json for what is put around a text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tokenizers import Tokenizer as Engine

from transom.names import Misfit

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
# What each is called in tokenizer_config.json; of two names the first that is there counts.
NAMES = {
    "padding": ("pad_token",),
    "start": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "unknown": ("unk_token",),
}
PROBES = ("a", "1", "A")  # texts that have a token in nearly every vocabulary


class SpecialTokens(NamedTuple):
    """The numbers of the special tokens, each None if the vocabulary has none for it.

    padding, start, end, unknown   of Transom's own: <pad>, <s>, </s>, <unk>
    all                            every special token, those without a name here too
    """

    padding: int | None
    start: int | None
    end: int | None
    unknown: int | None
    all: frozenset[int]

    def require(self, name: str) -> int:
        """The number of one of them; an error if there is none."""
        number: int | None = getattr(self, name)
        if number is None:
            raise Misfit(
                f"this needs a token for {name}, but the tokenizer has none; name one as {NAMES[name][0]} in its"
                " tokenizer_config.json"
            )
        return number


class Wrapping(NamedTuple):
    """The special tokens before and after a text."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def room(self) -> int:
        """How many there are."""
        return len(self.before) + len(self.after)

    def wrap(self, ids: Sequence[int]) -> list[int]:
        """The tokens of a text with the special ones around it."""
        return [*self.before, *ids, *self.after]


def find_own(engine: Engine, where: str) -> SpecialTokens:
    """The special tokens of one of Transom's own tokenizers, which has all four."""
    numbers = [find_token(engine, token, where) for token in SPECIAL]
    return SpecialTokens(*numbers, all=frozenset(numbers))


def find_token(engine: Engine, token: str, where: str) -> int:
    token_id = engine.token_to_id(token)
    if token_id is None:
        raise Misfit(f"{where} must have {', '.join(SPECIAL)}, but {token} is missing; add it, or train a tokenizer")
    return token_id


def find_named(engine: Engine, settings: Mapping[str, Any], where: str) -> SpecialTokens:
    """The special tokens that a tokenizer_config.json names."""
    numbers: dict[str, int | None] = dict.fromkeys(NAMES)
    for role, names in NAMES.items():
        for name in names:
            text = token_text(settings.get(name), name, where)
            if text is not None and numbers[role] is None:
                numbers[role] = engine.token_to_id(text)
                if numbers[role] is None:
                    raise Misfit(f"{where} names {text!r:.60} as {name}, but no token is called so; correct it")
    added = {number for number, token in engine.get_added_tokens_decoder().items() if token.special}
    named = {number for number in numbers.values() if number is not None}
    return SpecialTokens(**numbers, all=frozenset(added | named))


def token_text(value: object, name: str, where: str) -> str | None:
    """The text of a token in tokenizer_config.json: a string, or an object with its content."""
    text = value.get("content") if isinstance(value, dict) else value
    if text is not None and not isinstance(text, str):
        raise Misfit(f"{where} should name its {name} by a text, but it says {value!r:.60}; correct it")
    return text


def find_wrapping(engine: Engine) -> Wrapping:
    """What the rule in tokenizer.json puts around a text."""
    for probe in PROBES:
        encoding = engine.encode(probe, add_special_tokens=True)
        plain = [place for place, is_special in enumerate(encoding.special_tokens_mask) if not is_special]
        if plain:
            return Wrapping(tuple(encoding.ids[: plain[0]]), tuple(encoding.ids[plain[-1] + 1 :]))
    return Wrapping()
