"""`transom generate`: writing on, by a decoder."""

import sys
from typing import Annotated

import typer

from transom.cli.given import AsJson, Folder, printed


def run(
    prompt: Annotated[str, typer.Argument(help="What to go on from; empty to begin anew.")] = "",
    model: Folder = ...,  # pyright: ignore[reportArgumentType]
    tokens: Annotated[int, typer.Option(min=1, help="The most new tokens to write.")] = 200,
    temperature: Annotated[
        float, typer.Option(help="Below 1 more certain, above 1 more daring; 0 takes the likeliest.")
    ] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Draw only from the k likeliest.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw only from the likeliest that make up this share.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed writes the same.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write on after a prompt with a trained decoder; on a terminal each piece is shown as it comes.

    Example: transom generate --model out/shakespeare/model "To be" --seed 1
    """
    from transom.models import Decoder
    from transom.run.texts import ready, written_on

    found = ready(model, "decoder")
    assert isinstance(found.model, Decoder)
    settings = {"max_new_tokens": tokens, "seed": seed}
    if temperature > 0:
        settings |= {"do_sample": True, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    if as_json:
        said = written_on(found.model, found.tokenizer, prompt, **settings)
        printed([{"prompt": prompt, "text": said}], True, lambda row: row["text"])
        return
    sys.stdout.write(prompt)
    written_on(found.model, found.tokenizer, prompt, shown_at_once, **settings)
    sys.stdout.write("\n")


def shown_at_once(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()
