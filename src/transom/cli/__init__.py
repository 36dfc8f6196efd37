"""The command `transom`: one file per command, loaded when it is called, so that `--help` stays quick."""

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
from transom.cli.output import make_tolerant, print_note, print_text, safe_warnings
from transom.names import Misfit

BAD_USE = 2
OUR_FAULT = 3
STOPPED = 130  # by Ctrl-C


class Command(NamedTuple):
    """Where a command lives (its function is `run`), and what it does in one line."""

    module: str
    help: str


COMMANDS = {
    "tour": Command("transom.cli.tour", "“The cat sat” through self-attention, with every number."),
    "see": Command("transom.cli.see", "A text through a model: where it looks, and what that is worth."),
    "learn": Command("transom.cli.learn", "Lessons on attention, every number worked out, a step at a time."),
    "check": Command("transom.cli.check", "A worked example proved: each figure right or wrong, and why."),
    "serve": Command("transom.cli.serve", "A page on this machine to look around inside attention."),
    "train": Command("transom.cli.train", "A model from a recipe; goes on where it was stopped."),
    "evaluate": Command("transom.cli.evaluate", "A trained model on what its recipe kept for the end."),
    "translate": Command("transom.cli.translate", "Text to text, by an encoder–decoder."),
    "generate": Command("transom.cli.generate", "Writing on after a prompt, by a decoder."),
    "classify": Command("transom.cli.classify", "The label of a text, by an encoder."),
    "heads": Command("transom.cli.heads", "What every head of a model does, measured over texts."),
    "doctor": Command("transom.cli.doctor", "What Transom runs on here: versions, engine, threads, devices."),
}


KINDS = {"str": "TEXT", "int": "N", "int range": "N", "float": "NUMBER", "float range": "NUMBER", "path": "FILE"}


class InPlainWords(TyperCommand):
    """A command whose help names what to give as people do: N, not <int range>; at least 1, not x>=1."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write = formatter.write_dl
        formatter.write_dl = lambda rows: write([plainly(*row) for row in rows])
        super().format_options(ctx, formatter)
        formatter.write_dl = write


def plainly(name: str, help: str) -> tuple[str, str]:
    """An option with the kind of its value in a word, an argument without it: its name says enough."""
    name = re.sub(r" <(.+)>$", lambda found: f" {KINDS.get(found[1], found[1])}" if name[0] == "-" else "", name)
    help = re.sub(r"([\d.]+)<=x<=([\d.]+)(?=[];])", r"\1 to \2", help)
    return name, re.sub(r"x>=([\d.]+)(?=[];])", r"at least \1", help)


class Commands(TyperGroup):
    """The table COMMANDS as a command line; a command's file is imported only when that command is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = COMMANDS[cmd_name]
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name, cls=InPlainWords, short_help=command.help)(import_module(command.module).run)
        return get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}; there are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def show_version(wanted: bool) -> bool:
    if wanted:
        print_text(f"transom {__version__}")
        raise typer.Exit
    return wanted


@app.callback(epilog="Example: transom tour --json")
def transom(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """A window into self-attention: see exactly who looked at whom, with what numbers."""
    if debug:
        logging.getLogger("transom").setLevel(logging.DEBUG)  # then transom serve logs tracebacks too


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line. Exit codes: 0 done, 1 a finding, 2 bad use or input, 3 our own fault, 130 Ctrl-C."""
    words = list(sys.argv[1:] if args is None else args) or ["--help"]
    debug = "--debug" in words
    if debug:  # wherever it stands, also behind the command
        words = ["--debug", *(word for word in words if word != "--debug")]
    make_tolerant(sys.stdout, sys.stderr)
    try:
        with safe_warnings():
            code = get_command(app).main(words, prog_name="transom", standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        return STOPPED
    except Exception as error:
        if debug:
            print_text(traceback.format_exc(), stderr=True, end="")
        return complaint(error)
    return code if isinstance(code, int) else 0


def complaint(error: Exception) -> int:
    """The error as one line on stderr, whatever its message holds; gives the exit code that fits."""
    message, code = str(error), BAD_USE
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        message = f"{error.format_message().rstrip('.')}; see {context.command_path if context else 'transom'} --help"
    elif not isinstance(error, Misfit):
        message = f"{type(error).__name__}: {error}; this is a fault of Transom's own, and --debug shows where it is"
        code = OUR_FAULT
    print_note(message)
    return code
