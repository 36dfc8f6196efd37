"""Hugging Face models for the commands: from this machine, safetensors only, and none of its code."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transom.cli.any_model import AnyModel, Fed, Told, cut, least
from transom.cli.pretrained import find_cached, first_line, import_transformers, load_pretrained, no_questions
from transom.names import Misfit

if TYPE_CHECKING:
    from torch import Tensor, nn

REFUSALS = (ValueError, TypeError, KeyError, AttributeError, IndexError, ImportError, RuntimeError)
WRITERS = ("ForCausalLM", "LMHeadModel")  # how the classes of models that write on are named


def described(name: str) -> tuple[Any, Any]:
    """Config and tokenizer, by a folder or by an id that is in the local cache."""
    config = load_pretrained("AutoConfig", name, "be a Hugging Face model")
    return config, load_pretrained("AutoTokenizer", name, "have a tokenizer")


def loaded(name: str, config: Any) -> tuple["nn.Module", str]:
    """The model, and its kind."""
    model = load_pretrained(builder(name, config), name, "hold a model in safetensors", use_safetensors=True)
    kind = "encoder_decoder" if config.is_encoder_decoder else "decoder" if writes(model) else "encoder"
    return model.eval(), kind


class Listener:
    """Hears each token that `generate` writes; the first thing it is told is the prompt."""

    def __init__(self, told: Callable[[int], object]) -> None:
        self.told, self.prompted = told, False

    def put(self, ids: Any) -> None:
        if self.prompted:
            self.told(int(ids.flatten()[0]))
        self.prompted = True

    def end(self) -> None:
        """The library says when it has written all; nothing is held back until then."""


def longest_of(name: str, config: Any, tokenizer: Any) -> int | None:
    """The most tokens that a model takes, special ones included; None where it does not say."""
    places = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    for given in (places, tokenizer.model_max_length):
        if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not given > 0):
            raise Misfit(
                f"{name} should say in a number how many tokens it takes, but it says {given!r:.40};"
                " mend config.json or tokenizer_config.json"
            )
    found = least(places, tokenizer.model_max_length)
    return None if found is None or found > 2**31 else int(found)


def readable(tokenizer: Any, ids: list[int]) -> list[str]:
    """What each token stands for, as Transom's own tokenizer tells it: with a space where the vocabulary writes Ġ or ▁,
    and letters where it writes a sign for each byte of them. Special tokens are as they are."""
    from tokenizers import decoders

    from transom.text.tokenizer import of_bytes

    special = set(tokenizer.all_special_ids)
    by_byte = isinstance(getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None), decoders.ByteLevel)
    found = zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
    return [
        token if one in special else of_bytes(token) if by_byte else token.replace("▁", " ") for one, token in found
    ]


def cached(name: str) -> bool:
    """Whether a model of that id is in the local cache; nothing is fetched."""
    return find_cached(name) is not None


def builder(name: str, config: Any) -> str:
    """The class a config names, if the library itself has it; with two sides always one that can write."""
    if config.is_encoder_decoder:
        return "AutoModelForSeq2SeqLM"
    library = import_transformers(name)
    named = config.architectures
    asked = str(next(iter(named), "")) if isinstance(named, list | tuple) else ""
    found = getattr(library, asked, None) if asked.isidentifier() else None
    known = isinstance(found, type) and issubclass(found, library.PreTrainedModel)
    return asked if known else "AutoModel"


def writes(model: "nn.Module") -> bool:
    return type(model).__name__.endswith(WRITERS)


class OfHuggingFace(AnyModel):
    """A model of Hugging Face's from this machine: safetensors only, none of its code, nothing fetched."""

    origin = "hf"

    def __init__(self, name: str, text: str | None = None) -> None:
        self.name = name
        config, self.tokenizer = described(name)
        self.longest = longest_of(name, config, self.tokenizer)
        if text is not None:
            self.fitting(text)
        self.model, self.kind = loaded(name, config)

    def pieces(self, text: str, longest: int | None = None) -> list[list[int]]:
        found = self.tokenizer(text, add_special_tokens=False)["input_ids"] if text.strip() else []
        room = self.tokenizer.num_special_tokens_to_add(pair=False)
        most = least(longest, self.longest)
        if not found or most is None or len(found) + room <= most:
            return [list(self.tokenizer(text)["input_ids"])] if found else []
        cut(found, most, room)  # complains where nothing fits
        # The tokenizer itself puts its special tokens around each piece.
        told = self.tokenizer(text, max_length=most, truncation=True, return_overflowing_tokens=True)["input_ids"]
        return [list(piece) for piece in told] if isinstance(told[0], list) else cut(found, most, room)

    def fed(self, ids: list[int], target: str | None = None, told: Told | None = None) -> Fed:
        import torch

        self.check_target(target)
        tokens = torch.tensor([ids])
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        if self.kind != "encoder_decoder":
            return Fed(inputs, ids, self.strings(ids))
        start, written = self.both(inputs, target, told)
        read = [start, *written[:-1]]
        inputs["decoder_input_ids"] = torch.tensor([read])
        return Fed(inputs, ids, self.strings(ids), read, self.strings(read), self.strings(written))

    def both(self, inputs: dict[str, Any], target: str | None, told: Told | None) -> tuple[int, list[int]]:
        """The token the decoder begins with, and what it writes: the given target, or its own greedy one."""
        model: Any = self.model
        if target is None:
            found = self.generated(inputs, told)
            return found[0], found[1:]
        settings = (model.generation_config, model.config)
        start = next((n for one in settings if (n := getattr(one, "decoder_start_token_id", None)) is not None), None)
        if start is None:
            raise Misfit(
                f"{self.name} does not say which token its decoder begins with;"
                " set decoder_start_token_id in its config"
            )
        return start, list(self.tokenizer(text_target=target)["input_ids"])

    def continued(self, ids: list[int], most: int, told: Told | None = None) -> list[int]:
        import torch

        self.check_writes_on()
        most = most if self.longest is None else min(most, self.longest - len(ids))
        tokens = torch.tensor([ids])
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        return self.generated(inputs, told, max_new_tokens=most)[len(ids) :] if most > 0 else []

    def generated(self, inputs: dict[str, Any], told: Told | None, **settings: int) -> list[int]:
        import torch

        model: Any = self.model
        streamer = None if told is None else Listener(told)
        try:
            with torch.no_grad(), no_questions():
                return model.generate(**inputs, do_sample=False, num_beams=1, streamer=streamer, **settings)[0].tolist()
        except REFUSALS as error:
            raise Misfit(
                f"{self.name} should write greedily, but its generation settings do not allow it:"
                f" {first_line(error)}; mend generation_config.json"
            ) from error

    def text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def unknown_words(self, text: str) -> list[str]:
        if not self.tokenizer.is_fast or self.tokenizer.unk_token_id is None:
            return []
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        places = zip(found["input_ids"], found["offset_mapping"], strict=True)
        return [text[slice(*place)] for one, place in places if one == self.tokenizer.unk_token_id]

    def run(self, fed: Fed) -> "Tensor":
        import torch

        with torch.no_grad():
            result = self.model(**fed.inputs)
        found = getattr(result, "logits", None)
        return result[0] if found is None else found

    def strings(self, ids: list[int]) -> list[str]:
        return readable(self.tokenizer, ids)
