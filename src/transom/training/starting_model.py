"""A run that starts from a trained model, also with another tokenizer: its embedding is made anew from the old one."""

from pathlib import Path

import torch
from jaxtyping import Float
from msgspec.structs import asdict
from torch import Tensor

from transom.models import Model
from transom.names import Misfit
from transom.text.case_marks import LABELS as CASE_LABELS
from transom.text.tokenizer import Tokenizer
from transom.training.inference import load_for_task

MAY_DIFFER = {"vocabulary", "dropout", "attention_dropout", "hidden_dropout", "longest"}
MAY_GROW = {"layers", "encoder_layers", "decoder_layers"}
OUTPUTS = ("W_O", "W_2", "W_down")  # the last map of an attention and of a feed-forward part


def start_from_model(model: Model, tokenizer: Tokenizer, folder: str) -> str:
    """Copy the parameters of a trained model; returns a line about its tokens.

    With another tokenizer, the embedding of a token is the mean of those of its old tokens. A token that the old
    tokenizer cannot write keeps its initial embedding. Blocks that the old model does not have add nothing at first.
    """
    old = load_for_task(Path(folder), model.kind)
    check_same_sizes(model, old.model, folder)
    vocabularies = {name for name, parameter in model.named_parameters() if len(parameter) == tokenizer.size}
    parameters = dict(old.model.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in parameters:
                silence_output(name, parameter)
            elif name not in vocabularies or tokenizer.tokens == old.tokenizer.tokens:
                parameter.copy_(parameters[name])
        if tokenizer.tokens == old.tokenizer.tokens:
            return f"{folder}: the same {tokenizer.size} tokens"
        rows = [old_tokens(tokenizer, token, old.tokenizer) for token in range(tokenizer.size)]
        for name in vocabularies:
            copy_means(dict(model.named_parameters())[name], parameters[name], rows)
    return f"{folder}: {sum(map(bool, rows))} of {tokenizer.size} tokens start from its tokens"


def check_same_sizes(model: Model, old: Model, folder: str) -> None:
    """Both models have the same sizes, except for the vocabulary and what has no parameters; blocks may be added."""
    now, before = asdict(model.config), asdict(old.config)
    for name, value in now.items():
        if name in MAY_GROW and value > before[name] and now["arrangement"] == "pre_norm":
            continue
        if name not in MAY_DIFFER and before[name] != value:
            raise Misfit(
                f"the model in {folder} has {name}={before[name]}, but the recipe's [model] has {value}; set the same"
            )


def silence_output(name: str, parameter: Tensor) -> None:
    """A part of a new block adds zero to what passes by, until its output learns otherwise (pre-norm only)."""
    if name.split(".")[-2] in OUTPUTS:
        parameter.zero_()


def old_tokens(tokenizer: Tokenizer, token: int, old: Tokenizer) -> list[int]:
    """The old tokens of a token's text; if case has marks of its own now, also those with a capital at the start."""
    if token in tokenizer.special:
        return [old.tokens.index(tokenizer.tokens[token])]
    text = tokenizer.pieces([token])[0]
    if "\\x" in text or "�" in text:  # a part of a character
        same = old.engine.token_to_id(tokenizer.tokens[token])
        return [] if same is None else [same]
    if tokenizer.case and text in CASE_LABELS.values():
        return []
    forms = [text, text.strip().capitalize()] if tokenizer.case and text.startswith(" ") and text.strip() else [text]
    return [part for form in forms for part in old.encode(form)]


def copy_means(new: Float[Tensor, "any d_model"], old: Float[Tensor, "any2 d_model"], rows: list[list[int]]) -> None:
    for token, parts in enumerate(rows):
        if parts:
            new[token] = old[parts].mean(dim=0)
