"""The answers that an offline page needs, computed in advance."""

import base64
from collections.abc import Iterator
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from transom.names import Misfit
from transom.serve import map_tiles, run_queries
from transom.serve.answer_cache import Answer, as_answer
from transom.serve.offline_stage import stage_answers
from transom.serve.pictures import MOST_TOKENS, picture_file
from transom.serve.request_fields import EffectsRequest, PictureRequest, TileRequest, TopEdgesRequest, WeightsRequest

if TYPE_CHECKING:
    from transom.lens.attention.pyramid import Pyramid
    from transom.serve.session import Session, SessionRun
    from transom.serve.worker import Job

MOST_BYTES = 4 * 2**20  # of the maps: a page has about 8 MB at most
STRONGEST = 30  # edges listed beside the map
CELL_BYTES = 4  # of a map cell: a float32, or a float16 for the maximum and one for the mean


class HeadIndex(NamedTuple):
    """A head of a run: the number of its attention, and its own."""

    attention: int
    head: int


class OfflineAnswers:
    """The requests of an offline page with their answers, which the same functions compute for a server."""

    def __init__(self, session: "Session", run: "SessionRun", job: "Job", chosen: HeadIndex | None) -> None:
        self.session, self.run, self.job = session, run, job
        self.base = f"/api/runs/{run.number}"
        self.answers: dict[str, Answer] = {}
        suggestion: dict[str, Any] = {"attention": None} if chosen else run_queries.first_head(run, job)
        if suggestion["attention"] is not None:
            chosen = HeadIndex(suggestion["attention"], suggestion["head"])
        self.chosen = chosen or default_head(run)
        self.finest_levels: dict[HeadIndex, int] = {}  # of each map that is included
        self.bytes_left = MOST_BYTES
        self.add_run(suggestion)
        for head in self.heads_by_priority():
            self.add_head(head)
        for path, answer in stage_answers(run, *self.chosen, job):
            self.add(f"{self.base}/{path}", answer)
        self.has_steps, self.has_effects = self.add_steps(), self.add_effects()
        self.add("/api/state", self.state())

    def add(self, path: str, data: object) -> None:
        self.answers[path] = as_answer(data)

    def add_run(self, suggestion: dict[str, Any]) -> None:
        """The answers about the run as a whole."""
        from transom.lessons.glossary import GLOSSARY

        self.add("/api/glossary", GLOSSARY)
        self.add(self.base, self.run.to_dict())
        self.add(f"{self.base}/telling", suggestion)
        if sum(prod(sight.problem.shape) for sight in self.run.trace) <= run_queries.QUICKLY_RANKED:
            heads = run_queries.measure_heads(self.run, self.job)
            self.add(f"{self.base}/heads", heads)
            names = self.run.trace.names
            for head in heads["heads"]:
                self.add(f"{self.base}/{names.index(head['layer'])}/head?head={head['head']}", head)

    def heads_by_priority(self) -> list[HeadIndex]:
        """The chosen head, then the others of its attention, then all others."""
        counts = [sight.problem.shape[1] for _, sight in self.run.trace.entries]
        heads = [HeadIndex(index, head) for index, count in enumerate(counts) for head in range(count)]
        return sorted(heads, key=lambda head: (head != self.chosen, head.attention != self.chosen.attention))

    def add_head(self, head: HeadIndex) -> None:
        """Arrows and map of a head, if there is room for it down to single weights; the chosen head is always
        included, down to the level that fits."""
        pyramid = self.run.pyramid(*head)
        finest = 0 if head != self.chosen else finest_fitting(pyramid, self.bytes_left)
        if tile_bytes(pyramid, finest) > self.bytes_left:
            return
        self.bytes_left -= tile_bytes(pyramid, finest)
        self.finest_levels[head] = finest
        path, number = f"{self.base}/{head.attention}", head.head
        fields = WeightsRequest(head=number, rows=MOST_TOKENS, keys=MOST_TOKENS)
        block = map_tiles.weight_block(self.run, head.attention, fields)
        rounded = {name: round_digits(block[name]) for name in ("weights", "scores")}
        self.add(f"{path}/weights?head={number}", block | rounded)
        self.add(f"{path}/picture/arrows?head={number}&format=svg", self.picture(head, "arrows", "svg"))
        self.add(f"{path}/overview?head={number}", Answer(b'data: {"ready": true}\n\n', "text/event-stream"))
        for sink in (True, False):
            fields = TopEdgesRequest(head=number, count=STRONGEST, sink=sink)
            edges = run_queries.strongest_edges(self.run, head.attention, fields, self.job)
            self.add(f"{path}/strongest?head={number}&count={STRONGEST}&sink={str(sink).lower()}", edges)
        for fields in tile_requests(pyramid, number, finest):
            place = f"head={number}&level={fields.level}&row={fields.row}&column={fields.column}"
            query = f"{place}&pool={fields.pool}&sink={str(fields.sink).lower()}"
            self.add(f"{path}/tile?{query}", map_tiles.map_tile(self.run, head.attention, fields, self.job))

    def picture(self, head: HeadIndex, view: str, file_format: Any = "json") -> Answer:
        fields = PictureRequest(head=head.head, format=file_format)
        return picture_file(self.session, self.run, head.attention, view, fields)

    def add_steps(self) -> bool:
        """Every step of the chosen head, unless the text is too long."""
        from transom.lessons.sight_steps import MOST

        index, head = self.chosen
        if max(self.run.attention(index)[1].problem.shape[2:]) > MOST:
            return False
        self.add(f"{self.base}/{index}/picture/steps?head={head}", self.picture(self.chosen, "steps"))
        return True

    def add_effects(self) -> bool:
        """The effects of the strongest edges of the chosen head, if there is a model and the text is short."""
        index, head = self.chosen
        queries, keys = self.run.attention(index)[1].problem.shape[2:]
        if self.run.model is None or max(queries, keys) > MOST_TOKENS:
            return False
        for row in range(queries):
            try:
                effects = run_queries.edge_effects(self.run, index, EffectsRequest(head=head, query=row), self.job)
            except Misfit:
                if self.run.model.kind != "encoder":
                    raise
                return False  # an encoder without a head gives vectors, of which no effect is measured
            self.add(f"{self.base}/{index}/effects?head={head}&query={row}", effects)
        return True

    def state(self) -> dict[str, Any]:
        """What is open: this run alone, no model, and what the page contains."""
        from transom import __version__

        maps = {f"{index}/{head}": finest for (index, head), finest in self.finest_levels.items()}
        chosen = {**self.chosen._asdict(), "effects": self.has_effects}
        return self.session.to_dict() | {
            "name": self.session.run_title(self.run),
            "models": [],
            "runs": [self.run.summary()],
            "taken": {"version": __version__, "maps": maps, **chosen, "said": self.contents()},
        }

    def contents(self) -> str:
        """A sentence on what the page contains."""
        total = sum(sight.problem.shape[1] for sight in self.run.trace)
        count = len(self.finest_levels)
        heads = "every head" if count == total else f"{count} of {total} heads"
        side = 2 ** self.finest_levels[self.chosen]
        cells = f" (down to cells of {side} × {side} weights)" if side > 1 else ""
        name = self.run.attention(self.chosen.attention)[0]
        steps = f", and every step of {name}, head {self.chosen.head}" if self.has_steps else ""
        return f"It contains the arrows and the map of {heads}{cells}{steps}."

    def to_dict(self) -> dict[str, Any]:
        """All answers; equal bodies are stored once."""
        bodies: dict[str, int] = {}
        responses = {}
        for path, answer in self.answers.items():
            is_binary = answer.kind == "application/octet-stream"
            body = base64.b64encode(answer.body).decode() if is_binary else answer.body.decode()
            responses[path] = [bodies.setdefault(body, len(bodies)), answer.kind, answer.headers]
        missing = f"this copy does not contain it. {self.contents()} For the rest, open the run with transom serve."
        return {"told": responses, "bodies": list(bodies), "missing": missing}


def default_head(run: "SessionRun") -> HeadIndex:
    """The first head of the last cross-attention, or else of the last attention, as the page itself begins."""
    roles = [attention["role"] for attention in run.to_dict()["attentions"]]
    cross = [index for index, role in enumerate(roles) if role == "cross"]
    return HeadIndex(cross[-1] if cross else len(roles) - 1, 0)


def round_digits(numbers: list[list[float | None]]) -> list[list[float | None]]:
    """Seven digits, which is what a float32 has."""
    return [[None if number is None else float(f"{number:.7g}") for number in row] for row in numbers]


def tile_bytes(pyramid: "Pyramid", finest: int) -> int:
    """About how many bytes the tiles of a map take, from the finest level up."""
    levels = range(finest, pyramid.top + 1)
    return CELL_BYTES * sum(prod(ceil(size / 2**level) for size in pyramid.sizes) for level in levels)


def finest_fitting(pyramid: "Pyramid", limit: int) -> int:
    """The finest level from which the tiles fit into so many bytes."""
    return next((level for level in range(pyramid.top) if tile_bytes(pyramid, level) <= limit), pyramid.top)


def tile_requests(pyramid: "Pyramid", head: int, finest: int) -> Iterator[TileRequest]:
    """Every tile from a level up, both ways to pool, with the first key and without."""
    from transom.lens.attention.pyramid import TILE

    for level in range(finest, pyramid.top + 1):
        rows, columns = (range(ceil(size / (TILE * 2**level))) for size in pyramid.sizes)
        for row, column, pool, sink in product(rows, columns, ("max", "mean"), (True, False)):
            yield TileRequest(head=head, level=level, row=row, column=column, pool=pool, sink=sink)
