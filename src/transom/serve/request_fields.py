"""The fields of every request, each with its bounds."""

from typing import Annotated, Literal, TypeVar

import msgspec

from transom.files.documents import MalformedDocument, decode_json
from transom.files.strict_settings import suggest
from transom.names import Misfit

Text = Annotated[str, msgspec.Meta(max_length=20_000)]
LessonText = Annotated[str, msgspec.Meta(max_length=100_000)]
Name = Annotated[str, msgspec.Meta(max_length=300)]
RunNumber = Annotated[str, msgspec.Meta(max_length=16)]
Index = Annotated[int, msgspec.Meta(ge=0, le=2**24)]


class RequestFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a request; an unknown one is an error."""


Fields = TypeVar("Fields", bound=RequestFields)


class RunRequest(RequestFields, frozen=True):
    """A text to run."""

    text: Text
    model: Name = ""  # one of the open models; by default the first
    target: Text | None = None  # for an encoder–decoder, instead of its own
    more: Annotated[int, msgspec.Meta(ge=0, le=256)] = 0  # tokens that a decoder writes after the text


class CompareRequest(RequestFields, frozen=True):
    """Another run, to compare this one with."""

    other: RunNumber


class TileRequest(RequestFields, frozen=True):
    """One tile of a head's map."""

    head: Index = 0
    level: Index = 0
    row: Index = 0
    column: Index = 0
    pool: Literal["max", "mean"] = "max"
    sink: bool = True
    against: RunNumber = ""  # another run: the tile is the signed difference to it
    token: Index | None = None  # the row whose next token is explained: the tile has the influence of edges on it


class WeightsRequest(RequestFields, frozen=True):
    """A block of single weights."""

    head: Index = 0
    first_row: Index = 0
    first_key: Index = 0
    rows: Annotated[int, msgspec.Meta(ge=1, le=64)] = 32
    keys: Annotated[int, msgspec.Meta(ge=1, le=64)] = 32


class EdgesRequest(WeightsRequest, frozen=True):
    """A block of single edges by influence: on the whole output, or on the token after one row."""

    token: Index | None = None


class AgreementRequest(RequestFields, frozen=True):
    """A row whose next token is explained, and how many edges are knocked out beside the estimates."""

    token: Index = 0
    samples: Annotated[int, msgspec.Meta(ge=1, le=64)] = 16


class HeadRequest(RequestFields, frozen=True):
    """One head of an attention."""

    head: Index = 0


class ThumbnailsRequest(RequestFields, frozen=True):
    """Small maps of every head of some attentions."""

    cells: Annotated[int, msgspec.Meta(ge=4, le=32)] = 16
    first: Index = 0  # attention
    count: Annotated[int, msgspec.Meta(ge=1, le=512)] = 512


class WindowRequest(RequestFields, frozen=True):
    """The tokens that the picture of a model shows: so many of the text or the source, and of the target."""

    first: Index = 0
    first_target: Index = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=32)] = 16


class InfluenceRequest(WindowRequest, frozen=True):
    """A row whose next token is explained, and the tokens that are shown."""

    row: Index = 0


class RowRequest(RequestFields, frozen=True):
    """One row of a head, with its arithmetic."""

    head: Index = 0
    query: Index = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=64)] = 20


class FeedForwardRequest(RequestFields, frozen=True):
    """The feed-forward part after an attention, at one token of its rows; `explained` is the row that is explained."""

    query: Index = 0
    explained: Index | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=32)] = 10
    unit: Index | None = None  # with all its numbers too, wherever it ranks


class TopEdgesRequest(RequestFields, frozen=True):
    """The strongest edges of a head."""

    head: Index = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    sink: bool = True
    by: Literal["weight", "influence"] = "weight"
    token: Index | None = None  # by influence: on the token after this row, instead of the whole output


class RankingRequest(RequestFields, frozen=True):
    """All heads by influence, the first `refine` of them by a knock-out."""

    refine: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0


class PictureRequest(RequestFields, frozen=True):
    """A view of one head, in one format."""

    head: Index = 0
    format: Literal["json", "svg", "html", "txt", "png", "pdf", "mmd", "dot"] = "json"
    token: Index | None = None
    key: Index | None = None  # in the arrows: the one from `token` at this key is marked


class PageRequest(RequestFields, frozen=True):
    """A run as one file, with one head open."""

    attention: Index
    head: Index = 0


class EdgeFields(RequestFields, frozen=True):
    """One edge: from a row of a head, at a key."""

    layer: Name
    head: Index
    query: Index | None = None
    key: Index | None = None


class KnockOutRequest(RequestFields, frozen=True):
    """Edges, or whole heads, to knock out."""

    edges: Annotated[list[EdgeFields], msgspec.Meta(min_length=1, max_length=64)]
    how: Literal["before", "after"] = "before"


class EffectsRequest(RequestFields, frozen=True):
    """The strongest edges of a row, with their effects."""

    head: Index = 0
    query: Index = 0
    key: Index | None = None  # this edge alone, instead of the strongest
    count: Annotated[int, msgspec.Meta(ge=1, le=24)] = 8


class LessonRequest(RequestFields, frozen=True):
    """A lesson by its number, or the text of one that is being edited."""

    number: Annotated[int, msgspec.Meta(ge=0, le=999)] | None = None
    text: LessonText | None = None


class AnswerRequest(LessonRequest, frozen=True):
    """An answer to the question of a screen; screens are counted from 0."""

    screen: Annotated[int, msgspec.Meta(ge=0, le=999)] = 0
    answer: Annotated[str, msgspec.Meta(max_length=200)] = ""


class ChangeRequest(LessonRequest, frozen=True):
    """Another number in the place that a screen lets one change."""

    screen: Annotated[int, msgspec.Meta(ge=0, le=999)] = 0
    to: Annotated[str, msgspec.Meta(max_length=60)] = ""


class CheckRequest(RequestFields, frozen=True):
    """The text of a lesson to check."""

    text: LessonText


class FramesRequest(RequestFields, frozen=True):
    """One head of a replay."""

    name: Name
    head: Index = 0


def parse_query(kind: type[Fields], query: list[tuple[str, str]]) -> Fields:
    """The fields of a query string."""
    known = {field.name for field in msgspec.structs.fields(kind)}
    fields: dict[str, str | bool] = {}
    for name, value in query:
        if name not in known:
            raise Misfit(f"there is no field {name!r:.60}; {suggest(name[:60], sorted(known))}")
        if name in fields:
            raise Misfit(f"the field {name!r} came twice; give it once")
        fields[name] = {"true": True, "false": False}.get(value, value)
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Misfit(f"the query does not fit: {error}; correct it") from error


def parse_body(kind: type[Fields], body: bytes) -> Fields:
    """The fields of a JSON body."""
    try:
        return decode_json(body, kind)
    except MalformedDocument as error:
        raise Misfit(f"the body does not fit: {error}; correct it") from error
