"""`transom translate`: text to text with an encoder–decoder."""

from typing import Annotated

import typer

from transom.cli.cli_io import AnyModel, AsJson, File, Texts, print_rows, progress_bar, read_texts, warn_unknown_words


def run(
    text: Texts = None,
    model: AnyModel = None,
    file: File = None,
    beams: Annotated[int, typer.Option(min=1, help="How many translations the beam search keeps at a time.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Translate texts with a trained encoder–decoder; by default with the English–French one that comes with Transom.

    Example: transom translate "Where do you live?"
    """
    from transom.runner import load_text_model

    blanks = not text  # empty lines are kept, so that the lines of source and target match
    texts = read_texts(text, file, blanks=True)
    loaded = load_text_model(model)
    warn_unknown_words(loaded, texts)
    with progress_bar(sum(bool(each.strip()) for each in texts), "translating") as advance:
        translations = loaded.translate(texts, beams, advance, blanks)
    rows = [{"source": source, "target": target} for source, target in zip(texts, translations, strict=True)]
    print_rows(rows, as_json, lambda row: row["target"])
