"""A model of either kind, by its name: a folder of Transom's, or one of Hugging Face's; a text as it takes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import Tensor, nn

    from transom.text.tokenizer import Tokenizer

CONFIG = "config.json"
Told = Callable[[int], object]  # hears each token as soon as it is written
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

    def fed(self, ids: list[int], target: str | None = None, told: Told | None = None) -> Fed:
        """Tokens as the model takes them; the target is the model's own greedy one unless it is given."""
        raise NotImplementedError

    def continued(self, ids: list[int], most: int, told: Told | None = None) -> list[int]:
        """What a decoder writes after these tokens, greedily: so many at most, and no more than it takes."""
        raise NotImplementedError

    def shortened(self, fed: Fed, new: list[int], wanted: int) -> str:
        """That the model wrote less than was asked for, as it takes no more; nothing where it ended by itself."""
        from transom.cli.given import many

        full = self.longest is not None and len(fed.ids) + bool(new) >= self.longest  # its last token is not read
        if len(new) >= wanted or not full:
            return ""
        room = f"{self.name} has room for {len(new)}: it takes {self.longest} in all"
        return f"asked to write {many(wanted, 'token')}, {room}"

    def run(self, fed: Fed) -> "Tensor":
        """The model on it: logits, or vectors where it has no head for them."""
        raise NotImplementedError

    def strings(self, ids: list[int]) -> list[str]:
        """What each token stands for."""
        raise NotImplementedError

    def text(self, ids: list[int]) -> str:
        """What tokens stand for as a text, without special ones."""
        raise NotImplementedError

    def unknown_words(self, text: str) -> list[str]:
        """What of a text the model does not know, and reads as one and the same unknown token."""
        raise NotImplementedError

    def encode(self, text: str, target: str | None = None, told: Told | None = None) -> Fed:
        """One text that fits the model as it takes it."""
        return self.fed(self.fitting(text), target, told)

    def fitting(self, text: str) -> list[int]:
        """The tokens of a text that is not empty, and not longer than the model takes."""
        found = self.pieces(text)
        if not found:
            raise Misfit("the text is empty, but there must be something to read; give a word or more")
        if len(found) > 1:
            count = sum(map(len, found))
            raise Misfit(
                f"the text has {count} tokens, but {self.name} takes {self.longest} at most; give a shorter one"
            )
        return found[0]

    def check_writes_on(self) -> None:
        if self.kind != "decoder":
            raise Misfit(f"writing on takes a decoder, but {self.name} is an {self.kind}; leave it out")

    def check_target(self, target: str | None) -> None:
        if target is not None and self.kind != "encoder_decoder":
            raise Misfit(
                f"a target is for an encoder–decoder, but {self.name} is one {self.kind} alone; leave the target out"
            )


def opened(name: str | Path | None = None, text: str | None = None) -> AnyModel:
    """The model of that name: a folder, or a Hugging Face id that is in the local cache; unless given, the embedded
    translator. A text that it is to read is counted first: a large model is not loaded for one that does not fit."""
    if name is None:
        from transom.models.embedded import embedded

        return OfTransom(embedded(), "the embedded translator")
    from transom.cli.hugging_face import OfHuggingFace, cached
    from transom.files.model_paths import is_there

    folder = Path(name)
    if is_there(folder):
        return OfTransom(folder) if is_transoms(folder) else OfHuggingFace(str(name), text)
    could_be_id = str(name).count("/") < 2 and not str(name).startswith((".", "/", "~"))
    if could_be_id and ("/" in str(name) or cached(str(name))):
        return OfHuggingFace(str(name), text)
    nor = ", nor is it in the local Hugging Face cache; Transom downloads nothing" if could_be_id else ""
    raise Misfit(f"{name} should be the folder of a model, but there is no such folder{nor}; check the path")


def is_transoms(folder: Path) -> bool:
    """Whether a folder holds a model of Transom's; complains if it holds none of either kind."""
    from transom.files.model_paths import check_model_folder
    from transom.files.outside import Limits, whole
    from transom.files.strict import LONGEST_JSON, json_object

    path = folder / CONFIG
    check_model_folder(folder, CONFIG)
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

    def fed(self, ids: list[int], target: str | None = None, told: Told | None = None) -> Fed:
        import torch

        self.check_target(target)
        tokens = torch.tensor([ids])
        if self.kind != "encoder_decoder":
            return Fed({"tokens": tokens}, ids, self.strings(ids))
        written = self.written(ids, told) if target is None else [*self.tokenizer.encode(target), self.tokenizer.end]
        if len(written) > self.most:
            raise Misfit(
                f"the target has {len(written)} tokens, but {self.name} takes {self.longest} at most;"
                " give a shorter one"
            )
        read = [self.tokenizer.start, *written[:-1]]
        inputs = {"source": tokens, "target": torch.tensor([read])}
        return Fed(inputs, ids, self.strings(ids), read, self.strings(read), self.strings(written))

    def written(self, source: list[int], told: Told | None = None) -> list[int]:
        """The model's own greedy translation, up to its end token."""
        longest = min(self.most, 2 * len(source) + SOME)
        found = self.generated(source, told, max_length=longest)[1:]
        return found[: found.index(self.tokenizer.end) + 1] if self.tokenizer.end in found else found

    def continued(self, ids: list[int], most: int, told: Told | None = None) -> list[int]:
        self.check_writes_on()
        most = min(most, self.most - len(ids))
        found = self.generated(ids, told, max_new_tokens=most) if most > 0 else ids
        return found[len(ids) :]

    def generated(self, ids: list[int], told: Told | None, **settings: int) -> list[int]:
        model: Any = self.model
        streamer = None if told is None else lambda row, token: told(token)
        return model.generate([ids], num_beams=1, do_sample=False, streamer=streamer, **settings)[0].tolist()

    def text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids)

    def unknown_words(self, text: str) -> list[str]:
        return self.tokenizer.unknown_words(text)

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
