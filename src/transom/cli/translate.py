"""`transom translate`: text to text by an encoder–decoder."""

from pathlib import Path
from typing import Annotated

import typer

from transom.cli.given import AsJson, File, Texts, counting, printed, tell_unknown, texts, unknown_in


def run(
    text: Texts = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FOLDER", help="A model; unless given, English to French.")
    ] = None,
    file: File = None,
    beams: Annotated[int, typer.Option(min=1, help="How many translations to keep in view at a time.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Translate texts with a trained encoder–decoder; unless one is named, the English–French one inside Transom.

    Example: transom translate "Where do you live?"
    """
    from transom.models import EncoderDecoder
    from transom.models.embedded import embedded
    from transom.run.texts import ready, translated

    given, blanks = texts(text, file, blanks=True), not text  # an empty line stays one, so that lines stay in step
    found = ready(embedded() if model is None else model, "encoder_decoder")
    assert isinstance(found.model, EncoderDecoder)
    tell_unknown(unknown_in(given, found.tokenizer))
    with counting(sum(bool(one.strip()) for one in given), "translating") as done:
        said = translated(found.model, found.tokenizer, given, beams, done, blanks)
    rows = [{"source": one, "target": other} for one, other in zip(given, said, strict=True)]
    printed(rows, as_json, lambda row: row["target"])
