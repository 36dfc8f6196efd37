"""`transom import`: a model of another library as a folder of Transom's."""

from pathlib import Path
from typing import Annotated

import typer

from transom.cli.cli_io import AsJson, conversion_progress, print_json, print_text

To = Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The new folder; it appears whole or not at all.")]


def run(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A Hugging Face folder, or a GGUF file.")],
    to: To,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="float32, float16, bfloat16 or int8; by default as in the source."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn a model of another library into a folder of Transom's, with its tokenizer: same tokens, same logits.

    Knows GPT-2, Llama, Mistral, Qwen2, Qwen3, SmolLM, BERT, RoBERTa, DistilBERT, MiniLM, Marian, Pegasus, BART and T5.
    Of GGUF files it reads llama, qwen2, qwen3 and gpt2. Nothing is downloaded, and no code of the folder runs. What
    cannot be kept is an error, or a note.

    Example: transom import SmolLM2-135M --to models/smollm2
    """
    from transom.runner.import_model import import_model

    with conversion_progress("reading") as on_tensor:
        report = import_model(source, to, dtype, on_tensor)
    if as_json:
        print_json(report.to_dict())
    else:
        print_text(report.describe())
