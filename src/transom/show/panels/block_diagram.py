"""The parts of a Transformer as boxes: what each is, its size, and how many parameters it has."""

import msgspec

from transom.show.colours import CATEGORIES
from transom.show.formatting import clip, escape_mermaid, make_visible, pad
from transom.show.svg_canvas import SvgCanvas, text_width

KINDS = {
    "attention": CATEGORIES[0],
    "cross": CATEGORIES[1],
    "feed_forward": CATEGORIES[2],
    "vectors": CATEGORIES[3],
    "norm": "#8c959f",
}
HEIGHT, GAP, EDGE = 34.0, 18.0, 26.0


class Box(msgspec.Struct, frozen=True):
    """One part; `parameters` is None for one that learns nothing, `kind` a row of KINDS."""

    words: str
    size: str = ""
    parameters: int | None = None
    kind: str = "norm"

    def count(self) -> str:
        return "" if self.parameters is None else f"{self.parameters:,}"


class Tower(msgspec.Struct, frozen=True, kw_only=True):
    """Parts from the input upwards: those before the blocks, those of one block, and those after all blocks."""

    title: str
    before: tuple[Box, ...]
    block: tuple[Box, ...]
    times: int
    after: tuple[Box, ...] = ()

    def boxes(self) -> tuple[Box, ...]:
        return (*self.before, *self.block, *self.after)


class BlockDiagram(msgspec.Struct, frozen=True, tag="blocks", kw_only=True):
    """One tower, or an encoder and a decoder that looks at it."""

    towers: tuple[Tower, ...]
    title: str = ""

    def lines(self, width: int, colour: bool) -> list[str]:
        """From the input downwards, a line for each part: the name, its size, its parameters."""
        boxes = [box for tower in self.towers for box in tower.boxes()]
        words = max(len(make_visible(box.words)) for box in boxes) + 2
        sizes, counts = (
            max(len(text) for text in texts) for texts in zip(*((b.size, b.count()) for b in boxes), strict=True)
        )
        lines = [self.title] if self.title else []
        for tower in self.towers:
            lines.append(tower.title)
            for group, indent in ((tower.before, 2), (tower.block, 4), (tower.after, 2)):
                if group is tower.block:
                    lines.append(f"  block × {tower.times}:")
                for box in group:
                    name = pad(" " * indent + make_visible(box.words), words + 4)
                    lines.append(f"{name} {pad(box.size, sizes)}  {pad(box.count(), counts, right=True)}".rstrip())
        return [clip(line, width) for line in lines]

    def to_canvas(self) -> SvgCanvas:
        canvas = SvgCanvas(self.title)
        top = 30.0 if self.title else 0.0
        widths = [self.tower_width(tower) for tower in self.towers]
        bottom = top + max(self.tower_height(tower) for tower in self.towers)
        exits, doors, x = [], [], 0.0
        for tower, width in zip(self.towers, widths, strict=True):
            exit_point, door = draw_tower(canvas, tower, x, bottom, width)
            exits.append(exit_point)
            doors.append(door)
            x += width + 2 * EDGE + 90
        if len(self.towers) == 2 and doors[1] is not None:
            draw_cross(canvas, exits[0], doors[1])
        return canvas

    def tower_width(self, tower: Tower) -> float:
        texts = [f"{box.words}    {box.size}  {box.count()}" for box in tower.boxes()]
        return max(max(text_width(text, 12) for text in texts) + 24, 250.0)

    def tower_height(self, tower: Tower) -> float:
        return len(tower.boxes()) * (HEIGHT + GAP) + 4 * GAP + 30

    def mermaid(self) -> str:
        """A Mermaid flowchart, from the input upwards."""
        lines, tops, doors = ["flowchart BT"], [], []
        for number, tower in enumerate(self.towers):
            lines.append(f'  subgraph t{number}["{escape_mermaid(tower.title)}"]')
            for index, box in enumerate(tower.boxes()):
                text = " ".join(filter(None, (box.words, box.size, box.count())))
                lines.append(f'    t{number}b{index}["{escape_mermaid(make_visible(text))}"]')
            lines += [f"    t{number}b{index} --> t{number}b{index + 1}" for index in range(len(tower.boxes()) - 1)]
            lines.append("  end")
            tops.append(f"t{number}b{len(tower.boxes()) - 1}")
            doors += [f"t{number}b{i}" for i, box in enumerate(tower.boxes()) if box.kind == "cross"]
        if len(self.towers) == 2 and doors:
            lines.append(f"  {tops[0]} -->|K and V| {doors[0]}")
        return "\n".join([*lines, ""])


def draw_tower(
    canvas: SvgCanvas, tower: Tower, left: float, bottom: float, width: float
) -> tuple[tuple[float, float], tuple[float, float] | None]:
    """Boxes from the bottom upwards; returns where it ends at the top, and the left edge of its cross-attention."""
    x, middle, y = left + EDGE, left + EDGE + width / 2, bottom - 24
    canvas.text(middle, y + 18, tower.title, anchor="middle", bold=True)
    door = None
    for group in (tower.before, tower.block, tower.after):
        if group is tower.block:
            height = len(group) * (HEIGHT + GAP) + 2 * GAP
            canvas.rect(x - EDGE + 10, y - height + 4, width + 2 * EDGE - 20, height - 12, "#f6f8fa", edge="rule")
            canvas.text(x + width + EDGE - 4, y - height / 2, f"× {tower.times}", size=15, bold=True)
            canvas.line(middle, y, middle, y - GAP, "faint", 1.3)
            y -= GAP
        for box in group:
            canvas.arrow(middle, y, middle, y - GAP + 2, "faint", 1.3)
            y -= GAP + HEIGHT
            draw_box(canvas, box, x, y, width)
            door = (x, y + HEIGHT / 2) if box.kind == "cross" else door
        if group is tower.block:
            canvas.line(middle, y, middle, y - GAP, "faint", 1.3)
            y -= GAP
    canvas.arrow(middle, y, middle, y - GAP + 2, "faint", 1.3)
    return (middle, y - GAP), door


def draw_box(canvas: SvgCanvas, box: Box, x: float, y: float, width: float) -> None:
    """A box with its name on the left, its size and its parameters on the right."""
    canvas.rect(x, y, width, HEIGHT, "paper", edge="faint")
    canvas.rect(x, y, 6, HEIGHT, KINDS[box.kind])
    canvas.text(x + 14, y + 21, make_visible(box.words), size=13, bold=True)
    canvas.text(x + width - 8, y + (14 if box.count() else 21), box.size, size=11, ink="faint", anchor="end")
    canvas.text(x + width - 8, y + 28, box.count(), size=11, mono=True, anchor="end")


def draw_cross(canvas: SvgCanvas, start: tuple[float, float], door: tuple[float, float]) -> None:
    """From the top of the encoder to the cross-attention of the decoder."""
    (x, y), (end, level) = start, door
    turn = end - EDGE - 24
    ink = KINDS["cross"]
    canvas.path(f"M{x:.1f} {y:.1f}V{y - 6:.1f}H{turn:.1f}V{level:.1f}H{end - 10:.1f}", ink, 1.8)
    canvas.arrow_head(end - 1, level, 0.0, 10.0, ink)
    canvas.text(turn + 6, level - 6, "K, V", size=12, halo=True)
