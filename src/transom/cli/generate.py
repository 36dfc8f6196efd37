"""`transom generate`: continue a text with a decoder."""

from functools import partial
from typing import Annotated, Any

import typer

from transom.cli.cli_io import AsJson, NamedModel, print_json, print_result, warn_unknown_words
from transom.names import Misfit


def run(
    prompt: Annotated[str, typer.Argument(help="The text to continue; empty to begin a new one.")] = "",
    model: NamedModel = ...,  # pyright: ignore[reportArgumentType]
    tokens: Annotated[int, typer.Option(min=1, help="The most new tokens to write.")] = 200,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Below 1 safer, above 1 more varied; 0 takes the most likely token.")
    ] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Draw only from the k most likely tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw only from the most likely tokens with this probability together.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed writes the same text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Continue a prompt with a trained decoder; on a terminal each piece is shown as soon as it is written.

    Example: transom generate --model out/shakespeare/model "To be" --seed 1
    """
    from transom.runner import load_text_model

    loaded = load_text_model(model)
    warn_unknown_words(loaded, [prompt])
    settings = {"max_new_tokens": tokens, **sampling_settings(temperature, top_k, top_p, seed)}
    if as_json:
        print_json([{"prompt": prompt, "text": loaded.generate([prompt], **settings)[0]}])
        return
    print_piece = partial(print_result, end="")
    print_piece(prompt)
    loaded.generate([prompt], stream=print_piece, **settings)
    print_result("")


def sampling_settings(temperature: float, top_k: int | None, top_p: float | None, seed: int | None) -> dict[str, Any]:
    """How tokens are drawn; nothing if the most likely token is taken."""
    settings = {"top_k": top_k, "top_p": top_p, "seed": seed}
    if temperature > 0:
        return {"do_sample": True, "temperature": temperature, **settings}
    for name, value in settings.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise Misfit(f"--temperature 0 draws no tokens, but got {option} {value} too; leave one of the two out")
    return {}
