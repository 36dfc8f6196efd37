"""A replay: the weights of chosen heads on one sentence at many updates of a training run, and the loss."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.attention.labels import Tokens
from transom.lens.attention.sight import Sight
from transom.lens.capture.eager_attention import from_weights
from transom.lens.capture.watch import Layers, watch
from transom.lens.storage.tensor_file import TensorFormat, check_dtype
from transom.lens.trace import Trace, suggest_names
from transom.names import Misfit, check_index

MOST_FRAMES = 512  # when there are more, every other one is dropped
MOST_POINTS = 4096  # of the loss curve; when there are more, each pair becomes its mean
MOST_NUMBERS = 2**22  # weights in one frame: 16 MB
RECORDED = "only the weights were recorded"
LOSSES, LOSS_UPDATES = "losses", "losses at"  # names of tensors in the file

Frame = dict[str, Float[Tensor, "heads queries keys"]]


class LossCurve:
    """A loss over updates: each point is the mean of `width` updates, and stands at the last of them."""

    def __init__(self, updates: list[int] | None = None, means: list[float] | None = None, width: int = 1) -> None:
        self.updates, self.means, self.width = updates or [], means or [], width
        self.pending: list[float] = []  # the losses of the point that is not full yet
        self.last = self.updates[-1] if self.updates else 0

    def add(self, update: int, loss: float) -> None:
        self.pending.append(loss)
        self.last = update
        if len(self.pending) == self.width:
            self.updates.append(update)
            self.means.append(sum(self.pending) / self.width)
            self.pending = []
        if len(self.updates) == MOST_POINTS:
            self.halve()

    def halve(self) -> None:
        """Make one point of each pair."""
        self.means = [(left + right) / 2 for left, right in zip(self.means[::2], self.means[1::2], strict=True)]
        self.updates = self.updates[1::2]
        self.width *= 2

    def crop(self, update: int) -> None:
        """Drop everything after an update."""
        kept = sum(number <= update for number in self.updates)
        del self.updates[kept:], self.means[kept:]
        self.pending = []

    def points(self) -> tuple[list[int], list[float]]:
        """Updates and mean losses; the last point may be the mean of fewer updates."""
        if not self.pending:
            return list(self.updates), list(self.means)
        return [*self.updates, self.last], [*self.means, sum(self.pending) / len(self.pending)]


class ReplayHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the header says beside the tensors."""

    tokens: list[list[str]] | None
    targets: list[list[str]] | None
    heads: dict[str, list[int]]
    updates: list[int]
    width: int = 1  # updates in each point of the loss curve


REPLAY = TensorFormat("transom replay 1", ReplayHeader, 2**22, "record it again")


@dataclass(eq=False)
class Replay:
    """The weights of chosen heads at some updates of a training run, in order, and the loss of all updates.

    `heads` are the numbers of the recorded heads under each name; `frames[number][name]` are their weights at
    `updates[number]`.
    """

    tokens: Tokens | None = None
    targets: Tokens | None = None
    heads: dict[str, list[int]] = field(default_factory=dict)
    updates: list[int] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    losses: LossCurve = field(default_factory=LossCurve)

    @property
    def names(self) -> list[str]:
        return list(self.heads)

    def weights(self, name: str, head: int) -> Float[Tensor, "any queries keys"]:
        """One head's weights at every recorded update; `head` is its number in the model."""
        if name not in self.heads:
            raise Misfit(f"{name!r} was not recorded; {suggest_names(name, self.names)}")
        if head not in self.heads[name]:
            recorded = ", ".join(map(str, self.heads[name]))
            raise Misfit(f"of {name!r} the heads {recorded} were recorded, but {head} was asked for; take one of them")
        index = self.heads[name].index(head)
        return torch.stack([frame[name][index] for frame in self.frames])

    def at(self, number: int) -> Trace:
        """One frame as a Trace of weights; its receipts were checked when it was recorded."""
        frame = self.frames[check_index(number, "frames", len(self.frames))]
        trace = Trace(self.tokens, self.targets)
        for name, weights in frame.items():
            captured = from_weights(weights[None], unproved=RECORDED)
            trace.add(name, Sight(captured.problem, captured.output, captured.lse, unproved=RECORDED))
        return trace

    def add(self, update: int, frame: Frame) -> None:
        """Append a frame; if there are too many, drop every other one first."""
        if len(self.frames) == MOST_FRAMES:
            del self.updates[1::2], self.frames[1::2]
        self.updates.append(update)
        self.frames.append(frame)

    def crop(self, update: int) -> None:
        """Drop everything after an update: a run that resumes there records it again."""
        kept = sum(number <= update for number in self.updates)
        del self.updates[kept:], self.frames[kept:]
        self.losses.crop(update)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, under a temporary name that is then changed."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        updates, means = self.losses.points()
        names = self.names if self.frames else []
        tensors = {weights_name(name): torch.stack([frame[name] for frame in self.frames]) for name in names}
        tensors[LOSSES] = torch.tensor(means, dtype=torch.float32)
        tensors[LOSS_UPDATES] = torch.tensor(updates, dtype=torch.int64)
        header = ReplayHeader(
            tokens=self.tokens,
            targets=self.targets,
            heads=self.heads,
            updates=self.updates,
            width=self.losses.width,
        )
        REPLAY.save(path, header, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Replay":
        """Read a file that `save` wrote; a damaged or malformed one raises an error that says what is wrong."""
        with REPLAY.open_file(Path(path)) as (header, tensors):
            check_header(header)
            stacked = {name: check_weights(header, name, tensors(weights_name(name))) for name in header.heads}
            losses = check_dtype(tensors(LOSSES), torch.float32, 1)
            loss_updates = check_dtype(tensors(LOSS_UPDATES), torch.int64, 1)
            if len(losses) != len(loss_updates):
                raise Misfit(f"it has {len(losses)} losses for {len(loss_updates)} updates")
        frames = [{name: stacked[name][number] for name in header.heads} for number in range(len(header.updates))]
        curve = LossCurve(loss_updates.tolist(), losses.tolist(), header.width)
        return cls(header.tokens, header.targets, header.heads, header.updates, frames, curve)

    def __repr__(self) -> str:
        return f"Replay({len(self.frames)} frames of {sum(map(len, self.heads.values()))} heads)"


def weights_name(name: str) -> str:
    """The name in the file of an attention's weights."""
    return f"weights of {name}"


def check_header(header: ReplayHeader) -> None:
    if sorted(set(header.updates)) != header.updates or any(update < 0 for update in header.updates):
        raise Misfit("its updates are not in order")
    if header.width < 1:
        raise Misfit(f"a point of its loss curve is the mean of {header.width} updates, but 1 is the least")


def check_weights(header: ReplayHeader, name: str, weights: Tensor) -> Tensor:
    """The weights under one name, if they are as many as the header says."""
    frames, heads = len(header.updates), len(header.heads[name])
    if check_dtype(weights, torch.float32, 4).shape[:2] != (frames, heads):
        raise Misfit(f"{name!r:.60} should hold {frames} frames of {heads} heads, but it holds {tuple(weights.shape)}")
    return weights


class Recorder:
    """Records a replay into a file while a model is trained.

    read     runs the model on the sentence
    words    the tokens of the sentence and of its targets, for labels
    layers   only these, as in `watch`
    heads    only these heads of each layer; all by default
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
        """Continue the file of an earlier start from that update; at update 0 start a new one."""
        if update == 0 or not self.path.exists():
            return
        replay = Replay.load(self.path)
        if (replay.tokens, replay.targets) != (self.replay.tokens, self.replay.targets):
            raise Misfit(
                f"{self.path} holds a replay of another sentence, from an earlier start of this run; record the same"
                " sentence, or move that file away"
            )
        replay.crop(update)
        self.replay = replay

    def record(self, model: nn.Module, update: int) -> None:
        """Add a frame of the heads as they are now to the file; the model is left unchanged."""
        training = model.training
        model.eval()
        try:
            with torch.no_grad(), watch(model, layers=self.layers) as trace:
                self.read(model)
        finally:
            model.train(training)
        frame = {
            name: view.require_full().weights(batch=0, head=self.heads).float().cpu()
            for name, view in trace.proven().items()
        }
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

    def add_loss(self, update: int, loss: float) -> None:
        self.replay.losses.add(update, loss)

    def save(self) -> None:
        if self.replay.frames:
            self.replay.save(self.path)
