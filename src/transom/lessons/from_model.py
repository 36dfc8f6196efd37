"""Vectors and parameters of a lesson from a model folder: beside the lesson, or one that comes with Transom."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from transom.files.strict import nearest
from transom.lessons.attention_settings import check_size
from transom.lessons.matrices import alone, beside
from transom.lessons.setup import Attention, Block, Layer
from transom.lessons.steps import Matrix
from transom.lessons.table import Table
from transom.names import Misfit

INSIDE = "embedded/"  # embedded/en-fr is the translator that comes with Transom


def folder(table: Table) -> Path:
    """The folder that `model` names."""
    from transom.models.embedded import embedded

    word = table.words("model", longest=500)
    if word.startswith(INSIDE):
        try:
            return embedded(word.removeprefix(INSIDE))
        except Misfit as error:
            raise table.wrong("model", str(error)) from error
    return beside(table, "model")


@lru_cache(maxsize=2)
def loaded(path: Path) -> tuple[Any, Any]:
    """The model in a folder, and its tokenizer."""
    import torch

    from transom.files.strict import chosen
    from transom.models import MODELS
    from transom.models.folder import header_of
    from transom.text import Tokenizer

    kind = str(header_of(path)["model"])
    chosen(f"{path}: the model", kind, MODELS)
    return MODELS[kind].from_pretrained(path, dtype=torch.float32), Tokenizer.load(path / "tokenizer.json")


def embeddings(table: Table, name: str, tokens: tuple[str, ...]) -> Matrix:
    """The vector of each token in a model: as learned, before positions."""
    import torch

    model, tokenizer = loaded(folder(alone(table, name).known(("model",))))
    ids = [identified(table, tokenizer, token) for token in tokens]
    embedding = getattr(model, "source_embedding", None) or model.embedding
    with torch.no_grad():
        return embedding.looked_up(torch.tensor([ids]))[0].double().numpy()


def identified(table: Table, tokenizer: Any, token: str) -> int:
    """The number of a token: by its name in the vocabulary, or as a text that is one token."""
    if token in tokenizer.tokens:
        return tokenizer.tokens.index(token)
    ids = tokenizer.encode(token)
    if len(ids) != 1 or ids[0] == tokenizer.unknown:
        pieces = ", ".join(repr(tokenizer.tokens[one]) for one in ids)
        raise table.wrong("tokens", f"each token must be one of the model's, but {token!r} is {pieces}; give those")
    return ids[0]


def layer(table: Table, asked: Table, attention: Attention, block: Block, widths: tuple[int, int]) -> Layer:
    """W_Q, W_K, W_V, W_O and their biases of one attention of a model, for vectors of these widths from and at."""
    model, _ = loaded(folder(table))
    named = dict(model.named_modules())
    names = [name for name, module in named.items() if hasattr(module, "W_Q") and hasattr(module, "W_O")]
    name = table.words("layer", longest=200)
    if name not in names:
        raise table.wrong("layer", f"the model has no attention {name!r}; {nearest(name, names)}")
    module = named[name]
    if module.kv_heads != module.heads:
        raise table.wrong("layer", f"{name} shares keys between heads, which a lesson cannot; choose another model")
    if any(getattr(getattr(module, f"W_{letter}"), "weight", np.empty(0)).ndim != 2 for letter in "QKV"):
        raise table.wrong("layer", f"{name} has narrow heads or a waist, which a lesson cannot take; choose another")
    if attention.similarity == "additive":
        raise asked.wrong("similarity", "a model has no w for additive similarity; leave similarity out")
    found = {key: np.ascontiguousarray(value) for key, value in parameters_of(module).items()}
    for letter, width in (("Q", widths[0]), ("K", widths[1])):
        rows = found[f"W_{letter}"].shape[1]
        if rows != width:
            raise table.wrong("layer", f"W_{letter} of {name} takes {rows} numbers, but the vectors have {width}")
    check_size(asked, "heads", module.heads, f"as many as {name} has")
    check_size(asked, "d_head", module.d_head, f"the width of a head of {name}")
    check_size(asked, "d_value", found["W_V"].shape[2], f"the width of a value of {name}")
    return Layer(replace(attention, heads=module.heads, d_head=module.d_head, narrow=False), found, block)


def parameters_of(module: Any) -> dict[str, Any]:
    """The matrices and biases of an attention of Transom's own, a matrix for each head."""
    found: dict[str, Any] = {}
    for letter in "QKV":
        part = getattr(module, f"W_{letter}")
        W = part.weight.detach().double().numpy().T
        found[f"W_{letter}"] = W.reshape(len(W), module.heads, -1).transpose(1, 0, 2)
        if part.bias is not None:
            found[f"b_{letter}"] = part.bias.detach().double().numpy().reshape(module.heads, -1)
    found["W_O"] = module.W_O.weight.detach().double().numpy().T
    if module.W_O.bias is not None:
        found["b_O"] = module.W_O.bias.detach().double().numpy()
    return found
