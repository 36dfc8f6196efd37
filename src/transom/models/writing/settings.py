"""How a model writes, with Hugging Face's names and meanings."""

from typing import Any

import msgspec

from transom.files.strict import settings as strictly
from transom.names import Misfit


class GenerationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `generate` follows; `generation_config.json` of a model's folder holds what differs from this.

    The special tokens are those of Transom's tokenizers. Unlike Hugging Face's, `top_k` is off unless given.

    max_new_tokens, max_length   the most tokens to write, or to have with the prompt; the first goes first, and with
                                 neither the model's longest sequence is the limit
    early_stopping               of a beam search: True ends with `num_beams` finished sequences, False when the best
                                 unfinished one is worse than they are at its present length, "never" when none can
                                 still become better
    length_penalty               a sequence's score is the sum of its log-probabilities over its length to this power
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int = 0
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
    eos_token_id: int | tuple[int, ...] | None = 2
    pad_token_id: int = 0
    decoder_start_token_id: int = 1
    stop_strings: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        whole("max_new_tokens", self.max_new_tokens, 1)
        whole("max_length", self.max_length, 1)
        for word in ("num_beams", "num_return_sequences"):
            whole(word, getattr(self, word), 1, needed=True)
        for word in ("min_new_tokens", "no_repeat_ngram_size", "pad_token_id", "decoder_start_token_id"):
            whole(word, getattr(self, word), 0, needed=True)
        whole("top_k", self.top_k, 0)
        for word in ("temperature", "repetition_penalty"):
            number(word, getattr(self, word), above=0.0)
        number("length_penalty", self.length_penalty)
        share("top_p", self.top_p)
        share("min_p", self.min_p)
        for token in self.ends:
            whole("eos_token_id", token, 0, needed=True)
        check_stops(self.stops)
        self.check_ways()

    def check_ways(self) -> None:
        """Complain about what no one way of writing does."""
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise Misfit(f"early_stopping must be true, false or 'never', but got {self.early_stopping!r}; choose one")
        if not isinstance(self.do_sample, bool):
            raise Misfit(f"do_sample must be true or false, but got {self.do_sample!r}; choose one")
        if self.do_sample and self.num_beams > 1:
            raise Misfit(
                f"beam search takes the likeliest, but do_sample came with num_beams={self.num_beams};"
                " leave one of the two out"
            )
        if not self.do_sample and self.num_return_sequences > self.num_beams:
            raise Misfit(
                f"num_beams={self.num_beams} find as many sequences, but"
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

    def told(self) -> dict[str, Any]:
        """What differs from the defaults, and the special tokens in any case."""
        special = {"eos_token_id", "pad_token_id", "decoder_start_token_id"}
        usual = msgspec.structs.asdict(GenerationConfig())
        own = msgspec.structs.asdict(self)
        return {name: value for name, value in own.items() if name in special or value != usual[name]}

    def changed(self, changes: dict[str, Any]) -> "GenerationConfig":
        """These settings with some changed; an unknown name is told the nearest."""
        if not changes:
            return self
        found = msgspec.structs.asdict(self) | {
            name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()
        }
        return strictly(GenerationConfig, found, "generate")


def whole(word: str, given: object, least: int, needed: bool = False) -> None:
    if (given is None and not needed) or (type(given) is int and given >= least):
        return
    raise Misfit(f"{word} must be a whole number from {least} on, but got {given!r}; give one")


def number(word: str, given: object, above: float | None = None) -> None:
    if type(given) in (int, float) and abs(given) < float("inf") and (above is None or given > above):  # pyright: ignore
        return
    limit = "" if above is None else f" above {above:g}"
    raise Misfit(f"{word} must be a number{limit}, but got {given!r}; 1.0 changes nothing")


def share(word: str, given: object) -> None:
    if given is None or (type(given) in (int, float) and 0.0 <= given <= 1.0):  # pyright: ignore
        return
    raise Misfit(f"{word} must be a number from 0 to 1, but got {given!r}; leave it out for none")


def check_stops(stops: tuple[str, ...]) -> None:
    for text in stops:
        if not isinstance(text, str) or not text:
            raise Misfit(f"stop_strings must hold text, but got {text!r}; leave it out for none")
