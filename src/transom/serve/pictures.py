"""Pictures of a run for the page, as files: any view of a head, and the arrows that are on the screen."""

from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.serve.answer_cache import Answer
from transom.serve.map_tiles import weight_block
from transom.serve.request_fields import PictureRequest, WeightsRequest
from transom.serve.session import attention_info
from transom.show.panels.arrows import Arrow
from transom.show.panels.head_arrows import LEAST, HeadArrows
from transom.show.picture import WRITERS, Picture, Source, Table

if TYPE_CHECKING:
    from transom.serve.session import Session, SessionRun

TYPES = {
    "json": "application/json",
    "svg": "image/svg+xml",
    "html": "text/html; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "png": "image/png",
    "pdf": "application/pdf",
    "mmd": "text/plain; charset=utf-8",
    "dot": "text/plain; charset=utf-8",
}
VIEWS_OF_RUN = ("heads", "entropy", "context")  # views of all heads, not of one
MOST_WEIGHTS = 2**24  # in a head that is drawn: every row of its receipt is checked
MOST_TOKENS = 64  # on each side of the arrows
FAINTEST = 0.001  # weaker arrows cannot be seen; in a long text nearly all are


def picture_file(session: "Session", run: "SessionRun", index: int, view: str, fields: PictureRequest) -> Answer:
    """A view of one head in one format; every format but JSON is a download."""
    picture = arrows_picture if view == "arrows" else view_picture
    body = WRITERS[f".{fields.format}"](picture(session, run, index, view, fields))
    kind = TYPES[fields.format]
    return Answer(body, kind) if fields.format == "json" else Answer.download(body, f"{view}.{fields.format}", kind)


def view_picture(session: "Session", run: "SessionRun", index: int, view: str, fields: PictureRequest) -> Picture:
    """A view by its name."""
    from transom.files.strict_settings import check_choice
    from transom.show.views import VIEWS, draw, options_of

    check_choice("view", view, VIEWS)
    name, sight = run.attention(index)
    queries, keys = sight.problem.shape[2:]
    if queries * keys > MOST_WEIGHTS:  # its receipt alone would take a minute
        raise Misfit(
            f"a picture has at most {MOST_WEIGHTS} weights, but {name} has queries={queries} and keys={keys};"
            " look at it on the map"
        )
    labels = run.trace.labels(name)
    of_run = view in VIEWS_OF_RUN
    options: dict[str, Any] = {"layer": name, "head": fields.head, "model": session.run_title(run)}
    options |= {"tokens": labels.reads, "at": labels.at, "token": None if of_run else fields.token}
    if view == "steps" and run.text_run is not None:
        options["origin"] = run.text_run.find_origin(name, sight, fields.head)
    known = options_of(VIEWS[view])
    options = {option: value for option, value in options.items() if option in known and value is not None}
    return draw(view, run.trace if of_run else sight, **options)


def arrows_picture(session: "Session", run: "SessionRun", index: int, view: str, fields: PictureRequest) -> Picture:
    """The first tokens of each side with all arrows between them; `token` and `key` are the chosen row and key."""
    name, sight = run.attention(index)
    queries, keys = sight.problem.shape[2:]
    for axis, number, size in (("queries", fields.token, queries), ("keys", fields.key, keys)):
        if number is not None and number >= size:
            raise Misfit(f"there are {axis}={size}, so {number} is none of them; count from 0 to {size - 1}")
    block = weight_block(run, index, WeightsRequest(head=fields.head, rows=MOST_TOKENS, keys=MOST_TOKENS))
    arrows = tuple(
        Arrow(row, key, weight)
        for row, row_weights in enumerate(block["weights"])
        for key, weight in enumerate(row_weights)
        if weight >= FAINTEST and block["scores"][row][key] is not None
    )
    following = following_tokens(run, index)[:MOST_TOKENS]
    panel = HeadArrows(
        rows=tuple(block["rows"]),
        keys=tuple(block["keys"]),
        arrows=arrows,
        following=tuple(following),
        row=fields.token,
        key=fields.key,
    )
    return Picture(
        view=view,
        title=f"Arrows of {name}, head {fields.head}",
        panels=(panel,),
        source=Source(model=session.run_title(run), receipt=str(run.receipts[index])),
        notes=arrow_notes(bool(following), max(queries, keys) > MOST_TOKENS),
        table=arrow_table(panel),
    )


def following_tokens(run: "SessionRun", index: int) -> list[str | None]:
    """The token that follows each row, if rows predict; the one after the last row may be unknown."""
    attention = attention_info(run, index)
    written = run.info["written"]
    unknown = attention["queries"] - len(written)
    if not written or not attention["predicts"] or attention["role"] == "encoder" or unknown not in (0, 1):
        return []
    return [*written, *[None] * unknown]


def arrow_notes(predicts: bool, is_cut: bool) -> tuple[str, ...]:
    """How to read the picture, whichever row is chosen on the page."""
    notes = ["Tokens below look at tokens above; the wider an arrow, the larger its weight."]
    if predicts:
        notes.append("In brackets: the token that comes next, which the row is to predict.")
    notes.append(f"Arrows below {LEAST} are drawn only for a chosen row, arrows below {FAINTEST} never.")
    return (*notes, f"Only the first {MOST_TOKENS} tokens are drawn.") if is_cut else tuple(notes)


def arrow_table(panel: HeadArrows) -> Table:
    """The numbers of the arrows that are shown."""
    rows = tuple(
        (panel.rows[arrow.source], arrow.source, panel.keys[arrow.target], arrow.target, arrow.weight)
        for arrow in panel.arrows
        if panel.is_shown(arrow)
    )
    return Table(("from", "row", "at", "key", "weight"), rows)
