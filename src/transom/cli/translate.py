"""`transom translate`: text to text with an encoder–decoder."""

from pathlib import Path
from typing import Annotated

import typer

from transom.cli.cli_io import AsJson, File, Texts, print_rows, progress_bar, read_texts, warn_unknown_words


def run(
    text: Texts = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="FOLDER", help="The folder of a model; by default English to French."),
    ] = None,
    file: File = None,
    beams: Annotated[int, typer.Option(min=1, help="How many translations the beam search keeps at a time.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Translate texts with a trained encoder–decoder; by default with the English–French one that comes with Transom.

    Example: transom translate "Where do you live?"
    """
    from transom.models import EncoderDecoder
    from transom.models.embedded import embedded_folder
    from transom.training.inference import load_for_task, translate

    blanks = not text  # empty lines are kept, so that the lines of source and target match
    texts = read_texts(text, file, blanks=True)
    loaded = load_for_task(embedded_folder() if model is None else model, "encoder_decoder")
    assert isinstance(loaded.model, EncoderDecoder)
    warn_unknown_words(loaded.tokenizer, texts)
    with progress_bar(sum(bool(each.strip()) for each in texts), "translating") as advance:
        translations = translate(loaded.model, loaded.tokenizer, texts, beams, advance, blanks)
    rows = [{"source": source, "target": target} for source, target in zip(texts, translations, strict=True)]
    print_rows(rows, as_json, lambda row: row["target"])
