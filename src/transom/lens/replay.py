"""A replay: where chosen heads looked in one sentence, again and again while a model was trained, and its loss."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.asked import inside
from transom.lens.curve import Curve
from transom.lens.hearing.eager import of_weights
from transom.lens.labels import Tokens
from transom.lens.on_file.replay_file import ReplayOnFile, read, written
from transom.lens.sight import Sight
from transom.lens.trace import Trace, nearest
from transom.lens.watch import Layers, watch
from transom.names import Misfit

MOST_FRAMES = 512  # at most so many are kept; when they are full, every other one goes
MOST_NUMBERS = 2**22  # weights in one frame: 16 MB
RECORDED = "only the weights were recorded"

Frame = dict[str, Float[Tensor, "heads queries keys"]]


@dataclass(eq=False)
class Replay:
    """The weights of chosen heads at some updates of a training, in order, and the loss of all of them.

    `heads` are the numbers of the recorded heads under each name; `frames[number][name]` are their weights at
    `updates[number]`.
    """

    tokens: Tokens | None = None
    targets: Tokens | None = None
    heads: dict[str, list[int]] = field(default_factory=dict)
    updates: list[int] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    losses: Curve = field(default_factory=Curve)

    @property
    def names(self) -> list[str]:
        return list(self.heads)

    def weights(self, name: str, head: int) -> Float[Tensor, "any queries keys"]:
        """One head's weights at every recorded update; `head` is its number in the model."""
        if name not in self.heads:
            raise Misfit(f"{name!r} was not recorded; {nearest(name, self.names)}")
        if head not in self.heads[name]:
            recorded = ", ".join(map(str, self.heads[name]))
            raise Misfit(f"of {name!r} the heads {recorded} were recorded, but {head} was asked for; take one of them")
        place = self.heads[name].index(head)
        return torch.stack([frame[name][place] for frame in self.frames])

    def at(self, number: int) -> Trace:
        """One frame as a Trace of weights, to be looked at like any other; its receipts were checked as it was made."""
        frame = self.frames[inside(number, "frames", len(self.frames))]
        trace = Trace(self.tokens, self.targets)
        for name, weights in frame.items():
            one = of_weights(weights[None], unproved=RECORDED)
            trace.add(name, Sight(one.problem, one.output, one.lse, one.joined, one.unproved))
        return trace

    def add(self, update: int, frame: Frame) -> None:
        """One frame more; where they are too many, every other one is left out."""
        if len(self.frames) == MOST_FRAMES:
            del self.updates[1::2], self.frames[1::2]
        self.updates.append(update)
        self.frames.append(frame)

    def crop(self, update: int) -> None:
        """Forget what came after an update: a run that goes on from there makes it again."""
        known = sum(one <= update for one in self.updates)
        del self.updates[known:], self.frames[known:]
        self.losses.crop(update)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one safetensors file, whole or not at all."""
        said = ReplayOnFile(tokens=self.tokens, targets=self.targets, heads=self.heads, updates=self.updates)
        stacked = {name: torch.stack([frame[name] for frame in self.frames]) for name in self.names if self.frames}
        written(Path(path), said, stacked, self.losses)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Replay":
        """Read what `save` wrote; a file that is damaged or made up is an error that says so."""
        said, stacked, losses = read(Path(path))
        frames = [{name: stacked[name][number] for name in said.heads} for number in range(len(said.updates))]
        return cls(said.tokens, said.targets, said.heads, said.updates, frames, losses)

    def __repr__(self) -> str:
        return f"Replay({len(self.frames)} frames of {sum(map(len, self.heads.values()))} heads)"


class Recorder:
    """Records a replay into a file while a model is trained.

    read    runs the model on the sentence
    layers  only these, as in `watch`
    heads   only these of each; all unless given
    """

    def __init__(
        self,
        path: Path,
        read: Callable[[nn.Module], object],
        words: tuple[Tokens | None, Tokens | None],
        layers: Layers = None,
        heads: list[int] | None = None,
    ) -> None:
        self.path, self.read, self.layers, self.heads = path, read, layers, heads
        self.replay = Replay(*words)

    def resume(self, update: int) -> None:
        """Go on with the file of an earlier start, as far as that update; from 0 on it begins anew."""
        if update == 0 or not self.path.exists():
            return
        found = Replay.load(self.path)
        if (found.tokens, found.targets) != (self.replay.tokens, self.replay.targets):
            raise Misfit(
                f"{self.path} holds a replay of another sentence, from an earlier start of this run; record the same"
                " sentence, or move that file away"
            )
        found.crop(update)
        self.replay = found

    def record(self, model: nn.Module, update: int) -> None:
        """What the heads do now, added to the file; the model is left as it was."""
        training = model.training
        model.eval()
        try:
            with torch.no_grad(), watch(model, layers=self.layers) as trace:
                self.read(model)
        finally:
            model.train(training)
        frame = {name: self.chosen(name, sight) for name, sight in trace.proven().items()}
        numbers = sum(weights.numel() for weights in frame.values())
        if numbers > MOST_NUMBERS:
            raise Misfit(
                f"a frame of this replay would hold {numbers:,} weights, but {MOST_NUMBERS:,} are the most; record a"
                " shorter sentence, or fewer layers"
            )
        if not self.replay.heads:
            self.replay.heads = {name: self.heads or list(range(len(weights))) for name, weights in frame.items()}
        self.replay.add(update, frame)
        self.save()

    def chosen(self, name: str, sight: Sight) -> Float[Tensor, "heads queries keys"]:
        """The wanted heads of one attention."""
        return sight.weights(batch=0, head=self.heads).float().cpu()

    def lost(self, update: int, loss: float) -> None:
        self.replay.losses.add(update, loss)

    def save(self) -> None:
        if self.replay.frames:
            self.replay.save(self.path)
