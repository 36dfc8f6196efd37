"""GenerationConfig: the options of `generate`, checked, and a warning for those that would have no effect."""

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from transom.files.strict_settings import parse_settings
from transom.models.config import check_flag
from transom.names import Misfit

SPECIAL_TOKENS = ("eos_token_id", "pad_token_id", "decoder_start_token_id")


class GenerationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of `generate`; `generation_config.json` in a model's folder holds those that differ from these.

    The special tokens are those of Transom's tokenizers. Unlike Hugging Face's, `top_k` is off by default.

    max_new_tokens, max_length   the most tokens to generate, or to have with the prompt; the first takes precedence,
                                 and with neither the model's longest sequence is the limit
    min_new_tokens, min_length   the fewest, in the same way
    early_stopping               of a beam search: True ends with `num_beams` finished sequences, False when the best
                                 unfinished one is worse than they are at its present length, "never" when none can
                                 become better
    bad_words_ids                lists of tokens that no sequence may hold
    suppress_tokens, begin_suppress_tokens   tokens that are never chosen, or not as the first one
    forced_bos_token_id          the first token after a prompt of one token, such as an encoder–decoder's start
    forced_eos_token_id          the last token of a sequence that reaches its limit
    length_penalty               a sequence's score is the sum of its log-probabilities over its length to this power
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int = 0
    min_length: int = 0
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    num_beams: int = 1
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | tuple[int, ...] | None = None
    eos_token_id: int | tuple[int, ...] | None = 2
    pad_token_id: int = 0
    decoder_start_token_id: int = 1
    stop_strings: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "max_length", "top_k"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 0 if name == "top_k" else 1)
        for name in ("num_beams", "num_return_sequences"):
            check_integer(name, getattr(self, name), 1)
        for name in ("min_new_tokens", "min_length", "no_repeat_ngram_size", "pad_token_id", "decoder_start_token_id"):
            check_integer(name, getattr(self, name), 0)
        for token in self.ends:
            check_integer("eos_token_id", token, 0)
        self.check_tokens()
        for name in ("temperature", "repetition_penalty"):
            check_number(name, getattr(self, name), above=0.0)
        check_number("length_penalty", self.length_penalty)
        for name in ("top_p", "min_p"):
            check_probability(name, getattr(self, name))
        for text in self.stops:
            if not isinstance(text, str) or not text:
                raise Misfit(f"stop_strings must hold text, but got {text!r}; leave it out for none")
        check_flag("do_sample", self.do_sample)
        self.check_search()

    def check_tokens(self) -> None:
        """Raise an error for tokens that are no whole numbers, and for empty words."""
        forced = self.forced_eos_token_id
        tokens = {
            "suppress_tokens": self.suppress_tokens,
            "begin_suppress_tokens": self.begin_suppress_tokens,
            "forced_bos_token_id": () if self.forced_bos_token_id is None else (self.forced_bos_token_id,),
            "forced_eos_token_id": forced if isinstance(forced, tuple) else () if forced is None else (forced,),
            "bad_words_ids": [token for word in self.bad_words_ids for token in word],
        }
        for name, values in tokens.items():
            for token in values:
                check_integer(name, token, 0)
        for name in ("forced_bos_token_id", "forced_eos_token_id"):
            if tokens[name] and set(tokens[name]) <= set(self.suppress_tokens):
                raise Misfit(
                    f"{name}={getattr(self, name)!r} can be forced only if it may be chosen, but suppress_tokens has"
                    " it too; take it out of one of the two"
                )
        if not all(self.bad_words_ids):
            raise Misfit("bad_words_ids must hold lists of tokens, but one is empty; leave it out")

    def check_search(self) -> None:
        """Raise an error for settings that no search has, or that none combines."""
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise Misfit(f"early_stopping must be true, false or 'never', but got {self.early_stopping!r}; choose one")
        if self.do_sample and self.num_beams > 1:
            raise Misfit(
                f"beam search does not sample, but do_sample came with num_beams={self.num_beams};"
                " leave one of the two out"
            )
        if not self.do_sample and self.num_return_sequences > self.num_beams:
            raise Misfit(
                f"num_beams={self.num_beams} finds as many sequences, but"
                f" num_return_sequences={self.num_return_sequences} came; raise num_beams, or sample with do_sample"
            )

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a sequence."""
        ends = self.eos_token_id
        return () if ends is None else tuple(ends) if isinstance(ends, tuple | list) else (ends,)

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end a sequence."""
        return (self.stop_strings,) if isinstance(self.stop_strings, str) else tuple(self.stop_strings)

    def to_dict(self) -> dict[str, Any]:
        """The settings that differ from the defaults, and always the special tokens."""
        defaults = msgspec.structs.asdict(GenerationConfig())
        settings = msgspec.structs.asdict(self)
        return {name: value for name, value in settings.items() if name in SPECIAL_TOKENS or value != defaults[name]}

    def replace(self, changes: dict[str, Any]) -> "GenerationConfig":
        """These settings with some changed; the error for an unknown name suggests the nearest one."""
        if not changes:
            return self
        changes = {name: to_tuples(value) for name, value in changes.items()}
        return parse_settings(GenerationConfig, msgspec.structs.asdict(self) | changes, "generate")


def to_tuples(value: Any) -> Any:
    """Lists as tuples, at any depth."""
    return tuple(map(to_tuples, value)) if isinstance(value, list | tuple) else value


def check_integer(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise Misfit(f"{name} must be a whole number, {least} or more, but got {value!r}; give one")


def check_number(name: str, value: object, above: float | None = None) -> None:
    if type(value) in (int, float) and abs(value) < float("inf") and (above is None or value > above):  # pyright: ignore
        return
    limit = "" if above is None else f" above {above:g}"
    raise Misfit(f"{name} must be a number{limit}, but got {value!r}; 1.0 changes nothing")


def check_probability(name: str, value: object) -> None:
    if value is None or (type(value) in (int, float) and 0.0 <= value <= 1.0):  # pyright: ignore
        return
    raise Misfit(f"{name} must be a number from 0 to 1, but got {value!r}; leave it out for none")


class ArgumentContext(NamedTuple):
    """What the effect of an argument may depend on."""

    settings: GenerationConfig  # those of the model with those of the call
    scored: bool  # whether scores are returned
    kind: str  # of the model
    vocabulary: int


class ArgumentNeed(NamedTuple):
    """What an argument needs to have an effect, a check that it is there, and the values that never have an effect."""

    needed: str
    met: Callable[[ArgumentContext], bool]
    neutral: tuple[Any, ...]


def needs_sampling(*neutral: Any) -> ArgumentNeed:
    return ArgumentNeed("do_sample=True", lambda call: call.settings.do_sample, neutral)


NEEDS: dict[str, ArgumentNeed] = {
    "temperature": needs_sampling(1.0),
    "top_k": needs_sampling(None, 0),
    "top_p": needs_sampling(None, 1.0),
    "min_p": needs_sampling(None, 0.0),
    "seed": needs_sampling(None),
    "early_stopping": ArgumentNeed("num_beams above 1", lambda call: call.settings.num_beams > 1, (False,)),
    "length_penalty": ArgumentNeed(
        "num_beams above 1 or return_scores=True", lambda call: call.settings.num_beams > 1 or call.scored, (1.0,)
    ),
    "max_length": ArgumentNeed("max_new_tokens=None", lambda call: call.settings.max_new_tokens is None, (None,)),
    "min_length": ArgumentNeed("an eos_token_id", lambda call: bool(call.settings.ends), (0,)),
    "min_new_tokens": ArgumentNeed("an eos_token_id", lambda call: bool(call.settings.ends), (0,)),
    "decoder_start_token_id": ArgumentNeed("an encoder–decoder", lambda call: call.kind == "encoder_decoder", ()),
    "eos_token_id": ArgumentNeed(
        "a token of the vocabulary",
        lambda call: any(end < call.vocabulary for end in call.settings.ends),
        (None, (), []),
    ),
}


def warn_without_effect(arguments: Mapping[str, Any], call: ArgumentContext) -> None:
    """Warn of arguments of a call that change nothing; the model's own settings give no warning."""
    for name, value in arguments.items():
        need = NEEDS.get(name)
        if need is not None and value not in need.neutral and not need.met(call):
            warn_caller(f"{name}={value!r} changes nothing without {need.needed}; give that too, or leave {name} out")


def warn_caller(message: str) -> None:
    """Warn at the line that called the model."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("transom.models"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)
