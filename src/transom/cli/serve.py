"""`transom serve`: start the local page."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cli_io import print_json, print_text
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.serve.session import Session


def run(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A trace, a replay or a lesson.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="A folder, or a local Hugging Face id; repeat it to choose from several."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8460,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Allow other machines.")] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="The address as JSON.")] = False,
) -> None:
    """Open a local page to explore attention: type a text, or open a file.

    Example: transom serve run.safetensors

    To type into your own models: transom serve --model out/mine/model --model out/other/model
    """
    from transom.serve.server import LOOPBACK, bind_socket, serve

    if host not in LOOPBACK and not allow_remote:
        raise Misfit(
            f"--host {host} would let other machines in; add --allow-remote if you want that, and give the address with"
            " its token only to people you trust"
        )
    bind_socket(host, port).close()  # a port in use is an error before anything is loaded
    serve(open_session(file, model or []), host, port, lambda address: print_address(address, browser, as_json))


def open_session(file: Path | None, models: list[str]) -> "Session":
    """The models and the file to open; the embedded translator is among the models unless the file is a trace."""
    from transom.lens import Replay, Trace
    from transom.lessons import load_lesson
    from transom.runner import load_text_model
    from transom.serve.session import Session

    if file is not None and file.suffix != ".toml" and not is_replay(file):
        return Session(*map(load_text_model, models), trace=Trace.load(file), name=file.name)
    text_models = [load_text_model(name) for name in [*models, None]]
    if file is None:
        return Session(*text_models)
    if file.suffix == ".toml":
        return Session(*text_models, lesson=load_lesson(file))
    return Session(*text_models, replay=Replay.load(file))


def is_replay(file: Path) -> bool:
    """Whether a file says that it is a replay; any other is opened as a trace, which says what is wrong with it."""
    from transom.files.safetensors_header import read_header
    from transom.lens.replay import REPLAY

    try:
        return read_header(file, 2**24).get("__metadata__", {}).get("format") == REPLAY.name
    except (OSError, Misfit, AttributeError):
        return False


def print_address(address: str, browser: bool, as_json: bool) -> None:
    """Print the address on standard output, and open it in a browser if there is one."""
    is_open = browser and sys.stdout.isatty() and has_screen() and open_browser(address)
    where = "the page is open in your browser, and at" if is_open else "open this address in a browser"
    print_text(f"{where} (its token gives access to the page, so keep it private; Ctrl-C ends the page):", stderr=True)
    if as_json:
        print_json({"address": address}, indent=None)
    else:
        print_text(address)
    sys.stdout.flush()


def has_screen() -> bool:
    """Whether a browser would open a window; one inside this terminal would take it over."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(address: str) -> bool:
    import webbrowser

    return webbrowser.open(address)
