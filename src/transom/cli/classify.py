"""`transom classify`: text to label by an encoder."""

from transom.cli.given import AsJson, File, Folder, Texts, printed, tell_unknown, texts, unknown_in


def run(
    text: Texts = None,
    model: Folder = ...,  # pyright: ignore[reportArgumentType]
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Find the label of each text with a trained encoder.

    Example: transom classify --model out/sst2/model "a quiet, lovely film"
    """
    from transom.models import Encoder
    from transom.run.texts import classified, ready

    given = texts(text, file)
    found = ready(model, "encoder")
    assert isinstance(found.model, Encoder)
    tell_unknown(unknown_in(given, found.tokenizer))
    said = classified(found.model, found.tokenizer, given)
    rows = [
        {"text": one, "label": label.label, "chances": label.chances} for one, label in zip(given, said, strict=True)
    ]
    printed(rows, as_json, lambda row: f"{row['label']}\t{row['chances'][row['label']]:.3f}\t{row['text']}")
