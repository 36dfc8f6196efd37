"""`transom export`: a model of Transom's as a folder for transformers, or as a GGUF file for llama.cpp."""

from pathlib import Path
from typing import Annotated

import typer

from transom.cli.cli_io import AsJson, conversion_progress, print_json, print_text

To = Annotated[
    Path,
    typer.Option(
        "--to", metavar="FOLDER_OR_FILE", help="The new folder, or a file .gguf; it appears whole or not at all."
    ),
]


def run(
    to: To,
    source: Annotated[
        str | None,
        typer.Argument(metavar="FOLDER", help="A Transom model; by default the translator from English to French."),
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model_type; by default the first that has all its parts.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(metavar="NAME", help="float32, float16 or bfloat16; by default float32.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn a model of Transom's into a folder that transformers loads, and with it CTranslate2, vLLM and others.

    The tokenizer goes along; transformers' tokens are compared with Transom's before the folder appears. A name that
    ends in .gguf makes a GGUF file for llama.cpp of a decoder; it is read again and compared before it appears.

    Example: transom export out/translator/model --to exported
    """
    from transom.runner.export_model import export_model

    with conversion_progress("exporting") as on_step:
        report = export_model(source, to, family, dtype, on_step)
    if as_json:
        print_json(report.to_dict())
    else:
        print_text(report.describe())
