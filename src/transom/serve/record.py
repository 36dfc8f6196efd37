"""What a page that is taken away will ask for, and what it is answered."""

import base64
from collections.abc import Iterator
from math import ceil, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from transom.serve import asking, learning, tiles
from transom.serve.cache import Answer, as_json
from transom.serve.fields import AskEffects, AskPicture, AskStrongest, AskTile, AskWeights

if TYPE_CHECKING:
    from transom.lens.pyramid import Pyramid
    from transom.serve.studio import Run, Studio
    from transom.serve.work import Job

MOST_BYTES = 4 * 2**20  # of the maps: a page of some 8 MB at most
DRAWN = 64  # tokens that the arrows draw
LISTED = 30  # strongest arrows beside the map


class Head(NamedTuple):
    """A head of a run by the number of its attention, and its own."""

    attention: int
    head: int


class Record:
    """What a page asks for, and what it is answered: by the very functions that answer a browser."""

    def __init__(self, studio: "Studio", run: "Run", job: "Job", chosen: Head | None) -> None:
        self.studio, self.run, self.job = studio, run, job
        self.base = f"/api/runs/{run.number}"
        self.answers: dict[str, Answer] = {}
        self.telling = asking.telling(run, job) if chosen is None else {"attention": None}
        self.chosen = chosen or (first_of(run) if self.telling["attention"] is None else Head(*place(self.telling)))
        self.maps: dict[Head, int] = {}
        self.left = MOST_BYTES
        self.about()
        for head in self.in_order():
            self.add_head(head)
        self.steps, self.effects = self.add_steps(), self.add_effects()
        self.json("/api/state", self.state())

    def json(self, path: str, data: Any) -> None:
        self.answers[path] = as_json(data)

    def about(self) -> None:
        """What concerns the run as a whole."""
        self.json("/api/glossary", learning.glossary())
        self.json(self.base, self.run.told())
        self.json(f"{self.base}/telling", self.telling)
        if sum(prod(sight.problem.whole) for sight in self.run.trace) <= asking.QUICKLY_CARRIED:
            self.json(f"{self.base}/heads", asking.heads(self.run, self.job))

    def in_order(self) -> Iterator[Head]:
        """The head that is open first, then those beside it, then all others."""
        named = [(index, sight.problem.whole[1]) for index, (_, sight) in enumerate(self.run.trace.seen)]
        heads = [Head(index, head) for index, count in named for head in range(count)]
        yield from sorted(heads, key=lambda one: (one != self.chosen, one.attention != self.chosen.attention))

    def add_head(self, one: Head) -> None:
        """Arrows and map of a head, if there is room for single weights; the first head as deep as there is room."""
        pyramid = self.run.pyramid(*one)
        finest = 0 if one != self.chosen else deepest(pyramid, self.left)
        if weighs(pyramid, finest) > self.left:
            return
        self.left -= weighs(pyramid, finest)
        self.maps[one] = finest
        place = f"{self.base}/{one.attention}"
        block = tiles.weights(self.run, one.attention, AskWeights(head=one.head, rows=DRAWN, keys=DRAWN))
        self.json(
            f"{place}/weights?head={one.head}", block | {name: short(block[name]) for name in ("weights", "scores")}
        )
        self.answers[f"{place}/overview?head={one.head}"] = Answer(b'data: {"ready": true}\n\n', "text/event-stream")
        for sink in (True, False):
            asked = AskStrongest(head=one.head, count=LISTED, sink=sink)
            found = asking.strongest(self.run, one.attention, asked, self.job)
            self.json(f"{place}/strongest?head={one.head}&count={LISTED}&sink={spelled(sink)}", found)
        for asked in asked_tiles(pyramid, one.head, finest):
            where = f"head={asked.head}&level={asked.level}&row={asked.row}&column={asked.column}"
            path = f"{place}/tile?{where}&pool={asked.pool}&sink={spelled(asked.sink)}"
            self.answers[path] = tiles.tile(self.run, one.attention, asked, self.job)

    def add_steps(self) -> bool:
        """Every step of the head that is open first, unless the text is too long for it."""
        from transom.lessons.of_sight import MOST

        index, head = self.chosen
        if max(self.run.attention(index)[1].problem.whole[2:]) > MOST:
            return False
        drawn = asking.picture(self.studio, self.run, index, "steps", AskPicture(head=head))
        self.answers[f"{self.base}/{index}/picture/steps?head={head}"] = drawn
        return True

    def add_effects(self) -> bool:
        """What each of its strongest arrows is for, while there is a model that can be run without them."""
        index, head = self.chosen
        queries, keys = self.run.attention(index)[1].problem.whole[2:]
        if self.run.model is None or max(queries, keys) > DRAWN:
            return False
        for row in range(queries):
            asked = AskEffects(head=head, query=row)
            found = asking.effects(self.run, index, asked, self.job)
            self.json(f"{self.base}/{index}/effects?head={head}&query={row}", found)
        return True

    def state(self) -> dict[str, Any]:
        """What is open: this run alone, and no model."""
        told = self.studio.told()
        runs = [one for one in told["runs"] if one["run"] == self.run.number]
        return told | {"name": self.studio.titled(self.run), "models": [], "runs": runs, "taken": self.said()}

    def said(self) -> dict[str, Any]:
        """What was taken along, for the page."""
        from transom import __version__

        maps = {f"{one.attention}/{one.head}": finest for one, finest in self.maps.items()}
        index, head = self.chosen
        opened = {"attention": index, "head": head, "effects": self.effects}
        return {"version": __version__, "maps": maps, **opened, "said": self.sentence()}

    def sentence(self) -> str:
        of = sum(sight.problem.whole[1] for sight in self.run.trace)
        name = f"{self.run.attention(self.chosen.attention)[0]}, head {self.chosen.head}"
        heads = "every head" if len(self.maps) == of else f"{len(self.maps)} of {of} heads"
        depth = 2 ** self.maps[self.chosen]
        cells = f" (cells of {depth} × {depth} weights at the deepest)" if depth > 1 else ""
        return f"In it: arrows and map of {heads}{cells}" + (f", every step of {name}." if self.steps else ".")

    def told(self) -> dict[str, Any]:
        """All answers; those with the same bytes share them."""
        bodies: dict[str, int] = {}
        told = {}
        for path, answer in self.answers.items():
            binary = answer.kind == "application/octet-stream"
            body = base64.b64encode(answer.body).decode() if binary else answer.body.decode()
            told[path] = [bodies.setdefault(body, len(bodies)), answer.kind, answer.headers]
        missing = f"this was not taken along. {self.sentence()} For the rest, open the run with transom serve."
        return {"told": told, "bodies": list(bodies), "missing": missing}


def place(found: dict[str, Any]) -> tuple[int, int]:
    return found["attention"], found["head"]


def first_of(run: "Run") -> Head:
    """The last attention between two texts, else the last of all, as the page itself begins."""
    roles = [one["role"] for one in run.told()["attentions"]]
    crossing = [index for index, role in enumerate(roles) if role == "cross"]
    return Head(crossing[-1] if crossing else len(roles) - 1, 0)


def spelled(value: bool) -> str:
    """As a browser spells it in an address."""
    return str(value).lower()


def short(numbers: list[list[float | None]]) -> list[list[float | None]]:
    """To seven digits, which is as good as float32 is."""
    return [[None if one is None else float(f"{one:.7g}") for one in row] for row in numbers]


def weighs(pyramid: "Pyramid", finest: int) -> int:
    """About how many bytes the tiles of a map take, from a level on."""
    cells = [prod(ceil(size / 2**level) for size in pyramid.sizes) for level in range(finest, pyramid.top + 1)]
    return sum(number * (4 if level == 0 else 2 * 2) for level, number in enumerate(cells, finest))


def deepest(pyramid: "Pyramid", left: int) -> int:
    """The finest level from which on the tiles fit."""
    return next((level for level in range(pyramid.top) if weighs(pyramid, level) <= left), pyramid.top)


def asked_tiles(pyramid: "Pyramid", head: int, finest: int) -> Iterator[AskTile]:
    """Every tile from a level on, both ways to pool, with the first key and without."""
    from transom.lens.pyramid import TILE

    for level in range(finest, pyramid.top + 1):
        down, across = (ceil(size / (TILE * 2**level)) for size in pyramid.sizes)
        for row in range(down):
            for column in range(across):
                for pool in ("max", "mean"):
                    for sink in (True, False):
                        yield AskTile(head=head, level=level, row=row, column=column, pool=pool, sink=sink)
