"""From the tables of a lesson file to what is computed: every size checked, every complaint with its line."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transom.lessons import from_model
from transom.lessons.attention_settings import ATTENTION, check_size, read_additive, read_attention
from transom.lessons.blocks import ACTIVATIONS, NORMS
from transom.lessons.given_form import GIVEN, set_up_given
from transom.lessons.matrices import matrix, vector
from transom.lessons.settings_log import SettingsLog
from transom.lessons.setup import MOST_LAYERS, MOST_TOKENS, WIDEST, Attention, Block, Layer, Setup
from transom.lessons.steps import Matrix
from transom.lessons.table import Table

__all__ = ["ATTENTION", "BLOCK", "GIVEN", "PARAMETERS", "SETUP", "set_up"]

SETUP = ("tokens", "embeddings", "d_model", "positions", "at", "at_embeddings", "given")
SETUP += ("attention", "parameters", "block", "layer")
PARAMETERS = ("all", "model", "layer", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "V_down", "V_up", "w")
PARAMETERS += ("W_1", "b_1", "W_2", "b_2", "gain", "bias", "gain_2", "bias_2")
BLOCK = ("residual", "norm", "norm_first", "activation")


def set_up(table: Table, log: SettingsLog) -> Setup:
    """What a lesson, or a case of it, computes; the log is told which settings have an effect on it."""
    if "tokens" not in table:
        raise table.wrong(None, 'tokens must be given, but they are not; write tokens = ["The", "cat"]')
    tokens = table.labels("tokens", MOST_TOKENS)
    at = table.labels("at", MOST_TOKENS) if "at" in table else None
    setup = Setup(tokens, {}, (), at)
    if "given" in table:
        return set_up_given(table, setup, log)
    start = started(table, setup)
    log.record_embeddings(table)
    width, source = start["embedding"].shape[1], start.get("at_embedding", start["embedding"]).shape[1]
    layers = []
    for one in layer_tables(table):
        layer = read_layer(one, setup, width, source)
        log.record_layer(one, layer)
        layers.append(layer)
        width = out_width(one, layer, width)
        source = width if at is None else source
    return replace(setup, start=start, layers=tuple(layers))


def started(table: Table, setup: Setup) -> dict[str, Matrix]:
    """The vectors that the tokens start from."""
    d_model = table.whole("d_model", 0, 1, WIDEST) if "d_model" in table else None
    if "embeddings" not in table:
        raise table.wrong(None, "embeddings must be given, but they are not; give a row of numbers for each token")
    start = {"embedding": embedded(table, "embeddings", setup.tokens, d_model)}
    width = start["embedding"].shape[1]
    if width > WIDEST:
        raise table.wrong(
            "embeddings", f"a vector may have {WIDEST} numbers, but these have {width}; take shorter ones"
        )
    if setup.at is not None:
        if "at_embeddings" not in table:
            raise table.wrong("at", "at names the tokens looked at, but they have no vectors; give at_embeddings")
        start["at_embedding"] = embedded(table, "at_embeddings", setup.at, None)
    if table.settings.get("positions", "none") != "none":
        start["positions"] = positions(table, len(setup.tokens), width)
    return start


def embedded(table: Table, name: str, tokens: tuple[str, ...], d_model: int | None) -> Matrix:
    """Vectors for tokens, from a model where one is named."""
    value = table.settings[name]
    if isinstance(value, dict) and "model" in value:
        found = from_model.embeddings(table, name, tokens)
        if d_model is not None:
            check_size(table, "d_model", found.shape[1], "the width of the model's vectors")
        return found
    return matrix(table, name, len(tokens), d_model)


def positions(table: Table, tokens: int, d_model: int) -> Matrix:
    """Sinusoidal positions (Vaswani et al. 2017, section 3.5), or given ones."""
    if table.settings["positions"] != "sinusoidal":
        return matrix(table, "positions", tokens, d_model)
    even = np.arange(0, d_model, 2)
    angles = np.arange(tokens)[:, None] * 10_000.0 ** (-even / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(tokens, -1)[:, :d_model]


def layer_tables(table: Table) -> list[Table]:
    """A table for each layer; what [attention], [parameters] and [block] say holds for all."""
    known = ("attention", "parameters", "block")
    layers = table.tables("layer")
    if len(layers) > MOST_LAYERS:
        raise table.wrong("layer", f"a lesson may have {MOST_LAYERS} layers, but {len(layers)} came; take fewer")
    return [replace(one.known(known), below=table) for one in layers] or [table]


def read_layer(table: Table, setup: Setup, width: int, source: int) -> Layer:
    attention = read_attention(table.table("attention"), len(setup.tokens), len(setup.looked_at))
    parameters = table.table("parameters").known(PARAMETERS)
    block = read_block(table.table("block"))
    if "model" in parameters:
        return from_model.layer(parameters, table.table("attention"), attention, block, (width, source))
    attention, found = projections(parameters, table.table("attention"), attention, width, source)
    joined = attention.heads * found["W_V"].shape[2]
    if "W_O" in parameters:
        found["W_O"] = matrix(parameters, "W_O", joined, None if by_itself(parameters, "W_O") else width)
    if attention.similarity == "additive":
        found |= read_additive(parameters, attention.d_head)
    out = found["W_O"].shape[1] if "W_O" in found else joined
    if "b_O" in parameters:
        found["b_O"] = vector(parameters, "b_O", out)
    return Layer(attention, {**found, **around(parameters, out)}, block)


def by_itself(table: Table, name: str) -> bool:
    """Whether a matrix says itself how wide it is."""
    value = table.settings.get(name)
    return isinstance(value, list) or (isinstance(value, dict) and "csv" in value)


def projections(
    table: Table, asked: Table, attention: Attention, width: int, source: int
) -> tuple[Attention, dict[str, NDArray[np.float64]]]:
    """W_Q, W_K and W_V, a matrix for each head, and the width of a head that follows from them."""
    heads, narrow = attention.heads, attention.narrow
    if narrow and (width % heads or source % heads):
        raise asked.wrong("heads", f"narrow heads divide d_model={width}, but heads={heads} does not; try another")
    here, there = (width // heads, source // heads) if narrow else (width, source)
    own = width // heads
    if width % heads and "d_head" not in asked and not by_itself(table, "W_Q"):
        raise asked.wrong("heads", f"d_model={width} does not divide into heads={heads}; give d_head")
    d_head = asked.whole("d_head", own, 1, WIDEST) if "d_head" in asked or not by_itself(table, "W_Q") else None
    found = {"W_Q": per_head(table, "W_Q", heads, here, d_head, narrow)}
    d_head = found["W_Q"].shape[2]
    found["W_K"] = per_head(table, "W_K", heads, there, d_head, narrow)
    waist = through_waist(table)
    if waist and narrow:
        raise asked.wrong("narrow", "a waist takes the whole vector, but narrow heads see a slice; leave one out")
    d_value = None
    if "d_value" in asked or not by_itself(table, "V_up" if waist else "W_V"):
        d_value = asked.whole("d_value", d_head, 1, WIDEST)
    if waist:
        found["V_down"] = matrix(table, "V_down", source, None)
        found["W_V"] = per_head(table, "V_up", heads, found["V_down"].shape[1], d_value, False)
    else:
        found["W_V"] = per_head(table, "W_V", heads, there, d_value, narrow)
    for letter in "QKV":
        if f"b_{letter}" in table:
            each = found[f"W_{letter}"].shape[2]
            found[f"b_{letter}"] = vector(table, f"b_{letter}", heads * each).reshape(heads, each)
    return replace(attention, d_head=d_head), found


def through_waist(table: Table) -> bool:
    """Whether values are made by V_down and V_up; a case may go over to W_V, or come back from it."""
    if "W_V" in table.own and "V_down" in table.own:
        raise table.wrong("V_down", "values are made by W_V, or by V_down and V_up, but both came; leave one out")
    return "V_down" in table.own or ("V_down" in table and "W_V" not in table.own)


def per_head(table: Table, name: str, heads: int, rows: int, width: int | None, narrow: bool) -> NDArray[np.float64]:
    """(heads, in, out): from one wide matrix, or from a list of one matrix for each head."""
    if name not in table:
        if "all" not in table:
            raise table.wrong(
                None, f'{name} must be given, but it is not; write {name} = "identity", or rows of numbers'
            )
        word = table.choice("all", "identity", ("identity",))
        table = Table({**table.settings, name: word}, table.path, table.source)
    value: Any = table.settings[name]
    if isinstance(value, list) and value and isinstance(value[0], list) and value[0] and isinstance(value[0][0], list):
        if len(value) != heads:
            raise table.wrong(name, f"{name} must have a matrix for each of heads={heads}, but it has {len(value)}")
        each = [matrix(replace(table, own={name: one}, below=None), name, rows, width) for one in value]
        if len({one.shape for one in each}) > 1:
            raise table.wrong(name, f"{name} must have matrices of one size, but they differ")
        return np.stack(each)
    if narrow:
        if isinstance(value, str):
            return np.stack([matrix(table, name, rows, width) for _ in range(heads)])
        return matrix(table, name, heads * rows, width).reshape(heads, rows, -1)
    found = matrix(table, name, rows, None if width is None else heads * width)
    if found.shape[1] % heads:
        raise table.wrong(name, f"{name} has {found.shape[1]} columns, which do not divide into heads={heads}")
    return found.reshape(rows, heads, -1).transpose(1, 0, 2)


def around(table: Table, width: int) -> dict[str, Matrix]:
    """Feed-forward and norm, where they are given."""
    found = {name: vector(table, name, width) for name in ("gain", "bias", "gain_2", "bias_2") if name in table}
    if ("W_1" in table) != ("W_2" in table):
        raise table.wrong("W_1" if "W_1" in table else "W_2", "a feed-forward has W_1 and W_2; give both or none")
    if "W_1" in table:
        found["W_1"] = matrix(table, "W_1", width, None if by_itself(table, "W_1") else 4 * width)
        found["W_2"] = matrix(table, "W_2", found["W_1"].shape[1], width)
    for name, of in (("b_1", "W_1"), ("b_2", "W_2")):
        if name in table:
            if of not in found:
                raise table.wrong(name, f"{name} belongs to {of}, which is not given; give both or none")
            found[name] = vector(table, name, found[of].shape[1])
    return found


def read_block(table: Table) -> Block:
    table.known(BLOCK)
    return Block(
        residual=table.flag("residual", False),
        norm=table.choice("norm", "none", NORMS),
        norm_first=table.flag("norm_first", False),
        activation=table.choice("activation", "relu", ACTIVATIONS),
    )


def out_width(table: Table, layer: Layer, width: int) -> int:
    """How wide a token is after a layer; a residual adds only what is as wide as what came in."""
    parameters = layer.parameters
    out = parameters["W_O"].shape[1] if "W_O" in parameters else layer.attention.heads * parameters["W_V"].shape[2]
    if layer.block.residual and out != width:
        raise table.table("block").wrong(
            "residual", f"a residual adds vectors of one width, but {width} come in and {out} come out; give W_O"
        )
    return out
