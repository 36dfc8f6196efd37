"""Parse the setup of a lesson: its tokens, the vectors they start from, its layers, or what is given instead."""

from dataclasses import replace

import numpy as np

from transom.lessons.lesson_setup import (
    GIVEN,
    MOST_LAYERS,
    MOST_TOKENS,
    WIDEST,
    AttentionSettings,
    BlockSettings,
    LessonLayer,
    LessonSetup,
    SettingsLog,
)
from transom.lessons.matrix_sources import check_given_size, model_embeddings, parse_matrix
from transom.lessons.parse_layer import out_width, parse_additive, parse_attention, parse_layer
from transom.lessons.steps import Labels, Matrix
from transom.lessons.toml_source import TomlTable


def parse_setup(table: TomlTable, log: SettingsLog) -> LessonSetup:
    """What a lesson, or a case of it, computes; the log notes which settings have an effect."""
    if "tokens" not in table:
        raise table.error(None, 'tokens must be given, but they are not; write tokens = ["The", "cat"]')
    tokens = table.labels("tokens", MOST_TOKENS)
    at = table.labels("at", MOST_TOKENS) if "at" in table else None
    setup = LessonSetup(tokens, {}, (), at)
    if "given" in table:
        return parse_given_setup(table, setup, log)
    start = parse_start(table, setup)
    no_tokens = "no tokens are named to look at; give at, or leave it out"
    log.record(table, {"at_embeddings": no_tokens} if at is None else {})
    width, source_width = start["embedding"].shape[1], start.get("at_embedding", start["embedding"]).shape[1]
    layers = []
    for layer_table in layer_tables(table):
        layer = parse_layer(layer_table, setup, width, source_width)
        log.record_layer(layer_table, layer)
        layers.append(layer)
        width = out_width(layer_table, layer, width)
        source_width = width if at is None else source_width
    return replace(setup, start=start, layers=tuple(layers))


def parse_start(table: TomlTable, setup: LessonSetup) -> dict[str, Matrix]:
    """The vectors that the tokens start from."""
    d_model = table.integer("d_model", 0, 1, WIDEST) if "d_model" in table else None
    if "embeddings" not in table:
        raise table.error(None, "embeddings must be given, but they are not; give a row of numbers for each token")
    start = {"embedding": parse_embeddings(table, "embeddings", setup.tokens, d_model)}
    width = start["embedding"].shape[1]
    if width > WIDEST:
        raise table.error(
            "embeddings", f"a vector may have {WIDEST} numbers, but these have {width}; take shorter ones"
        )
    if setup.at is not None:
        if "at_embeddings" not in table:
            raise table.error("at", "at names the tokens looked at, but they have no vectors; give at_embeddings")
        start["at_embedding"] = parse_embeddings(table, "at_embeddings", setup.at, None)
    if table.settings.get("positions", "none") != "none":
        start["positions"] = parse_positions(table, len(setup.tokens), width)
    return start


def parse_embeddings(table: TomlTable, name: str, tokens: Labels, d_model: int | None) -> Matrix:
    """A vector for each token: a matrix, or the vectors of a model."""
    value = table.settings[name]
    if not isinstance(value, dict) or "model" not in value:
        return parse_matrix(table, name, len(tokens), d_model)
    vectors = model_embeddings(table, name, tokens)
    if d_model is not None:
        check_given_size(table, "d_model", vectors.shape[1], "the width of the model's vectors")
    return vectors


def parse_positions(table: TomlTable, tokens: int, d_model: int) -> Matrix:
    """Sinusoidal positions (Vaswani et al. 2017, section 3.5), or given ones."""
    if table.settings["positions"] != "sinusoidal":
        return parse_matrix(table, "positions", tokens, d_model)
    even = np.arange(0, d_model, 2)
    angles = np.arange(tokens)[:, None] * 10_000.0 ** (-even / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(tokens, -1)[:, :d_model]


def layer_tables(table: TomlTable) -> list[TomlTable]:
    """A table for each layer; [attention], [parameters] and [block] of the lesson hold for all."""
    layers = table.tables("layer", MOST_LAYERS)
    known = ("attention", "parameters", "block")
    return [replace(layer.check_keys(known), fallback=table) for layer in layers] or [table]


NOT_SCALED = (
    "scale is not set, so the given scores go into the softmax as they are; write scale = false if they should,"
    " or scale = true and d_head if they should be divided by √d_head"
)


def parse_given_setup(table: TomlTable, setup: LessonSetup, log: SettingsLog) -> LessonSetup:
    """One head that starts from given Q, K and V, or from given scores."""
    rows, columns, settings = len(setup.tokens), len(setup.key_tokens), table.table("attention")
    start = parse_given(table.table("given").check_keys(GIVEN), rows, columns)
    attention = parse_attention(settings, rows, columns)
    if "scores" in start:
        attention = replace(attention, similarity="dot")
    known = {"w"} if attention.similarity == "additive" else set[str]()
    if attention.heads != 1 or "layer" in table.own or set(table.table("parameters").own) - known:
        raise table.error("given", "what is given is for one head without parameters; leave heads and parameters out")
    if "V" in start:
        check_given_size(settings, "d_value", start["V"].shape[1], "the width of the given V")
    elif "d_value" in settings.own:
        raise settings.error("d_value", "d_value is the width of V, but no V is given; give V, or leave it out")
    if "scores" in start:
        attention = scale_given_scores(settings, attention)
    else:
        check_given_size(settings, "d_head", start["Q"].shape[1], "the width of the given Q and K")
        attention = replace(attention, d_head=start["Q"].shape[1])
    log.record_given(table, "scores" in start, attention)
    parameters = parse_additive(table.table("parameters"), attention)
    note = NOT_SCALED if "scores" in start and "scale" not in settings else ""
    return replace(setup, start=start, layers=(LessonLayer(attention, parameters, BlockSettings()),), note=note)


def parse_given(table: TomlTable, rows: int, columns: int) -> dict[str, Matrix]:
    """Q and K, or scores; and V, if it is there."""
    start = {}
    if "scores" in table:
        if "Q" in table or "K" in table:
            raise table.error("scores", "scores are given, but Q or K too; leave one of the two out")
        start["scores"] = parse_matrix(table, "scores", rows, columns)
    else:
        for name in ("Q", "K"):
            if name not in table:
                raise table.error(None, f"{name} must be given, but it is not; give Q, K and V, or scores")
        start["Q"] = parse_matrix(table, "Q", rows, None)
        start["K"] = parse_matrix(table, "K", columns, start["Q"].shape[1])
    if "V" in table:
        start["V"] = parse_matrix(table, "V", columns, None)
    return start


def scale_given_scores(settings: TomlTable, attention: AttentionSettings) -> AttentionSettings:
    """Given scores are divided by √d_head only with scale = true; they do not show d_head, so it must be given then."""
    if "scale" not in settings or not attention.scale:
        return replace(attention, scale=False, d_head=0)
    if "d_head" not in settings:
        complaint = "scale = true divides the given scores by √d_head, but nothing says what d_head is"
        raise settings.error("scale", f"{complaint}; give d_head, or write scale = false")
    return replace(attention, d_head=settings.integer("d_head", 1, 1, WIDEST))
