"""`transom classify`: label texts with an encoder."""

from transom.cli.cli_io import AsJson, File, NamedModel, Texts, print_rows, read_texts, warn_unknown_words


def run(
    text: Texts = None,
    model: NamedModel = ...,  # pyright: ignore[reportArgumentType]
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Find the label of each text with a trained encoder.

    Example: transom classify --model out/sst2/model "a quiet, lovely film"
    """
    from transom.runner import load_text_model

    texts = read_texts(text, file)
    loaded = load_text_model(model)
    warn_unknown_words(loaded, texts)
    results = loaded.classify(texts)
    rows = [
        {"text": each, "label": result.label, "chances": result.chances}
        for each, result in zip(texts, results, strict=True)
    ]
    print_rows(rows, as_json, lambda row: f"{row['label']}\t{row['chances'][row['label']]:.3f}\t{row['text']}")
