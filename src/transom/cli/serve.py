"""`transom serve`: the local page."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from transom.names import Misfit


def run(
    trace: Annotated[Path | None, typer.Argument(metavar="[TRACE]", help="A file that trace.save wrote.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="A folder, or a local Hugging Face id; else English to French."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8460,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Let other machines in.")] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="The address as JSON.")] = False,
) -> None:
    """A page to look around inside attention, on this machine only: type a text, or open a trace.

    Example: transom serve run.safetensors
    """
    from transom.serve.server import LOOPBACK, serve

    if host not in LOOPBACK and not allow_remote:
        raise Misfit(
            f"--host {host} would let other machines in; add --allow-remote if that is meant, and give the address with"
            " its token only to those who may"
        )
    if trace is not None and model is not None:
        raise Misfit("a trace and a model came, but one thing is opened at a time; leave one of them out")
    serve(opened_studio(trace, model), host, port, lambda address: tell(address, browser, as_json))


def opened_studio(trace: Path | None, model: str | None):
    """What the page shows: a trace, or a model to run."""
    from transom.serve.studio import Studio

    if trace is not None:
        import transom

        return Studio(trace=transom.Trace.load(trace), name=trace.name)
    from transom.cli.any_model import opened

    return Studio(model=opened(model))


def tell(address: str, browser: bool, as_json: bool) -> None:
    """The address, on standard output; and in a browser, where one can be opened."""
    typer.echo(json.dumps({"address": address}) if as_json else address)
    sys.stdout.flush()
    typer.echo("Ctrl-C ends it; the address is the key, so keep it to yourself", err=True)
    if browser and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(address)
