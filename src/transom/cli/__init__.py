"""The command `transom`: one module per command, imported when it is called, so that `--help` is quick."""

import logging
import re
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from transom import __version__
from transom.cli.cli_io import make_tolerant, print_note, print_text, safe_warnings
from transom.names import Misfit

BAD_USE = 2
INTERNAL_ERROR = 3
STOPPED = 130  # by Ctrl-C


class Command(NamedTuple):
    """The module of a command, whose function is `run`, and one line of help."""

    module: str
    help: str


COMMANDS = {
    "tour": Command("transom.cli.tour", "“The cat sat” through self-attention, with every number."),
    "see": Command("transom.cli.see", "Where a model looks in a text, and whether that matters."),
    "effect": Command("transom.cli.effect", "Knock edges or a head out of a model, and say what changes."),
    "sources": Command("transom.cli.sources", "Which passages of some texts made an answer."),
    "logits": Command("transom.cli.logits", "A prediction taken apart by heads and layers."),
    "learn": Command("transom.cli.learn", "Lessons on attention, step by step, with every number."),
    "exercises": Command("transom.cli.exercises", "Exercises on a lesson, from a seed, with checked solutions."),
    "check": Command("transom.cli.check", "Check every figure of a worked example, and say why one is wrong."),
    "serve": Command("transom.cli.serve", "A local page to explore attention."),
    "site": Command("transom.cli.site", "A static site: the translator in a browser, lessons, runs."),
    "train": Command("transom.cli.train", "Train a model from a recipe; resumes after a stop."),
    "evaluate": Command("transom.cli.evaluate", "Evaluate a trained model on its recipe's test examples."),
    "diff": Command("transom.cli.diff", "What moved between two models."),
    "translate": Command("transom.cli.translate", "Translate texts with an encoder–decoder."),
    "generate": Command("transom.cli.generate", "Continue a prompt with a decoder."),
    "classify": Command("transom.cli.classify", "Label texts with an encoder."),
    "import": Command("transom.cli.import_model", "Turn a model of another library into one of Transom's."),
    "export": Command("transom.cli.export_model", "Turn a model of Transom's into one for transformers."),
    "heads": Command("transom.cli.heads", "Measure every head of a model over texts."),
    "doctor": Command("transom.cli.doctor", "What Transom runs on here: versions, engine, threads, devices."),
}
VALUE_NAMES = {"str": "TEXT", "int": "N", "int range": "N", "float": "NUMBER", "float range": "NUMBER", "path": "FILE"}


class PlainHelpCommand(TyperCommand):
    """A command with plain help: N, not <int range>; at least 1, not x>=1."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_rows = formatter.write_dl
        formatter.write_dl = lambda rows: write_rows([format_option_row(*row) for row in rows])
        super().format_options(ctx, formatter)
        formatter.write_dl = write_rows


def format_option_row(name: str, help: str) -> tuple[str, str]:
    """An option with the plain name of its value, or an argument, which has a name of its own."""
    is_option = name.startswith("-")
    name = re.sub(r" <(.+)>$", lambda match: f" {VALUE_NAMES.get(match[1], match[1])}" if is_option else "", name)
    help = re.sub(r"([\d.]+)<=x<=([\d.]+)(?=[];])", r"\1 to \2", help)
    return name, re.sub(r"x>=([\d.]+)(?=[];])", r"at least \1", help)


class CommandGroup(TyperGroup):
    """The table COMMANDS as a command line; a command's module is imported only when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = COMMANDS[cmd_name]
        only = typer.Typer(add_completion=False, rich_markup_mode=None)
        only.command(cmd_name, cls=PlainHelpCommand, short_help=command.help)(import_module(command.module).run)
        return get_command(only)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}; there are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


app = typer.Typer(cls=CommandGroup, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def show_version(is_set: bool) -> bool:
    if is_set:
        print_text(f"transom {__version__}")
        raise typer.Exit
    return is_set


@app.callback(epilog="Example: transom tour --json")
def transom(
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A window into self-attention: see exactly which token looked at which, with what weights."""
    if debug:
        logging.getLogger("transom").setLevel(logging.DEBUG)  # then transom serve logs tracebacks too


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line. Exit codes: 0 done, 1 a finding, 2 bad use or input, 3 an internal error, 130 Ctrl-C."""
    args = list(sys.argv[1:] if args is None else args) or ["--help"]
    debug = "--debug" in args
    if debug:  # it may also come after the command
        args = ["--debug", *(arg for arg in args if arg != "--debug")]
    make_tolerant(sys.stdout, sys.stderr)
    try:
        with safe_warnings():
            code = get_command(app).main(args, prog_name="transom", standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        return STOPPED
    except Exception as error:
        if debug:
            print_text(traceback.format_exc(), stderr=True, end="")
        return report_error(error)
    return code if isinstance(code, int) else 0


def report_error(error: Exception) -> int:
    """Print an error as one line on stderr; returns the exit code."""
    message, code = str(error), BAD_USE
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        message = f"{error.format_message().rstrip('.')}; see {context.command_path if context else 'transom'} --help"
    elif not isinstance(error, Misfit):
        message = f"{type(error).__name__}: {error}; this is an internal error, and --debug shows where"
        code = INTERNAL_ERROR
    print_note(message)
    return code
