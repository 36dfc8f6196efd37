"""`transom logits`: a prediction taken apart by heads and layers, and what the model would say after each layer."""

from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cli_io import AnyModel, AsJson, print_json, print_text, warn_unknown_words
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.runner.text_model import TextModel

TokenOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="The token whose logit it is; by default the likeliest.")
]
AgainstOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Another token: the difference of the two logits instead.")
]
RowOption = Annotated[int, typer.Option(metavar="N", help="The position that predicts, from 0; −1 is the last.")]
LensOption = Annotated[bool, typer.Option("--lens", help="What the model would say after each layer.")]


def run(
    text: Annotated[str, typer.Argument(help="What the model reads.")],
    model: AnyModel = None,
    token: TokenOption = None,
    against: AgainstOption = None,
    row: RowOption = -1,
    lens: LensOption = False,
    as_json: AsJson = False,
) -> None:
    """Take a prediction apart: what the embedding, each head and each feed-forward part added to its logit.

    Example: transom logits "The capital of France is" --model path/to/a/folder

    After each layer: transom logits "The capital of France is" --model path/to/a/folder --lens
    """
    from transom.runner import load_text_model
    from transom.runner.residual_layouts import attribute_logit, logit_lens

    loaded = load_text_model(model, text)
    warn_unknown_words(loaded, [text])
    inputs = loaded.encode_text(text).inputs
    target, other = (None if one is None else find_token(loaded, one) for one in (token, against))
    if lens and against is not None:
        raise Misfit("--lens follows one token, but --against names another; leave one of the two out")
    if lens:
        found = logit_lens(loaded.model, inputs, target, row, spell=loaded.token_strings)
    else:
        found = attribute_logit(loaded.model, inputs, target, other, row, spell=loaded.token_strings)
    if as_json:
        print_json({"model": loaded.name, "text": text, **found.to_dict()})
    else:
        print_text(str(found))


def find_token(loaded: "TextModel", text: str) -> int:
    """The id of one token, as the model spells it: with its space, if it has one."""
    pieces = loaded.encode_pieces(text)
    ids = [number for piece in pieces for number in piece]
    matches = [number for number, word in zip(ids, loaded.token_strings(ids), strict=True) if word == text]
    if len(matches) != 1:
        words = ", ".join(map(repr, loaded.token_strings(ids)))
        raise Misfit(f"{text!r:.60} should be one token of {loaded.name}, but it reads {words}; name one of these")
    return matches[0]
