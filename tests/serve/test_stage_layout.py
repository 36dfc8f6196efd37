"""Where things stand on the stage: pure functions, run by deno, for models of every shape and stages of every size."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import transom

STAGE = Path(transom.__file__).parent / "serve" / "static" / "stage"
DENO = shutil.which("deno") or shutil.which("deno", path=str(Path(sys.executable).parent))
SCRIPT = """
const { layoutModel, paneBox, blockBox } = await import(`${base}/layout.js`);
const { modelShape, windowOf } = await import(`${base}/shape.js`);
const found = cases.map(({ run, size }) => {
  const shape = modelShape(run);
  const windows = Object.fromEntries(shape.lanes.map((lane) => [lane.side, windowOf(lane, 16)]));
  const layout = layoutModel(shape, { ...size, windows });
  const blocks = layout.lanes.map((lane) => lane.blocks.map((block) => blockBox(layout, lane, block)));
  const parts = layout.lanes.flatMap((lane) => lane.blocks.flatMap((block) => block.parts));
  const panes = parts.map((part) => part.panes.map((pane) => paneBox(layout, pane)));
  const edges = ({ at, first, count, gap }) => [at(first), at(first + count - 1), gap];
  const rails = layout.lanes.map((lane) => edges(lane.rails));
  return { blocks, panes, rails, sides: shape.lanes.map((lane) => lane.side), count: panes.flat().length };
});
console.log(JSON.stringify(found));
"""
SIZES = [(1220, 560, False), (940, 520, False), (740, 480, False), (366, 1100, True)]


def attention(index, name, role, heads, queries, keys):
    return {"index": index, "name": name, "role": role, "heads": heads, "queries": queries, "keys": keys}


def translator(source=11, target=13):
    encoder = [(f"encoder.blocks.{i}.attention", "encoder", 7, source, source) for i in range(6)]
    decoder = [
        (f"decoder.blocks.{i}.{part}", role, 7, target, keys)
        for i in range(3)
        for part, role, keys in (("attention", "decoder", target), ("cross", "cross", source))
    ]
    return [attention(i, *one) for i, one in enumerate([*encoder, *decoder])]


def stack(layers, heads, tokens, name="h.{}.attn"):
    return [attention(i, name.format(i), "self", heads, tokens, tokens) for i in range(layers)]


RUNS = {
    "6+3 layers of 7 heads": translator(),
    "12 layers of 12 heads": stack(12, 12, 12),
    "30 layers of 9 heads, 4,000 tokens": stack(30, 9, 4000, "model.layers.{}.self_attn"),
    "6 layers of 12 heads": stack(6, 12, 9, "encoder.layer.{}.attention.self"),
    "one cross-attention alone": [attention(0, "decoder.x.cross", "cross", 1, 5, 7)],
    "one head, one token": stack(1, 1, 1),
}


@pytest.fixture(scope="module")
def layouts():
    if DENO is None:
        pytest.skip("deno is not installed")
    cases = [
        {
            "run": {"attentions": run, "tokens": [], "targets": [], "likely": [], "written": []},
            "size": dict(zip(("width", "height", "tall"), size, strict=True)),
        }
        for run in RUNS.values()
        for size in SIZES
    ]
    script = f"const base = {json.dumps(STAGE.as_uri())};\nconst cases = {json.dumps(cases)};\n{SCRIPT}"
    command = [DENO, "run", "--no-config", f"--allow-read={STAGE}", "-"]
    ran = subprocess.run(command, input=script, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    keys = [(name, size) for name in RUNS for size in SIZES]
    return dict(zip(keys, json.loads(ran.stdout), strict=True))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("size", SIZES)
def test_everything_fits_and_nothing_overlaps(layouts, name, size):
    found, (width, height, _) = layouts[name, size], size
    assert found["count"] == sum(one["heads"] for one in RUNS[name])
    boxes = [box for panes in found["panes"] for box in panes]
    for box in boxes:
        assert 0 <= box["x"] <= box["x"] + box["w"] <= width + 0.01
        assert 0 <= box["y"] <= box["y"] + box["h"] <= height + 0.01
        assert box["w"] == box["h"] > 8
    for i, one in enumerate(boxes):
        assert not any(overlap(one, other) for other in boxes[i + 1 :])
    for lane in found["blocks"]:
        assert not any(overlap(one, other) for i, one in enumerate(lane) for other in lane[i + 1 :])


def overlap(one, other):
    across = min(one["x"] + one["w"], other["x"] + other["w"]) - max(one["x"], other["x"])
    down = min(one["y"] + one["h"], other["y"] + other["h"]) - max(one["y"], other["y"])
    return across > 0.01 and down > 0.01


def test_panes_are_large_enough_to_hit_where_there_is_room(layouts):
    for name in ("6+3 layers of 7 heads", "12 layers of 12 heads", "6 layers of 12 heads"):
        found = layouts[name, SIZES[0]]
        assert min(box["w"] for panes in found["panes"] for box in panes) >= 24


def test_rails_keep_apart_and_a_long_text_shows_a_window(layouts):
    for (name, size), found in layouts.items():
        for first, last, gap in found["rails"]:
            assert gap > 3, (name, size)
            assert last - first <= 15.01 * gap


def test_lanes_follow_the_kind_of_model(layouts):
    assert layouts["6+3 layers of 7 heads", SIZES[0]]["sides"] == ["source", "target"]
    assert layouts["12 layers of 12 heads", SIZES[0]]["sides"] == ["text"]
    assert layouts["one cross-attention alone", SIZES[0]]["sides"] == ["source", "target"]
