"""Recording a replay while a model is trained: ties the training, which knows no lens, to the lens."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import Tensor, nn

    from transom.lens.replay import Recorder
    from transom.run.training import Callback, Step, Training

REPLAY = "replay.safetensors"
FRAMES = 100  # of a whole run, unless told otherwise


def recording(folder: Path, text: str, target: str | None, every: int | None) -> "Callback":
    """What a training calls, for a replay in its folder."""
    from transom.run.training import Callback

    # Made here: a command's file must not load torch before it is called.
    return type("Recorded", (Recording, Callback), {})(folder, text, target, every)


class Recording:
    """Lets the model read one sentence at the start, every so many updates and at the end; keeps where it looked."""

    def __init__(self, folder: Path, text: str, target: str | None, every: int | None) -> None:
        self.path, self.text, self.target, self.every = folder / REPLAY, text, target, every
        self.recorder: Recorder | None = None

    def started(self, training: "Training") -> None:
        from transom.lens.replay import Recorder

        inputs, words = probe(training.task, training.model, self.text, self.target)
        device = training.world.device
        self.every = self.every or max(1, training.updates // FRAMES)

        def read(model: "nn.Module") -> object:
            return model(*(x.to(device) for x in inputs))

        self.recorder = Recorder(self.path, read, words)
        done = training.standing.place.updates
        if training.world.leads:
            self.recorder.resume(done)
        if done == 0:
            self.record(training, 0)

    def updated(self, training: "Training", step: "Step") -> None:
        assert self.recorder is not None
        self.recorder.lost(step.update, step.loss)
        if step.update % (self.every or 1) == 0 or step.update == step.updates:
            self.record(training, step.update)

    def record(self, training: "Training", update: int) -> None:
        """One frame; all processes bring the model together, and the one that leads reads with it."""
        from transom.lens.trace import Disproved

        assert self.recorder is not None
        with training.world.whole(training.wrapped):
            if training.world.leads:
                try:
                    self.recorder.record(training.model, update)
                except Disproved as error:
                    training.noted(f"no frame of update {update} is in the replay: {error}")

    def ended(self, training: "Training") -> None:
        if self.recorder is not None and training.world.leads:
            self.recorder.save()


def probe(task: Any, model: Any, text: str, target: str | None) -> tuple[list["Tensor"], tuple[Any, Any]]:
    """The sentence as the model takes it, and its words."""
    import torch

    tokenizer = task.tokenizer
    ids = tokenizer.encode(text)
    if not ids:
        raise Misfit(
            "the sentence to record is empty, but there must be something to read; give --record a word or more"
        )
    two_sided = task.model_kind == "encoder_decoder"
    if two_sided and target is None:
        raise Misfit(
            "an encoder–decoder reads a target too, but only a source came; give --record-target what it should write"
        )
    if target is not None and not two_sided:
        raise Misfit(
            f"only an encoder–decoder reads a target, but this is one {task.model_kind} alone; leave --record-target"
            " out"
        )
    if not two_sided:
        check_length(model, ids)
        return [torch.tensor([ids])], ([tokenizer.pieces(ids)], None)
    source, read = [*ids, tokenizer.end], [tokenizer.start, *tokenizer.encode(target)]
    check_length(model, source)
    check_length(model, read)
    words = ([tokenizer.pieces(source)], [tokenizer.pieces(read)])
    return [torch.tensor([source]), torch.tensor([read])], words


def check_length(model: Any, ids: list[int]) -> None:
    longest = model.config.longest
    if len(ids) > longest:
        raise Misfit(f"the sentence to record has {len(ids)} tokens, but the model takes {longest}; give a shorter one")
