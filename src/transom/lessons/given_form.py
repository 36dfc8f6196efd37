"""A lesson whose Q, K and V, or whose scores, are given as they are."""

from dataclasses import replace

from transom.lessons.attention_settings import check_size, read_additive, read_attention
from transom.lessons.matrices import matrix
from transom.lessons.settings_log import SettingsLog
from transom.lessons.setup import WIDEST, Attention, Block, Layer, Setup
from transom.lessons.steps import Matrix
from transom.lessons.table import Table

GIVEN = ("Q", "K", "V", "scores")
TAKEN_AS_THEY_ARE = (
    "scale is not set, so the given scores go into the softmax as they are; write scale = false if they should,"
    " or scale = true and d_head if they are to be divided by √d_head"
)


def set_up_given(table: Table, setup: Setup, log: SettingsLog) -> Setup:
    """One head that starts from what is given."""
    start = read_given(table.table("given").known(GIVEN), len(setup.tokens), len(setup.looked_at))
    asked = table.table("attention")
    attention = read_attention(asked, len(setup.tokens), len(setup.looked_at))
    similarity = "dot" if "scores" in start else attention.similarity
    refuse_more_heads(table, attention, similarity)
    attention = replace(attention, similarity=similarity)
    if "V" in start:
        check_size(asked, "d_value", start["V"].shape[1], "the width of the given V")
    elif "d_value" in asked.own:
        raise asked.wrong("d_value", "d_value is the width of V, but no V is given; give V, or leave it out")
    if "scores" in start:
        attention = scale_given_scores(asked, attention)
    else:
        check_size(asked, "d_head", start["Q"].shape[1], "the width of the given Q and K")
        attention = replace(attention, d_head=start["Q"].shape[1])
    log.record_given(table, "scores" in start, attention.scale, similarity)
    parameters = read_additive(table.table("parameters"), attention.d_head) if similarity == "additive" else {}
    note = TAKEN_AS_THEY_ARE if "scores" in start and "scale" not in asked else ""
    return replace(setup, start=start, layers=(Layer(attention, parameters, Block()),), note=note)


def read_given(inner: Table, rows: int, columns: int) -> dict[str, Matrix]:
    """Q and K, or scores; and V, if it is there."""
    start = {}
    if "scores" in inner:
        if "Q" in inner or "K" in inner:
            raise inner.wrong("scores", "scores are given, but Q or K too; leave one of the two out")
        start["scores"] = matrix(inner, "scores", rows, columns)
    else:
        for name in ("Q", "K"):
            if name not in inner:
                raise inner.wrong(None, f"{name} must be given, but it is not; give Q, K and V, or scores")
        start["Q"] = matrix(inner, "Q", rows, None)
        start["K"] = matrix(inner, "K", columns, start["Q"].shape[1])
    if "V" in inner:
        start["V"] = matrix(inner, "V", columns, None)
    return start


def refuse_more_heads(table: Table, attention: Attention, similarity: str) -> None:
    """Complain about heads, layers and parameters, which what is given does not have."""
    known = {"w"} if similarity == "additive" else set[str]()
    if attention.heads != 1 or "layer" in table.own or set(table.table("parameters").own) - known:
        raise table.wrong("given", "what is given is for one head without parameters; leave heads and parameters out")


def scale_given_scores(asked: Table, attention: Attention) -> Attention:
    """Divided by √d_head where scale = true says so; scores do not say what d_head is, so it must be given then."""
    if "scale" not in asked or not attention.scale:
        return replace(attention, scale=False, d_head=0)
    if "d_head" not in asked:
        complaint = "scale = true divides the given scores by √d_head, but nothing says what d_head is"
        raise asked.wrong("scale", f"{complaint}; give d_head, or write scale = false")
    return replace(attention, d_head=asked.whole("d_head", 1, 1, WIDEST))
