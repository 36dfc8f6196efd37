"""A model of either kind, by its name: a folder of Transom's, or one of Hugging Face's; a text as it takes it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import Tensor, nn

    from transom.text.tokenizer import Tokenizer

CONFIG = "config.json"
SOME = 10  # what a translation may have beyond twice its source, in tokens


@dataclass(frozen=True, eq=False)
class Fed:
    """One text as a model takes it: the inputs by name, and the tokens behind them.

    An encoder–decoder has a target too: `targets` are the tokens its decoder reads, `written` those it is to write
    next, row by row. Elsewhere both are empty.
    """

    inputs: dict[str, Any]
    ids: list[int]
    tokens: list[str]
    target_ids: list[int] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)


class AnyModel:
    """A model that can be run on text.

    name      what it was asked for by
    origin    "transom" or "hf"
    kind      "encoder", "decoder" or "encoder_decoder"
    longest   the most tokens it takes, special ones included; None where it does not say
    """

    origin: str
    name: str
    kind: str
    model: "nn.Module"
    longest: int | None

    def pieces(self, text: str, longest: int | None = None) -> list[list[int]]:
        """A text as runs of at most `longest` tokens, each with its special ones, in order; none for an empty text."""
        raise NotImplementedError

    def fed(self, ids: list[int], target: str | None = None) -> Fed:
        """Tokens as the model takes them; the target is the model's own greedy one unless it is given."""
        raise NotImplementedError

    def run(self, fed: Fed) -> "Tensor":
        """The model on it: logits, or vectors where it has no head for them."""
        raise NotImplementedError

    def strings(self, ids: list[int]) -> list[str]:
        """What each token stands for."""
        raise NotImplementedError

    def encode(self, text: str, target: str | None = None) -> Fed:
        """One text that fits the model as it takes it."""
        found = self.pieces(text)
        if not found:
            raise Misfit("the text is empty, but there must be something to read; give a word or more")
        if len(found) > 1:
            count = sum(map(len, found))
            raise Misfit(
                f"the text has {count} tokens, but {self.name} takes {self.longest} at most; give a shorter one"
            )
        return self.fed(found[0], target)

    def check_target(self, target: str | None) -> None:
        if target is not None and self.kind != "encoder_decoder":
            raise Misfit(
                f"a target is for an encoder–decoder, but {self.name} is one {self.kind} alone; leave the target out"
            )


def opened(name: str | Path | None = None) -> AnyModel:
    """The model of that name: a folder, or a Hugging Face id that is in the local cache; unless given, the embedded
    translator."""
    if name is None:
        from transom.models.embedded import embedded

        return OfTransom(embedded(), "the embedded translator")
    from transom.cli.hugging_face import cached

    folder = Path(name)
    if not folder.is_dir():
        could_be_id = str(name).count("/") < 2 and not folder.exists() and not str(name).startswith((".", "/", "~"))
        if could_be_id and ("/" in str(name) or cached(str(name))):
            return OfHuggingFace(str(name))
        nor = ", nor is it in the local Hugging Face cache; Transom downloads nothing" if could_be_id else ""
        raise Misfit(f"{name} should be the folder of a model, but there is no such folder{nor}; check the path")
    return OfTransom(folder) if is_transoms(folder) else OfHuggingFace(str(name))


def is_transoms(folder: Path) -> bool:
    """Whether a folder holds a model of Transom's; complains if it holds none of either kind."""
    from transom.files.outside import Limits, whole
    from transom.files.strict import LONGEST_JSON, json_object

    path = folder / CONFIG
    if not path.is_file():
        raise Misfit(f"{folder} should hold {CONFIG}, but it does not; is it the folder of a model?")
    found = json_object(whole(path, Limits(document=LONGEST_JSON), "name the folder of a model"), str(path))
    if "model_type" in found:
        return False
    if "format" in found and "model" in found:
        return True
    raise Misfit(
        f"{path} should describe a model of Transom's (format, model) or of Hugging Face's (model_type), but it does"
        " neither; is it the folder of a model?"
    )


def cut(ids: list[int], longest: int | None, room: int) -> list[list[int]]:
    """Runs of tokens, each with room for so many special ones."""
    if longest is not None and longest <= room:
        raise Misfit(f"pieces need {room + 1} tokens or more, but got longest={longest}; give a larger number")
    width = len(ids) if longest is None else longest - room
    return [ids[first : first + width] for first in range(0, len(ids), width)] if ids else []


class OfTransom(AnyModel):
    """A model of Transom's, with its tokenizer."""

    origin = "transom"

    def __init__(self, folder: Path, name: str | None = None) -> None:
        from transom.models.folder import header_of
        from transom.run.texts import ready

        found = ready(folder, str(header_of(folder)["model"]))
        self.model = found.model
        self.tokenizer: Tokenizer = found.tokenizer
        self.name, self.kind = name or str(folder), found.model.kind
        self.most = int(found.model.config.longest)
        self.longest = self.most

    def pieces(self, text: str, longest: int | None = None) -> list[list[int]]:
        ending = [self.tokenizer.end] if self.kind == "encoder_decoder" else []
        found = self.tokenizer.encode(text) if text.strip() else []
        return [[*piece, *ending] for piece in cut(found, least(longest, self.longest), len(ending))]

    def fed(self, ids: list[int], target: str | None = None) -> Fed:
        import torch

        self.check_target(target)
        tokens = torch.tensor([ids])
        if self.kind != "encoder_decoder":
            return Fed({"tokens": tokens}, ids, self.strings(ids))
        written = self.written(tokens) if target is None else [*self.tokenizer.encode(target), self.tokenizer.end]
        if len(written) > self.most:
            raise Misfit(
                f"the target has {len(written)} tokens, but {self.name} takes {self.longest} at most;"
                " give a shorter one"
            )
        read = [self.tokenizer.start, *written[:-1]]
        inputs = {"source": tokens, "target": torch.tensor([read])}
        return Fed(inputs, ids, self.strings(ids), read, self.strings(read), self.strings(written))

    def written(self, source: "Tensor") -> list[int]:
        """The model's own greedy translation, up to its end token."""
        model: Any = self.model
        longest = min(self.most, 2 * source.shape[1] + SOME)
        found = model.generate(source, num_beams=1, max_length=longest)[0].tolist()[1:]
        return found[: found.index(self.tokenizer.end) + 1] if self.tokenizer.end in found else found

    def run(self, fed: Fed) -> "Tensor":
        import torch

        model: Any = self.model
        headless = self.kind == "encoder" and model.head is None
        with torch.no_grad():
            return (model.hidden if headless else model)(**fed.inputs)

    def strings(self, ids: list[int]) -> list[str]:
        return self.tokenizer.pieces(ids)


def least(*numbers: int | None) -> int | None:
    """The smallest of those that are given."""
    return min((number for number in numbers if number is not None), default=None)


class OfHuggingFace(AnyModel):
    """A model of Hugging Face's from this machine: safetensors only, none of its code, nothing fetched."""

    origin = "hf"

    def __init__(self, name: str) -> None:
        from transom.cli.hugging_face import loaded

        self.name = name
        self.model, self.tokenizer, self.kind = loaded(name)
        config = self.model.config
        places = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        self.longest = least(places, self.tokenizer.model_max_length)
        self.longest = None if self.longest is None or self.longest > 2**31 else int(self.longest)

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

    def fed(self, ids: list[int], target: str | None = None) -> Fed:
        import torch

        self.check_target(target)
        tokens = torch.tensor([ids])
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        if self.kind != "encoder_decoder":
            return Fed(inputs, ids, self.strings(ids))
        start, written = self.both(inputs, target)
        read = [start, *written[:-1]]
        inputs["decoder_input_ids"] = torch.tensor([read])
        return Fed(inputs, ids, self.strings(ids), read, self.strings(read), self.strings(written))

    def both(self, inputs: dict[str, Any], target: str | None) -> tuple[int, list[int]]:
        """The token the decoder begins with, and what it writes: the given target, or its own greedy one."""
        model: Any = self.model
        if target is None:
            found = model.generate(**inputs, do_sample=False, num_beams=1)[0].tolist()
            return found[0], found[1:]
        settings = (model.generation_config, model.config)
        start = next((n for one in settings if (n := getattr(one, "decoder_start_token_id", None)) is not None), None)
        if start is None:
            raise Misfit(
                f"{self.name} does not say which token its decoder begins with;"
                " set decoder_start_token_id in its config"
            )
        return start, list(self.tokenizer(text_target=target)["input_ids"])

    def run(self, fed: Fed) -> "Tensor":
        import torch

        with torch.no_grad():
            result = self.model(**fed.inputs)
        found = getattr(result, "logits", None)
        return result[0] if found is None else found

    def strings(self, ids: list[int]) -> list[str]:
        return list(self.tokenizer.convert_ids_to_tokens(ids))
