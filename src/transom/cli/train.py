"""`transom train`: train a model from a recipe, and record a replay if asked."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli import STOPPED
from transom.cli.cli_io import Settings, print_json, print_note, print_text
from transom.names import Misfit
from transom.runner.text_model import KINDS

if TYPE_CHECKING:
    from torch import Tensor, nn

    from transom.lens.replay import Recorder
    from transom.training.loop import TrainingLoop, UpdateResult

REPLAY = "replay.safetensors"
FRAMES = 100  # of a replay, by default


def run(
    recipe: Annotated[Path, typer.Argument(help="A TOML recipe; recipes/reference.toml explains every setting.")],
    sets: Settings = None,
    record: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A sentence to read now and then, for a replay of every head."),
    ] = None,
    record_target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The target of that sentence, for an encoder–decoder.")
    ] = None,
    record_every: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Updates between two frames of the replay; by default 100 frames."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The model's folder and every evaluation, as JSON.")] = False,
) -> None:
    """Train a model from a recipe; if it is stopped, the same command resumes from the last checkpoint.

    Example: transom train recipes/reverse.toml --set train.updates=200

    With --record, replay.safetensors beside the model shows where every head looks in that sentence.

    On several processes: torchrun --nproc-per-node 2 -m transom train RECIPE
    """
    from transom.training.distributed import join_world
    from transom.training.progress import progress_for
    from transom.training.recipe import load_recipe
    from transom.training.train import train

    loaded = load_recipe(recipe, sets or [])
    run_folder = Path(loaded.folder)
    callbacks = [progress_for(sys.stderr), *replay_callbacks(run_folder, record, record_target, record_every)]
    with join_world() as world:
        try:
            model_folder = train(loaded, world, callbacks)
        except KeyboardInterrupt:
            print_note("stopped; the same command resumes from the last checkpoint")
            raise typer.Exit(STOPPED) from None
        if not world.leads:
            return
    if as_json:
        print_json({"model": str(model_folder), "judged": read_evaluations(run_folder)})
    else:
        print_text(str(model_folder))


def read_evaluations(folder: Path) -> list[dict[str, Any]]:
    """The evaluations in the log of a run, each with its update."""
    from transom.training.run_log import read_log
    from transom.training.train import LOG

    lines = [line for line in read_log(folder / LOG) if isinstance(line.get("judged"), dict)]
    return [{"update": line["update"], **line["judged"]} for line in lines]


def replay_callbacks(folder: Path, text: str | None, target: str | None, every: int | None) -> list[Any]:
    """The callback that records a replay, if there is a sentence to record."""
    if text is not None:
        from transom.training.loop import Callback

        # This file must not import torch, so the base class is added here.
        return [type("Recording", (ReplayCallback, Callback), {})(folder, text, target, every)]
    if target is not None or every is not None:
        raise Misfit("there is nothing to record without a sentence; give --record TEXT")
    return []


class ReplayCallback:
    """Records the attention of the model on one sentence: at the start, every so many updates, and at the end."""

    def __init__(self, folder: Path, text: str, target: str | None, every: int | None) -> None:
        self.path, self.text, self.target, self.every = folder / REPLAY, text, target, every
        self.recorder: Recorder | None = None

    def on_start(self, training: "TrainingLoop") -> None:
        from transom.lens.replay import Recorder

        inputs, tokens = sentence_inputs(training.task, training.model, self.text, self.target)
        device = training.world.device
        self.every = self.every or max(1, training.total_updates // FRAMES)

        def read(model: "nn.Module") -> object:
            return model(*(x.to(device) for x in inputs))

        self.recorder = Recorder(self.path, read, tokens)
        updates = training.state.position.updates
        if training.world.leads:
            self.recorder.resume(updates)
        if updates == 0:
            self.record(training, 0)

    def on_update(self, training: "TrainingLoop", result: "UpdateResult") -> None:
        assert self.recorder is not None
        self.recorder.add_loss(result.update, result.loss)
        if result.update % (self.every or 1) == 0 or result.update == result.total_updates:
            self.record(training, result.update)

    def record(self, training: "TrainingLoop", update: int) -> None:
        """Add one frame; all processes gather the parameters, and the one that leads runs the model."""
        from transom.lens.trace import ReceiptFailed

        assert self.recorder is not None
        with training.world.gather_parameters(training.wrapped):
            if training.world.leads:
                try:
                    self.recorder.record(training.model, update)
                except ReceiptFailed as error:
                    training.note(f"the replay has no frame of update {update}: {error}")

    def on_end(self, training: "TrainingLoop") -> None:
        if self.recorder is not None and training.world.leads:
            self.recorder.save()


def sentence_inputs(task: Any, model: Any, text: str, target: str | None) -> tuple[list["Tensor"], tuple[Any, Any]]:
    """The sentence as the model takes it, and its tokens: of the source, and of the target if there is one."""
    import torch

    tokenizer = task.tokenizer
    ids = tokenizer.encode(text)
    if not ids:
        raise Misfit(
            "the sentence to record is empty, but there must be something to read; give --record a word or more"
        )
    rows = [ids]
    if task.model_kind == "encoder_decoder":
        if target is None:
            raise Misfit("an encoder–decoder reads a target too, but got only a source; give --record-target")
        rows = [[*ids, tokenizer.end], [tokenizer.start, *tokenizer.encode(target)]]
    elif target is not None:
        kind = KINDS[task.model_kind]
        raise Misfit(f"only an encoder–decoder reads a target, but this model is {kind}; leave --record-target out")
    longest = model.config.longest
    for row in rows:
        if len(row) > longest:
            raise Misfit(
                f"the sentence to record has {len(row)} tokens, but the model takes {longest}; give a shorter one"
            )
    tokens = [[tokenizer.pieces(row)] for row in rows]
    return [torch.tensor([row]) for row in rows], (tokens[0], tokens[1] if len(tokens) > 1 else None)
