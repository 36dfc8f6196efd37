"""`transom generate`: writing on, by a decoder."""

from typing import Annotated, Any

import typer

from transom.cli.given import AsJson, Folder, printed, tell_unknown, unknown_in
from transom.cli.output import print_result


def run(
    prompt: Annotated[str, typer.Argument(help="What to go on from; empty to begin anew.")] = "",
    model: Folder = ...,  # pyright: ignore[reportArgumentType]
    tokens: Annotated[int, typer.Option(min=1, help="The most new tokens to write.")] = 200,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Below 1 more certain, above 1 more daring; 0 takes the likeliest.")
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
    tell_unknown(unknown_in([prompt], found.tokenizer))
    settings = {"max_new_tokens": tokens, **drawing(temperature, top_k, top_p, seed)}
    if as_json:
        said = written_on(found.model, found.tokenizer, prompt, **settings)
        printed([{"prompt": prompt, "text": said}], True, lambda row: row["text"])
        return
    shown_at_once(prompt)
    written_on(found.model, found.tokenizer, prompt, shown_at_once, **settings)
    print_result("")


def drawing(temperature: float, top_k: int | None, top_p: float | None, seed: int | None) -> dict[str, Any]:
    """How tokens are drawn, or nothing where the likeliest is taken."""
    from transom.names import Misfit

    chances = {"top_k": top_k, "top_p": top_p, "seed": seed}
    if temperature > 0:
        return {"do_sample": True, "temperature": temperature, **chances}
    for name, value in chances.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise Misfit(f"at --temperature 0 nothing is drawn, but {option} {value} came; leave one of the two out")
    return {}


def shown_at_once(piece: str) -> None:
    print_result(piece, end="")
