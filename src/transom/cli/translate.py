"""`transom translate`: text to text by an encoder–decoder."""

from typing import Annotated

import typer

from transom.cli.given import AsJson, File, Folder, Texts, counting, printed, texts


def run(
    text: Texts = None,
    model: Folder = ...,  # pyright: ignore[reportArgumentType]
    file: File = None,
    beams: Annotated[int, typer.Option(min=1, help="How many translations to keep in view at a time.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Translate texts with a trained encoder–decoder.

    Example: transom translate --model out/reference/model "the cat sees a bird"
    """
    from transom.models import EncoderDecoder
    from transom.run.texts import ready, translated

    given = texts(text, file)
    found = ready(model, "encoder_decoder")
    assert isinstance(found.model, EncoderDecoder)
    with counting(len(given), "translating") as done:
        said = translated(found.model, found.tokenizer, given, beams, done)
    rows = [{"source": one, "target": other} for one, other in zip(given, said, strict=True)]
    printed(rows, as_json, lambda row: row["target"])
