"""`transom site`: a folder for any web host, with the translator in the browser, the lessons and recorded runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transom.cli.cli_io import print_json, print_note, print_text
from transom.names import Misfit


def run(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to build it.")] = Path("out/site"),
    record: Annotated[
        list[str] | None,
        typer.Option("--record", metavar="NAME=FOLDER:TEXT", help="A model's run for the gallery; repeat it."),
    ] = None,
    licence: Annotated[
        list[str] | None,
        typer.Option("--licence", metavar="NAME=LICENCE", help="The licence of a recorded model; repeat it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was built, as JSON.")] = False,
) -> None:
    """Build a static site: the page on the translator in the visitor's browser, all lessons, recorded runs.

    Example: transom site out/site --record "SmolLM2=models/smollm2:The cat sat" --licence SmolLM2=Apache-2.0

    To look at it: python -m http.server --directory out/site --bind 127.0.0.1
    """
    from transom.serve.recorded_runs import parse_record
    from transom.serve.site import build_site

    licences = dict(parse_licence(given) for given in licence or [])
    records = [parse_record(given, licences) for given in record or []]
    built = build_site(folder, records, lambda step: print_note(f"building {step}"))
    if as_json:
        print_json(asdict(built))
        return
    before, with_model = built.playground_bytes / 1e3, (built.playground_bytes + built.model_bytes) / 1e6
    print_text(f"{built.folder}: {built.files} files, {built.bytes / 1e6:.1f} MB; put it on any web host")
    print_text(f"the playground: {before:.0f} kB before the model, {with_model:.1f} MB with it")
    print_text(f"{built.lessons} lessons; recorded: {', '.join(built.recorded) or 'none'}")


def parse_licence(given: str) -> tuple[str, str]:
    name, is_given, licence = given.partition("=")
    if not is_given or not name.strip() or not licence.strip():
        raise Misfit(f"a licence is NAME=LICENCE, but got {given!r:.80}; write SmolLM2=Apache-2.0")
    return name.strip(), licence.strip()
