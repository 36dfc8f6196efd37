"""Parse what comes after the layers of a lesson: its vocabulary, the right next tokens, and the tokens it writes."""

from dataclasses import replace

from transom.lessons.lesson_setup import Decoding, LessonLayer, LessonSetup, SettingsLog, Vocabulary
from transom.lessons.matrix_sources import parse_matrix, parse_vector
from transom.lessons.toml_source import TomlTable

VOCABULARY = ("tokens", "vectors", "embeddings", "b", "targets")
DECODING = ("steps", "stop")
MOST_WORDS, MOST_STEPS = 1024, 32


def parse_vocabulary(table: TomlTable, setup: LessonSetup, width: int, d_model: int) -> LessonSetup:
    """The setup with its vocabulary; `width` is that of the last layer's output, `d_model` that of an embedding."""
    settings = table.table("vocabulary").check_keys(VOCABULARY)
    for name in ("tokens", "vectors"):
        if name not in settings:
            raise settings.error(None, f"a vocabulary has tokens and vectors, but {name} is not given; give both")
    tokens = settings.labels("tokens", MOST_WORDS)
    if len(set(tokens)) < len(tokens):
        raise settings.error("tokens", "each token of a vocabulary must be there once, but one comes twice")
    vectors = parse_matrix(settings, "vectors", len(tokens), width)
    embeddings = vectors
    if "embeddings" in settings:
        embeddings = parse_matrix(settings, "embeddings", len(tokens), d_model)
    b = parse_vector(settings, "b", len(tokens)) if "b" in settings else None
    targets = None
    if "targets" in settings:
        targets = settings.labels("targets", len(setup.tokens))
        unknown = [target for target in targets if target not in tokens]
        if unknown or len(targets) != len(setup.tokens):
            wanted = f"{len(setup.tokens)} tokens of the vocabulary"
            came = f"{unknown[0]!r} is none" if unknown else f"{len(targets)} came"
            raise settings.error("targets", f"targets must be {wanted}, but {came}; give one for each row")
    return replace(setup, vocabulary=Vocabulary(tokens, vectors, embeddings, b, targets))


def parse_decoding(table: TomlTable, setup: LessonSetup, d_model: int) -> LessonSetup:
    """The setup with the tokens that it writes."""
    settings = table.table("decoding").check_keys(DECODING)
    if setup.vocabulary is None:
        raise table.error("decoding", "decoding writes tokens of a vocabulary, but there is none; give [vocabulary]")
    if not all(map(is_causal, setup.layers)):
        raise table.error("decoding", 'decoding needs layers that do not look ahead; write mask = "causal"')
    decoding = Decoding(settings.integer("steps", 3, 1, MOST_STEPS), settings.text("stop", "", longest=200))
    if decoding.stop and decoding.stop not in setup.vocabulary.tokens:
        raise settings.error("stop", f"stop must be a token of the vocabulary, but {decoding.stop!r} is none")
    if setup.vocabulary.embeddings.shape[1] != d_model:
        width = setup.vocabulary.embeddings.shape[1]
        raise settings.error(
            None, f"a token that was written goes in with {d_model} numbers, but it has {width}; give embeddings"
        )
    places = setup.start.get("positions")
    if places is not None and len(places) < len(setup.tokens) + decoding.steps:
        needed = len(setup.tokens) + decoding.steps
        raise settings.error(
            "steps", f"each token that is written needs a position, {needed} in all, but {len(places)} came; give more"
        )
    return replace(setup, decoding=decoding)


def is_causal(layer: LessonLayer) -> bool:
    """Whether the self-attention of a layer sees the past alone."""
    allowed = layer.attention.allowed
    return allowed is not None and not any(allowed[i, i + 1 :].any() for i in range(len(allowed)))


def record_vocabulary(table: TomlTable, setup: LessonSetup, log: SettingsLog) -> None:
    """Note which settings of the vocabulary have an effect."""
    reasons = {}
    if setup.decoding is None:
        reasons["embeddings"] = "only a token that was written goes in with it; give [decoding], or leave it out"
    log.record(table.table("vocabulary"), reasons)
    log.record(table.table("decoding"), {})
