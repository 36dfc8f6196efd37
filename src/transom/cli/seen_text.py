"""What `transom see` prints: the text, the head, its map, its arrows, and what it does; short unless asked for all."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from transom.cli.given import many
from transom.show.colours import bold, dim
from transom.show.visible import cells, clipped, visible, wrapped

if TYPE_CHECKING:
    from transom.cli.seen import Seen

MOST_ROWS = 14  # of a map that is printed without being asked for
NARROWEST = 20
LABEL = 18  # of a row of the map, in columns
CAUTION = "A weight is what the head read; the effect is what mattered."
UNITS = {
    "nats": "effect: how far what the model says moves without that arrow, in nats (KL, all positions together)",
    "share": "effect: by which share of their length the model's vectors move without that arrow",
}


def lines(seen: "Seen", width: int, colour: bool, everything: bool) -> Iterator[str]:
    """The whole of it, line by line, none wider than the terminal."""
    width = max(NARROWEST, width)
    strong, weak = (bold, dim) if colour else (str, str)
    for line in wrapped(headline(seen), width):
        yield strong(line)
    for line in wrapped(chosen(seen), width):
        yield weak(line)
    if everything:
        yield from all_heads(seen, width, colour)
    yield from heat_map(seen, width, colour, everything)
    yield from arrows(seen, width, colour)
    yield ""
    for line in (*wrapped(summary(seen), width), *(part for note in notes(seen) for part in wrapped(note, width))):
        yield weak(line)


def headline(seen: "Seen") -> str:
    """The text, what was written, and the model."""
    text = f"“{visible(seen.text)}”" if seen.text else many(len(seen.trace.names), "attention")
    written = f" → “{visible(seen.written)}”" if seen.written else ""
    return f"{text}{written}  ({visible(seen.model)})"


def chosen(seen: "Seen") -> str:
    receipt = seen.sight.receipt()
    proof = "the receipt holds" if receipt.holds else f"receipt {receipt}"
    among = many(seen.heads, "head")
    if seen.compared is not None and seen.compared < seen.heads:
        among = f"the {many(seen.compared, 'head')} {'asked for' if seen.named else 'from the target at the source'}"
    return f"{visible(seen.layer)}, head {seen.head}, of {among}: {seen.chosen}; {proof}"


def heat_map(seen: "Seen", width: int, colour: bool, everything: bool) -> Iterator[str]:
    """The head's map, where it is small or asked for."""
    from transom.show import draw

    labels = seen.labels
    if len(labels.reads) > MOST_ROWS and not everything:
        return
    rows = [from_to(token, labels.predicts, row, LABEL) for row, token in enumerate(labels.reads)]
    picture = draw("matrix", seen.trace, layer=seen.layer, head=seen.head, tokens=rows, at=labels.at)
    for panel in picture.panels:
        yield from ("", *panel.lines(width, colour))


def all_heads(seen: "Seen", width: int, colour: bool) -> Iterator[str]:
    """Every head by its entropy."""
    from transom.show import draw

    for panel in draw("heads", seen.trace).panels:
        yield from ("", *panel.lines(width, colour))


def arrows(seen: "Seen", width: int, colour: bool) -> Iterator[str]:
    """A line for each of the strongest arrows: weight, effect, from, at."""
    if not seen.arrows:
        return
    strong, weak = (bold, dim) if colour else (str, str)
    known = any(one.effect is not None for one in seen.arrows)
    labels, room = seen.labels, max(4, (width - 20) // 2)
    froms = [from_to(labels.reads[one.query], labels.predicts, one.query, room) for one in seen.arrows]
    margin = max(map(cells, froms))
    strongest = "strongest arrow" if len(seen.arrows) == 1 else f"{len(seen.arrows)} strongest arrows"
    yield ""
    yield strong(f"weight{'   effect' if known else ''}  the {strongest}"[:width])
    for one, start in zip(seen.arrows, froms, strict=True):
        effect = f"  {number(one.effect)}" if one.effect is not None else ""
        padding = " " * (margin - cells(start))
        line = f"{one.weight:6.3f}{effect}  {start}{padding} → {clipped(visible(labels.at[one.key]), room)}"
        line += f"  {one.flag}" if one.flag and cells(line) + len(one.flag) + 2 <= width else ""
        idle = one.effect is not None and one.flag.startswith("thick")
        yield weak(clipped(line, width)) if idle else clipped(line, width)


def from_to(read: str, predicts: list[str | None] | None, row: int, room: int) -> str:
    """The token a row reads, and the one it predicts where it does."""
    then = None if predicts is None else predicts[row]
    return clipped(visible(read) if then is None else f"{visible(read)} ({visible(then)})", room)


def number(effect: float | None) -> str:
    """An effect in seven columns, to two digits; very small ones by their power of ten."""
    if effect is None:
        return "–".rjust(7)
    told = f"{effect:.0f}" if effect >= 9.95 or effect == 0.0 else f"{effect:#.2g}"
    return told.rjust(7)


def summary(seen: "Seen") -> str:
    """What the head does, in its measures."""
    from transom.lens.measuring.measures import spoken

    told = ", ".join(f"{spoken(name)} {value:.2f}" for name, value in seen.measures.items())
    return f"This head: {told}." if told else ""


def notes(seen: "Seen") -> Iterator[str]:
    if seen.unit:
        yield f"{UNITS[seen.unit]}. {CAUTION}"
    else:
        yield "Effects are not known here: the model gives nothing to compare, or only its run is at hand."
    if seen.labels.predicts is not None:
        yield "In brackets: the token that comes next, which the row is to predict."
    if any(visible(token).startswith("·") for token in (*seen.labels.reads, *seen.labels.at)):
        yield "· before a token is a space, which belongs to it."
    if len(seen.labels.reads) > MOST_ROWS:
        yield f"{len(seen.labels.reads)} rows: --all draws the map."
