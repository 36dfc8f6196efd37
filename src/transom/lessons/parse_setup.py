"""Parse the setup of a lesson: its tokens, the vectors they start from, its layers, or what is given instead."""

from dataclasses import replace

import numpy as np

from transom.lessons.lesson_setup import (
    GIVEN,
    MOST_LAYERS,
    MOST_TOKENS,
    PARAMETERS,
    WIDEST,
    AttentionSettings,
    BlockSettings,
    LessonLayer,
    LessonSetup,
    SettingsLog,
)
from transom.lessons.matrix_sources import NAMED, check_given_size, model_embeddings, parse_matrix
from transom.lessons.parse_layer import out_width, parse_additive, parse_attention, parse_layer
from transom.lessons.parse_vocabulary import MOST_STEPS, parse_decoding, parse_vocabulary, record_vocabulary
from transom.lessons.steps import Labels, Matrix
from transom.lessons.toml_source import TomlTable

ENCODER = ("tokens", "embeddings", "d_model", "positions", "attention", "parameters", "block", "layer")


def parse_setup(table: TomlTable, log: SettingsLog) -> LessonSetup:
    """What a lesson, or a case of it, computes; the log notes which settings have an effect."""
    if "tokens" not in table:
        raise table.error(None, 'tokens must be given, but they are not; write tokens = ["The", "cat"]')
    tokens = table.labels("tokens", MOST_TOKENS)
    at = table.labels("at", MOST_TOKENS) if "at" in table else None
    setup = LessonSetup(tokens, {}, (), at, places=parse_places(table))
    if "given" in table:
        return parse_given_setup(table, setup, log)
    setup, source_width = parse_encoder(table, setup, log)
    setup = replace(setup, start=parse_start(table, setup))
    reasons = {} if setup.at is not None else {"at_embeddings": NO_SOURCE, "value_embeddings": NO_SOURCE}
    log.record(table, reasons)
    return parse_layers(table, setup, log, source_width)


NO_SOURCE = "no tokens are named to look at; give at, or leave it out"


def parse_encoder(table: TomlTable, setup: LessonSetup, log: SettingsLog) -> tuple[LessonSetup, int]:
    """The setup with its encoder, and the width of the encoder's output; 0 if there is none."""
    if "encoder" not in table:
        return setup, 0
    settings = table.table("encoder").check_keys(ENCODER)
    for name in ("at", "at_embeddings", "value_embeddings"):
        if name in table:
            raise table.error(name, f"{name} and an encoder are both looked at, but only one can be; leave one out")
    encoder = parse_setup(settings, log)
    if encoder.places == "alibi" or setup.places == "alibi" or "rotary" in (encoder.places, setup.places):
        raise settings.error("positions", "an encoder takes sinusoidal or given positions here; choose one of them")
    return replace(setup, encoder=encoder, at=encoder.tokens), output_width(encoder)


def output_width(setup: LessonSetup) -> int:
    """How wide the vectors are that the last layer of a setup puts out."""
    last = setup.layers[-1]
    if "W_O" in last.parameters:
        return last.parameters["W_O"].shape[1]
    return last.attention.heads * last.parameters["W_V"].shape[2]


def parse_places(table: TomlTable) -> str:
    """ "rotary" or "alibi", if places enter inside the attention; "" if not."""
    value = table.settings.get("positions", "none")
    if not isinstance(value, str) or value not in ("rotary", "alibi"):
        return ""
    if "at" in table and "cross" not in table:
        raise table.error(
            "positions", f"{value} positions compare places of one sequence, but at names another; leave one out"
        )
    return value


def parse_layers(table: TomlTable, setup: LessonSetup, log: SettingsLog, source_width: int) -> LessonSetup:
    """The setup with its layers, and what comes after them."""
    start, layers = setup.start, list[LessonLayer]()
    d_model = width = start["embedding"].shape[1]
    if setup.at is not None:
        source_width = source_width or start["at_embedding"].shape[1]
    for layer_table in layer_tables(table):
        layer = parse_decoder_layer(layer_table, setup, width, source_width, log)
        check_rotary(layer_table, setup, layer)
        layers.append(layer)
        width = out_width(layer_table, layer, width)
    setup = replace(setup, layers=tuple(layers))
    if "vocabulary" in table:
        setup = parse_vocabulary(table, setup, width, d_model)
    if "decoding" in table:
        setup = parse_decoding(table, setup, d_model)
    record_vocabulary(table, setup, log)
    return setup


def parse_decoder_layer(
    table: TomlTable, setup: LessonSetup, width: int, source_width: int, log: SettingsLog
) -> LessonLayer:
    """A layer that looks at itself or at the source; with [cross] first at itself, then at the source."""
    if "cross" not in table:
        values_width = setup.start.get("value_embedding", np.zeros((0, source_width or width))).shape[1]
        layer = parse_layer(table, setup, (width, source_width or width, values_width))
        log.record_layer(table, layer)
        return layer
    if setup.at is None:
        raise table.error("cross", "cross-attention needs something to look at; give at, or an encoder")
    layer = parse_layer(table, replace(setup, at=None), (width, width, width))
    log.record_layer(table, layer)
    settings = table.table("cross").check_keys(("attention", "parameters"))
    parameters = settings.table("parameters")
    known = [name for name in PARAMETERS if name[-2:] not in ("_1", "_2") and name not in ("model", "layer")]
    parameters.check_keys(known)
    out = out_width(table, layer, width)
    values_width = setup.start.get("value_embedding", np.zeros((0, source_width))).shape[1]
    cross = parse_layer(settings, setup, (out, source_width, values_width))
    cross = replace(cross, block=layer.block)
    out_width(replace(settings, own={**settings.own, "block": table.table("block").settings}), cross, out)
    log.record_layer(settings, cross)
    return replace(layer, cross=cross)


def check_rotary(table: TomlTable, setup: LessonSetup, layer: LessonLayer) -> None:
    """Rotary positions turn pairs of numbers, so a head has an even number of them."""
    width = layer.attention.d_head
    if setup.places == "rotary" and width % 2:
        raise table.table("attention").error(
            "d_head", f"rotary positions turn pairs of numbers, but d_head={width} is odd; take an even one"
        )


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
    if setup.at is not None and setup.encoder is None:
        if "at_embeddings" not in table:
            raise table.error("at", "at names the tokens looked at, but they have no vectors; give at_embeddings")
        start["at_embedding"] = parse_embeddings(table, "at_embeddings", setup.at, None)
        if "value_embeddings" in table:
            start["value_embedding"] = parse_embeddings(table, "value_embeddings", setup.at, None)
    if table.settings.get("positions", "none") != "none" and not setup.places:
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
    """Sinusoidal positions (Vaswani et al. 2017, section 3.5), or given ones; also of tokens that will be written."""
    value = table.settings["positions"]
    if isinstance(value, str) and value not in NAMED:
        table.choice("positions", "none", ("none", "sinusoidal", "rotary", "alibi"))
    written = table.table("decoding").integer("steps", 3, 1, MOST_STEPS) if "decoding" in table else 0
    if value != "sinusoidal":
        more = isinstance(value, list) and tokens < len(value) <= tokens + written
        return parse_matrix(table, "positions", len(value) if more else tokens, d_model)
    even = np.arange(0, d_model, 2)
    angles = np.arange(tokens + written)[:, None] * 10_000.0 ** (-even / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), -1)[:, :d_model]


def layer_tables(table: TomlTable) -> list[TomlTable]:
    """A table for each layer; [attention], [parameters] and [block] of the lesson hold for all."""
    layers = table.tables("layer", MOST_LAYERS)
    known = ("attention", "parameters", "block", "cross")
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
    for name in ("cross", "encoder", "vocabulary", "decoding"):
        if name in table:
            raise table.error(name, f"what is given is one head alone, but {name} came too; give embeddings instead")
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
