"""What may be asked for: every field of every request, bounded before anything is done with it."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec

from transom.files.documents import Malformed, decode_json
from transom.files.strict import nearest
from transom.names import Misfit

Text = Annotated[str, msgspec.Meta(max_length=20_000)]
Name = Annotated[str, msgspec.Meta(max_length=300)]
Place = Annotated[int, msgspec.Meta(ge=0, le=2**24)]
Asked = TypeVar("Asked", bound=msgspec.Struct)
Pool = Literal["max", "mean"]


class AskRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A text through the model; a target for an encoder–decoder that should not write its own, or how many tokens a
    decoder is to write on."""

    text: Text
    model: Name = ""  # one of those that are open; unless given, the first
    target: Text | None = None
    more: Annotated[int, msgspec.Meta(ge=0, le=256)] = 0


class AskBeside(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Another run, to be laid beside this one."""

    other: Annotated[str, msgspec.Meta(max_length=16)]


class AskTile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One tile of a head's map."""

    head: Place = 0
    level: Place = 0
    row: Place = 0
    column: Place = 0
    pool: Pool = "max"
    sink: bool = True
    against: Annotated[str, msgspec.Meta(max_length=16)] = ""  # another run: the signed difference to it


class AskWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Single weights, as numbers."""

    head: Place = 0
    first_row: Place = 0
    first_key: Place = 0
    rows: Annotated[int, msgspec.Meta(ge=1, le=64)] = 32
    keys: Annotated[int, msgspec.Meta(ge=1, le=64)] = 32


class AskStrongest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The strongest edges of a head, for jumping to them."""

    head: Place = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    sink: bool = True


class AskPicture(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A view of one head, in one format."""

    head: Place = 0
    format: Literal["json", "svg", "html", "txt", "png", "pdf", "mmd", "dot"] = "json"
    cell: Annotated[str, msgspec.Meta(pattern=r"^(\d{1,5},\d{1,5})?$")] = ""
    token: Place | None = None
    sink: Literal["show", "hide", "renormalise"] = "show"


class AskPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A run to take away, with one head open."""

    attention: Place
    head: Place = 0


class AskEdge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One arrow: from a row of a head, at a key."""

    layer: Name
    head: Place
    query: Place | None = None
    key: Place | None = None


class AskKnockOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arrows, or whole heads, to take out."""

    edges: Annotated[list[AskEdge], msgspec.Meta(min_length=1, max_length=64)]
    how: Literal["before", "after"] = "before"


class AskEffects(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the strongest arrows of a row are worth."""

    head: Place = 0
    query: Place = 0
    key: Place | None = None  # one arrow alone, instead of the strongest
    count: Annotated[int, msgspec.Meta(ge=1, le=24)] = 8


class AskFrames(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One head of a replay."""

    name: Name
    head: Place = 0


def from_query(kind: type[Asked], given: list[tuple[str, str]]) -> Asked:
    """The fields of a query string."""
    known = {field.name for field in msgspec.structs.fields(kind)}
    found: dict[str, Any] = {}
    for name, value in given:
        if name not in known:
            raise Misfit(f"there is no field {name!r:.60}; {nearest(name[:60], sorted(known))}")
        if name in found:
            raise Misfit(f"the field {name!r} came twice; give it once")
        found[name] = {"true": True, "false": False}.get(value, value)
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Misfit(f"the query does not fit: {error}; mend it") from error


def from_body(kind: type[Asked], body: bytes) -> Asked:
    """The fields of a JSON body."""
    try:
        return decode_json(body, kind)
    except Malformed as error:
        raise Misfit(f"the body does not fit: {error}; mend it") from error
