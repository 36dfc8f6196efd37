"""`transom serve`: the local page."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.output import print_json, print_text
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.serve.studio import Studio


def run(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A trace, a replay or a lesson.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="A folder, or a local Hugging Face id; several to choose from, if repeated."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8460,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Let other machines in.")] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="The address as JSON.")] = False,
) -> None:
    """A page to look around inside attention, on this machine only: type a text, or open a file.

    Example: transom serve run.safetensors

    To type into models of your own: transom serve --model out/mine/model --model out/other/model
    """
    from transom.serve.server import LOOPBACK, bound, serve

    if host not in LOOPBACK and not allow_remote:
        raise Misfit(
            f"--host {host} would let other machines in; add --allow-remote if that is meant, and give the address with"
            " its token only to those who may"
        )
    bound(host, port).close()  # a port that is taken is told before anything is loaded
    serve(opened_studio(file, model or []), host, port, lambda address: tell(address, browser, as_json))


def opened_studio(file: Path | None, models: list[str]) -> "Studio":
    """What the page shows: models to run, the translator inside among them, and a trace, a lesson or a replay; of a
    trace alone, no model."""
    from transom.cli.any_model import opened
    from transom.serve.studio import Studio

    if file is not None and file.suffix != ".toml" and not is_replay(file):
        import transom

        return Studio(*map(opened, models), trace=transom.Trace.load(file), name=file.name)
    runs = [opened(name) for name in [*models, None]]
    if file is None:
        return Studio(*runs)
    if file.suffix == ".toml":
        from transom.lessons import read

        return Studio(*runs, lesson=read(file))
    from transom.lens.replay import Replay

    return Studio(*runs, replay=Replay.load(file))


def is_replay(file: Path) -> bool:
    """Whether a file says that it is a replay; all else is taken for a trace, which tells what is wrong with it."""
    from transom.files.headers import header
    from transom.lens.on_file.replay_file import FORMAT

    try:
        return header(file, 2**24).get("__metadata__", {}).get("format") == FORMAT
    except (OSError, Misfit, AttributeError):
        return False


def tell(address: str, browser: bool, as_json: bool) -> None:
    """The address, on standard output; and in a browser, where one can be opened."""
    seen = browser and sys.stdout.isatty() and has_screen() and opens(address)
    where = "the page is open in your browser, and at" if seen else "open this address in a browser"
    print_text(f"{where} (the token in it is its key: keep it to yourself; Ctrl-C ends the page):", stderr=True)
    if as_json:
        print_json({"address": address}, indent=None)
    else:
        print_text(address)
    sys.stdout.flush()


def has_screen() -> bool:
    """Whether a browser would have a window: one that draws in this terminal would take it over."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def opens(address: str) -> bool:
    import webbrowser

    return webbrowser.open(address)
