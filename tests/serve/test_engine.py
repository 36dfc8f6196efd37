"""The translator in the browser: the same tokens, weights and answers as Python's, from plain JavaScript."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from transom.lens.attribution.agreement import Agreement
from transom.models.embedded import embedded_folder
from transom.runner import load
from transom.serve import influence_queries, request_fields, run_queries, stage_queries
from transom.serve.explained_row import explain_row
from transom.serve.feed_forward_queries import feed_forward_units
from transom.serve.map_tiles import map_tile, weight_block
from transom.serve.pictures import picture_file
from transom.serve.request_fields import parse_query
from transom.serve.routes import ROUTES
from transom.serve.session import Session
from transom.serve.worker import Job

REPOSITORY = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("engine_driver.js")
DENO = shutil.which("deno", path=str(Path(sys.executable).parent)) or shutil.which("deno")
pytestmark = pytest.mark.skipif(DENO is None, reason="deno is not installed; pip install -e '.[dev]'")

TEXT, OTHER = "The cat sat on the mat because it was tired.", "The dog sat on the rug because it was tired."
HARD = [
    "naïve café “quoted” … – Ünïcödé 日本語 😀 x² ½ ١٢",
    "<s> hi </s> \x0e\x11 test",
    "  two  spaces \n and\ttabs  ",
    "ALL CAPS and iPhone's don't I'll 12,345.67",
    "ß ẞ ŒUVRE ǅ ﬁ İstanbul ΣΑΣ",
    "é combining \u200b zero \ufeff bom \x85 nel \x1c separator",
]


def ask_engine(**given):
    """What the engine says, outside a browser."""
    command = [DENO, "run", "--quiet", "--no-lock", f"--allow-read={REPOSITORY}", str(DRIVER)]
    given = json.dumps({"folder": str(embedded_folder()), **given})
    result = subprocess.run(command, input=given, capture_output=True, text=True, timeout=600, env={"NO_COLOR": "1"})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def everyday_texts(count):
    """Sentences of the recipe's own test files, spread over them."""
    lines = [
        line.split("\t")[0]
        for path in sorted((REPOSITORY / "recipes" / "en-fr").glob("everyday-*.tsv"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return lines[:: max(1, len(lines) // count)][:count]


def python_tokens(model, text):
    """Tokens of the text, and what Python's beam search and greedy search write."""
    ids = model.encode_fitting(text)
    longest = min(model.longest, 2 * len(ids) + 10)
    beams = model.model.generate([ids], num_beams=4, max_length=longest)[0].tolist()[1:]
    greedy = model.generate_ids(ids, max_length=longest)[1:]
    return {
        "source": ids,
        "pieces": model.token_strings(ids),
        "beams": beams,
        "text": model.decode(beams),
        "greedy": greedy,
    }


def compare_tokens(texts):
    """How many texts have the same tokens and translations; those that differ."""
    model = load()
    found = ask_engine(texts=texts)
    differing = []
    for text, answer in zip(texts, found, strict=True):
        expected = python_tokens(model, text)
        if {name: answer[name] for name in expected} != expected:
            differing.append((text, expected, answer))
    return differing


def test_same_tokens_for_hard_texts_and_a_few_sentences():
    assert compare_tokens([TEXT, "A", *HARD, *everyday_texts(4)]) == []


@pytest.mark.slow
def test_same_tokens_for_many_sentences():
    texts = everyday_texts(60)
    assert len(texts) == 60
    assert len(compare_tokens(texts)) <= 0.01 * len(texts)


class BothSides:
    """The same requests answered by the engine and by Python's functions."""

    def __init__(self):
        self.session = Session(load())
        self.job = Job(lambda job: None)
        self.runs = [self.session.run_text(request_fields.RunRequest(text=text)) for text in (TEXT, OTHER)]
        self.requests, self.expected = [["POST", "/api/runs", {"text": text}] for text in (TEXT, OTHER)], []
        self.expected = [run.to_dict() for run in self.runs]
        self.last = len(self.runs[0].receipts) - 1  # the last cross-attention

    def ask(self, method, path, expected, body=None):
        self.requests.append([method, path, body])
        self.expected.append(expected)

    def add_everything(self):
        run, other = self.runs
        formats = {"arrows": ["svg"], "steps": ["json"]}  # the page offers no other download
        self.ask("GET", "/api/state", {**self.session.to_dict(), "formats": formats})
        self.ask("GET", "/api/runs/1/heads", run_queries.measure_heads(run, self.job))
        # The server knocks out those with the largest estimates, the browser all: `why` says so.
        why = "without it, what the model gives would change most"
        self.ask("GET", "/api/runs/1/telling", {**run_queries.first_head(run, self.job), "why": why})
        self.ask("GET", "/api/runs/1/beside?other=2", run_queries.compare_runs(run, other))
        window = request_fields.WindowRequest(first=1, count=4)
        self.ask("GET", "/api/runs/1/mean_weights?first=1&count=4", stage_queries.mean_weights(run, window, self.job))
        self.ask("GET", "/api/runs/1/residual", stage_queries.residual_sizes(run, self.job))
        for row in (2, len(run.info["targets"]) - 1):
            fields = request_fields.InfluenceRequest(row=row, first_target=1, count=32)
            expected = stage_queries.influence_for_row(run, fields, self.job)
            self.ask("GET", f"/api/runs/1/influence?row={row}&first_target=1&count=32", expected)
        fields = request_fields.RankingRequest(refine=2)
        self.ask("GET", "/api/runs/1/ranking?refine=2", influence_queries.rank_heads(run, fields, self.job))
        names = [name for name, _ in run.trace.entries]
        cuts = [
            ("before", [{"layer": names[self.last], "head": 2}]),
            ("after", [{"layer": names[1], "head": 3, "query": 4}]),
            (
                "before",
                [{"layer": names[self.last - 1], "head": 0, "query": 5, "key": 2}, {"layer": names[0], "head": 6}],
            ),
        ]
        for how, edges in cuts:
            fields = request_fields.parse_body(
                request_fields.KnockOutRequest, json.dumps({"edges": edges, "how": how}).encode()
            )
            expected = run_queries.knock_out_run(run, fields)
            self.ask("POST", "/api/runs/1/knock_out", expected, {"edges": edges, "how": how})
        for index in (0, self.last - 1, self.last):
            self.add_attention(index)

    def add_attention(self, index):
        run, path = self.runs[0], f"/api/runs/1/{index}"
        for kind, name, query, answer in (
            (request_fields.WeightsRequest, "weights", "head=1&first_row=1&rows=64&keys=5", weight_block),
            (request_fields.TopEdgesRequest, "strongest", "head=1&count=9&sink=false", run_queries.strongest_edges),
            (request_fields.TopEdgesRequest, "strongest", "head=0&count=9", run_queries.strongest_edges),
            (request_fields.TopEdgesRequest, "strongest", "head=2&count=5&by=influence", run_queries.strongest_edges),
            (
                request_fields.TopEdgesRequest,
                "strongest",
                "head=2&count=4&by=influence&token=3&sink=false",
                run_queries.strongest_edges,
            ),
            (request_fields.EdgesRequest, "influence", "head=2&first_row=1&rows=6", influence_queries.influence_block),
            (request_fields.EdgesRequest, "influence", "head=1&rows=9&token=4", influence_queries.influence_block),
            (request_fields.RowRequest, "row", "head=2&query=3", stage_queries.row_arithmetic),
            (request_fields.RowRequest, "row", "head=2&query=6&count=3", stage_queries.row_arithmetic),
            (request_fields.EffectsRequest, "effects", "head=1&query=3&count=3", run_queries.edge_effects),
            (request_fields.FeedForwardRequest, "feed_forward", "query=3&explained=4", feed_forward_units),
            (request_fields.FeedForwardRequest, "feed_forward", "query=2&count=5&unit=7", feed_forward_units),
        ):
            fields = parse_query(kind, [tuple(part.split("=")) for part in query.split("&")])
            job = () if name in ("weights", "row", "influence", "feed_forward") else (self.job,)
            self.ask("GET", f"{path}/{name}?{query}", answer(run, index, fields, *job))
        for head in (0, 3):
            self.ask("GET", f"{path}/head?head={head}", run_queries.measure_head(run, index, head, self.job))
        fields = request_fields.PictureRequest(head=1)
        steps = json.loads(picture_file(self.session, run, index, "steps", fields).body)
        self.ask("GET", f"{path}/picture/steps?head=1", steps)


def bytes_of(answer):
    return bytes(answer["body"].values() if isinstance(answer["body"], dict) else answer["body"])


@pytest.fixture(scope="module")
def sides():
    both = BothSides()
    both.add_everything()
    return both, ask_engine(requests=both.requests)


NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
IGNORED = {"seconds", "said", "receipt"}  # times and rounding are the machine's own


def assert_alike(answer, expected, place=""):
    """The same shape, the same words, numbers within 1e-4."""
    if isinstance(expected, dict):
        assert set(answer) == set(expected), place
        for name in expected:
            if name not in IGNORED:
                assert_alike(answer[name], expected[name], f"{place}.{name}")
    elif isinstance(expected, list | tuple):
        assert len(answer) == len(expected), place
        for number, (one, other) in enumerate(zip(answer, expected, strict=True)):
            assert_alike(one, other, f"{place}[{number}]")
    elif isinstance(expected, float) and isinstance(answer, int | float):
        assert answer == pytest.approx(expected, rel=1e-4, abs=1e-4), place
    elif isinstance(expected, str) and answer != expected and NUMBER.search(expected):  # arithmetic, written out
        texts = [NUMBER.sub("#", text).replace("(#)", "#") for text in (answer, expected)]
        numbers = [list(map(float, NUMBER.findall(text))) for text in (answer, expected)]
        assert texts[0] == texts[1], place
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-3, abs=2e-4), place
    else:
        assert answer == expected, place


def test_answers_are_those_of_the_server(sides):
    both, answers = sides
    for (method, path, _), answer, expected in zip(both.requests, answers, both.expected, strict=True):
        assert answer["status"] == 200, (path, answer["body"])
        assert_alike(json.loads(answer["body"]), json.loads(json.dumps(expected)), f"{method} {path}")


def test_maps_are_those_of_the_server(sides):
    both, _ = sides
    run, job = both.runs[0], both.job
    small = stage_queries.thumbnails(run, request_fields.ThumbnailsRequest(cells=8), job)
    fields = request_fields.TileRequest(head=1, sink=False)
    tile = map_tile(run, both.last, fields, job)
    asked = [
        ["GET", "/api/runs/1/thumbnails?cells=8", None],
        ["GET", f"/api/runs/1/{both.last}/tile?head=1&sink=false", None],
    ]
    *_, thumbnails, numbers = ask_engine(requests=[*both.requests[:2], *asked])
    assert json.loads(thumbnails["headers"]["Thumbnails"]) == json.loads(small.headers["Thumbnails"])
    assert (
        np.abs(np.frombuffer(bytes_of(thumbnails), np.uint8).astype(int) - np.frombuffer(small.body, np.uint8)).max()
        <= 1
    )
    assert_alike(json.loads(numbers["headers"]["Tile"]), json.loads(tile.headers["Tile"]))
    assert np.frombuffer(bytes_of(numbers), "<f4") == pytest.approx(np.frombuffer(tile.body, "<f4"), abs=1e-4)


def test_arrows_are_drawn_as_by_the_server(sides):
    """The same elements at the same places, with the same words."""
    both, _ = sides
    fields = request_fields.PictureRequest(head=1, format="svg", token=3, key=1)
    expected = picture_file(both.session, both.runs[0], both.last, "arrows", fields).body.decode()
    path = f"/api/runs/1/{both.last}/picture/arrows?head=1&format=svg&token=3&key=1"
    answer = ask_engine(requests=[both.requests[0], ["GET", path, None]])[1]["body"]
    for pattern in (r'class="arrow[^>]*? d="[^"]*"', r'<g class="word" id="[^"]*"><rect [^>]*>', r"<text[^>]*>[^<]*"):
        found, wanted = (sorted(re.findall(pattern, svg)) for svg in (answer, expected))
        notes = len(wanted) - len(found)
        assert notes in (0, 3), pattern  # the server writes three notes below the drawing
        assert set(found) - set(wanted) <= {one for one in found if "receipt" in one}, pattern


def test_estimates_are_those_of_the_server(sides):
    """Not only within 1e-4, which many of them are themselves: each with three digits, from the same random signs."""
    both, answers = sides
    place = next(number for number, (_, path, _) in enumerate(both.requests) if "/ranking" in path)
    found, expected = json.loads(answers[place]["body"])["rows"], both.expected[place]["rows"]
    assert [row["estimate"] for row in found] == pytest.approx([row["estimate"] for row in expected], rel=1e-3)
    assert [row["effect"] for row in found[:2]] == pytest.approx([row["effect"] for row in expected[:2]], rel=1e-3)


def test_what_mattered_for_a_token_is_that_of_the_server(sides):
    """Its signed map, the largest number of the map, and estimates beside true knock-outs of the same edges."""
    both, _ = sides
    run, job, index = both.runs[0], both.job, both.last - 1
    fields = request_fields.TileRequest(head=2, token=4, sink=False)
    path = f"/api/runs/1/{index}"
    asked = [
        ["GET", f"{path}/tile?head=2&token=4&sink=false", None],
        ["GET", f"{path}/overview?head=2&token=4&sink=false", None],
        ["GET", "/api/runs/1/agreement?token=4&samples=24", None],
    ]
    *_, tile, overview, agreement = ask_engine(requests=[*both.requests[:2], *asked])
    expected = np.frombuffer(map_tile(run, index, fields, job).body, "<f4")
    assert expected.min() < 0 < expected.max()
    assert np.frombuffer(bytes_of(tile), "<f4") == pytest.approx(expected, rel=1e-3, abs=1e-6)
    last = json.loads(overview["body"].strip().rpartition("data: ")[2])
    assert last["largest"] == pytest.approx(np.abs(expected).max(), rel=1e-3)
    found, explained = json.loads(agreement["body"]), explain_row(run, 4)
    assert (found["samples"], found["token"]) == (24, explained.token)
    assert len({(row["layer"], row["head"]) for row in found["rows"]}) > 8, "of many heads"
    edges = [(row["layer"], row["head"], row["query"], row["key"]) for row in found["rows"]]
    rows = explained.found.edge_rows(edges, len(edges), None)
    for name in ("weight", "estimate", "change"):
        wanted = [getattr(row, name) for row in rows]
        assert [row[name] for row in found["rows"]] == pytest.approx(wanted, rel=1e-2, abs=2e-6), name
    same = Agreement(rows, found["near_one"]).to_dict()
    for name in ("pearson", "rank", "small_steps", "pearson_of_small_steps"):
        assert found[name] == pytest.approx(same[name], abs=0.02), name
    assert found["near_one"] == explained.measure(1, lambda: None)["near_one"]


IN_FILES = ("/api/lessons", "/api/glossary", "/api/replay")  # of the site, or not on it


def test_every_route_of_the_server_is_answered_or_refused_plainly():
    asked = [
        [route.method, re.sub(r"{view}", "steps", re.sub(r"{\w+:int}", "0", route.path.replace("{run}", "1"))), {}]
        for route in ROUTES
        if not route.path.startswith(IN_FILES)
    ]
    edges = [{"layer": "decoder.blocks.0.cross", "head": 0}]
    bodies = {"/api/runs": {"text": "Hello."}, "/api/writing": {"text": "Hello."}}
    for one in asked:
        one[1] += {"/api/runs/1/beside": "?other=1"}.get(one[1], "")
        one[2] = bodies.get(one[1], {"edges": edges})
    _, *answers = ask_engine(requests=[["POST", "/api/runs", {"text": "Hello."}], *asked])
    refused = []
    for (_, path, _), answer in zip(asked, answers, strict=True):
        if answer["status"] != 200:
            assert "needs Python" in json.loads(answer["body"])["error"], (path, answer)
            refused.append(path)
    assert refused == ["/api/runs/1/page", "/api/runs/1/trace"]


def test_mistakes_are_one_line():
    wrong = [
        ["GET", "/api/runs/7", None],
        ["GET", "/api/runs/1/0/weights?head=99", None],
        ["GET", "/api/runs/1/0/weights?haed=1", None],
        ["GET", "/api/runs/1/99/weights", None],
        ["GET", "/api/runs/1/page?attention=0", None],
        ["POST", "/api/runs", {"text": "  "}],
        ["POST", "/api/runs", {"text": "word " * 400}],
        ["POST", "/api/runs/1/knock_out", {"edges": [{"layer": "nowhere", "head": 0}]}],
        [
            "POST",
            "/api/runs/1/knock_out",
            {"edges": [{"layer": "decoder.blocks.0.attention", "head": 0, "query": 0, "key": 1}]},
        ],
        ["GET", "/api/__proto__", None],
    ]
    _, *answers = ask_engine(requests=[["POST", "/api/runs", {"text": "Hello."}], *wrong])
    for asked, answer in zip(wrong, answers, strict=True):
        error = json.loads(answer["body"])["error"]
        assert answer["status"] in (400, 404), (asked, answer)
        assert len(error.splitlines()) == 1, asked
