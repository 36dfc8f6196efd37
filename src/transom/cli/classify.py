"""`transom classify`: label texts with an encoder."""

from transom.cli.cli_io import AsJson, File, Folder, Texts, print_rows, read_texts, warn_unknown_words


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
    from transom.training.inference import classify, load_for_task

    texts = read_texts(text, file)
    loaded = load_for_task(model, "encoder")
    assert isinstance(loaded.model, Encoder)
    warn_unknown_words(loaded.tokenizer, texts)
    results = classify(loaded.model, loaded.tokenizer, texts)
    rows = [
        {"text": each, "label": result.label, "chances": result.chances}
        for each, result in zip(texts, results, strict=True)
    ]
    print_rows(rows, as_json, lambda row: f"{row['label']}\t{row['chances'][row['label']]:.3f}\t{row['text']}")
