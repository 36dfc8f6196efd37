"""`transom export`: a model of Transom's as a folder for transformers."""

from typing import Annotated

import typer

from transom.cli.cli_io import AsJson, print_json, print_text
from transom.cli.import_model import To


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

    The tokenizer goes along; transformers' tokens are compared with Transom's before the folder appears.

    Example: transom export out/translator/model --to exported
    """
    from transom.runner.export_model import export_model

    report = export_model(source, to, family, dtype)
    if as_json:
        print_json(report.to_dict())
    else:
        print_text(report.describe())
