"""Parse a layer of a lesson: how it attends, its parameters and its block. Every size is checked."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transom.lessons.lesson_setup import (
    ATTENTION,
    BLOCK,
    MOST_HEADS,
    PARAMETERS,
    WIDEST,
    AttentionSettings,
    BlockSettings,
    LessonLayer,
    LessonSetup,
    read_layer_settings,
)
from transom.lessons.matrix_sources import load_model_layer, parse_matrix, parse_vector
from transom.lessons.steps import Matrix
from transom.lessons.toml_source import TomlTable, quote

Widths = tuple[int, int, int]  # of the vectors that queries, keys and values are made from


def parse_layer(table: TomlTable, setup: LessonSetup, widths: Widths) -> LessonLayer:
    """A layer for vectors of these widths."""
    width, settings = widths[0], table.table("attention")
    attention = parse_attention(settings, len(setup.tokens), len(setup.key_tokens))
    parameter_table = table.table("parameters").check_keys(PARAMETERS)
    block = read_layer_settings(table.table("block").check_keys(BLOCK), BlockSettings)
    if "model" in parameter_table:
        return load_model_layer(parameter_table, settings, LessonLayer(attention, {}, block), widths)
    parameters = parse_projections(parameter_table, settings, attention, widths)
    attention = replace(attention, d_head=parameters["W_Q"].shape[2])
    joined = attention.heads * parameters["W_V"].shape[2]
    if "W_O" in parameter_table:
        parameters["W_O"] = parse_matrix(
            parameter_table, "W_O", joined, None if states_width(parameter_table, "W_O") else width
        )
    parameters |= parse_additive(parameter_table, attention)
    out = parameters["W_O"].shape[1] if "W_O" in parameters else joined
    if "b_O" in parameter_table:
        parameters["b_O"] = parse_vector(parameter_table, "b_O", out)
    return LessonLayer(attention, {**parameters, **parse_block_parameters(parameter_table, out)}, block)


def parse_attention(table: TomlTable, rows: int, columns: int) -> AttentionSettings:
    """The settings of [attention]; d_head follows from the parameters."""
    settings = read_layer_settings(table.check_keys(ATTENTION), AttentionSettings)
    kv_heads = table.integer("kv_heads", settings.heads, 1, MOST_HEADS)
    if settings.heads % kv_heads:
        raise table.error(
            "kv_heads", f"kv_heads must divide heads={settings.heads}, but {kv_heads} does not; take a divisor of it"
        )
    if settings.narrow and kv_heads != settings.heads:
        raise table.error("kv_heads", "a narrow head has keys of its own slice, so none are shared; leave one out")
    return replace(settings, kv_heads=kv_heads, allowed=parse_mask(table, rows, columns))


def parse_mask(table: TomlTable, rows: int, columns: int) -> NDArray[np.bool_] | None:
    """True where a row may look: up to itself, or as a matrix of 1 and 0 says; None for everywhere."""
    value = table.settings.get("mask", "none")
    if value == "none":
        return None
    if value == "causal":  # the queries are the last positions of the keys
        return np.arange(rows)[:, None] + columns - rows >= np.arange(columns)
    if isinstance(value, str):
        table.choice("mask", "none", ("none", "causal"))
    mask = parse_matrix(table, "mask", rows, columns)
    if not np.isin(mask, (0.0, 1.0)).all():
        raise table.error("mask", f"mask must be 1 where a row may look and 0 elsewhere, but got {quote(value)}")
    return mask == 1.0


def parse_additive(table: TomlTable, attention: AttentionSettings) -> dict[str, Matrix]:
    """The parameter of additive similarity, if that is what the attention uses."""
    if attention.similarity != "additive":
        return {}
    width = attention.d_head
    if "w" not in table:
        raise table.error(None, f"additive similarity needs w, but it is not given; give w with {width} numbers")
    return {"w": parse_vector(table, "w", width)}


def states_width(table: TomlTable, name: str) -> bool:
    """Whether a matrix is written out, so that its width follows from it."""
    value = table.settings.get(name)
    return isinstance(value, list) or (isinstance(value, dict) and "csv" in value)


def parse_projections(
    table: TomlTable, settings: TomlTable, attention: AttentionSettings, widths: Widths
) -> dict[str, NDArray[np.float64]]:
    """W_Q, W_K and W_V and their biases, a matrix for each head: (heads, in, out)."""
    heads, narrow, width = attention.heads, attention.narrow, widths[0]
    kv_heads = attention.kv_heads or heads
    if narrow and any(vector % heads for vector in widths):
        raise settings.error("heads", f"narrow heads divide d_model={width}, but heads={heads} does not; try another")
    query_width, key_width, value_width = (vector // heads if narrow else vector for vector in widths)
    d_head = None
    if "d_head" in settings or not states_width(table, "W_Q"):
        if "d_head" not in settings and width % heads:
            raise settings.error("heads", f"d_model={width} does not divide into heads={heads}; give d_head")
        d_head = settings.integer("d_head", width // heads, 1, WIDEST)
    parameters = {"W_Q": parse_heads(table, "W_Q", heads, query_width, d_head, narrow)}
    d_head = parameters["W_Q"].shape[2]
    parameters["W_K"] = parse_heads(table, "W_K", kv_heads, key_width, d_head, narrow)
    waist = has_waist(table)
    if waist and narrow:
        raise settings.error("narrow", "a waist takes the whole vector, but narrow heads see a slice; leave one out")
    d_value = None
    if "d_value" in settings or not states_width(table, "V_up" if waist else "W_V"):
        d_value = settings.integer("d_value", d_head, 1, WIDEST)
    if waist:
        parameters["V_down"] = parse_matrix(table, "V_down", value_width, None)
        parameters["W_V"] = parse_heads(table, "V_up", kv_heads, parameters["V_down"].shape[1], d_value, False)
    else:
        parameters["W_V"] = parse_heads(table, "W_V", kv_heads, value_width, d_value, narrow)
    for letter in "QKV":
        if f"b_{letter}" in table:
            count, _, out = parameters[f"W_{letter}"].shape
            parameters[f"b_{letter}"] = parse_vector(table, f"b_{letter}", count * out).reshape(count, out)
    return parameters


def has_waist(table: TomlTable) -> bool:
    """Whether values are made by V_down and V_up; a case may change to W_V, or back."""
    if "W_V" in table.own and "V_down" in table.own:
        raise table.error("V_down", "values are made by W_V, or by V_down and V_up, but both came; leave one out")
    return "V_down" in table.own or ("V_down" in table and "W_V" not in table.own)


def parse_heads(
    table: TomlTable, name: str, heads: int, rows: int, width: int | None, narrow: bool
) -> NDArray[np.float64]:
    """(heads, in, out): from one wide matrix, or from a list of one matrix for each head."""
    if name not in table:
        if "all" not in table:
            raise table.error(
                None, f'{name} must be given, but it is not; write {name} = "identity", or rows of numbers'
            )
        word = table.choice("all", "identity", ("identity",))
        table = TomlTable({**table.settings, name: word}, table.path, table.source)
    value: Any = table.settings[name]
    if isinstance(value, list) and value and isinstance(value[0], list) and value[0] and isinstance(value[0][0], list):
        if len(value) != heads:
            raise table.error(name, f"{name} must have a matrix for each of heads={heads}, but it has {len(value)}")
        tables = [replace(table, own={name: matrix}, fallback=None) for matrix in value]
        matrices = [parse_matrix(head_table, name, rows, width) for head_table in tables]
        if len({matrix.shape for matrix in matrices}) > 1:
            raise table.error(name, f"{name} must have matrices of one size, but they differ")
        return np.stack(matrices)
    if narrow:
        if isinstance(value, str):
            return np.stack([parse_matrix(table, name, rows, width)] * heads)
        return parse_matrix(table, name, heads * rows, width).reshape(heads, rows, -1)
    wide = parse_matrix(table, name, rows, None if width is None else heads * width)
    if wide.shape[1] % heads:
        raise table.error(name, f"{name} has {wide.shape[1]} columns, which do not divide into heads={heads}")
    return wide.reshape(rows, heads, -1).transpose(1, 0, 2)


def parse_block_parameters(table: TomlTable, width: int) -> dict[str, Matrix]:
    """The parameters of the norms and of the feed-forward, as far as they are given."""
    parameters = {
        name: parse_vector(table, name, width) for name in ("gain", "bias", "gain_2", "bias_2") if name in table
    }
    if ("W_1" in table) != ("W_2" in table):
        raise table.error("W_1" if "W_1" in table else "W_2", "a feed-forward has W_1 and W_2; give both or none")
    if "W_1" in table:
        parameters["W_1"] = parse_matrix(table, "W_1", width, None if states_width(table, "W_1") else 4 * width)
        parameters["W_2"] = parse_matrix(table, "W_2", parameters["W_1"].shape[1], width)
    for name, matrix in (("b_1", "W_1"), ("b_2", "W_2")):
        if name in table:
            if matrix not in parameters:
                raise table.error(name, f"{name} belongs to {matrix}, which is not given; give both or none")
            parameters[name] = parse_vector(table, name, parameters[matrix].shape[1])
    return parameters


def out_width(table: TomlTable, layer: LessonLayer, width: int) -> int:
    """The width of a token after a layer; a residual needs the width that came in."""
    parameters = layer.parameters
    out = parameters["W_O"].shape[1] if "W_O" in parameters else layer.attention.heads * parameters["W_V"].shape[2]
    if layer.block.residual and out != width:
        raise table.table("block").error(
            "residual", f"a residual adds vectors of one width, but {width} come in and {out} come out; give W_O"
        )
    return out
