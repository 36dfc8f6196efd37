"""The log of a run, damaged, read and gone on from; and the sums that `transom heads` keeps."""

import random
from pathlib import Path

import msgspec

from fuzz.mutations import damage_bytes, damage_json, damage_text
from transom.cli.head_files import Done, Part, Sums
from transom.cli.head_files import read as read_sums
from transom.lens.measuring.head_sums import HeadSums, LayerSums
from transom.lens.measuring.head_table import HeadTable
from transom.run.journal import Journal, read

LOG = '{"update": 1, "epoch": 0, "loss": 2.5}\n{"update": 2, "loss": NaN}\n{"update": 2, "judged": {"loss": 1.5}}\n'


def prepare(folder: Path) -> tuple[Path, bytes]:
    sums = HeadSums(["entropy", "peak"], {"a": LayerSums(2, False), "b": LayerSums(3, True)})
    kept = Sums("model", "0", [Done(Part(["x"], [1], True, 1024), 3, 4, 5, True)], sums)
    return folder, msgspec.json.encode(kept)


def try_input(state: tuple[Path, bytes], rng: random.Random) -> str:
    folder, sums = state
    if rng.random() < 0.4:
        path = folder / "sums.json"
        path.write_bytes(damage_json(sums, rng))
        table = HeadTable.of(read_sums(path).heads)
        table.text(80)
        table.json()
        table.csv()
        return "sums"
    path = folder / "log.jsonl"
    content = damage_text(LOG, rng).encode("utf-8", "replace")
    path.write_bytes(content if rng.random() < 0.5 else damage_bytes(content, rng))
    lines = read(path)
    with Journal(path, 1) as journal:
        journal.write(2, loss=1.0)
    assert len(read(path)) <= len(lines) + 1
    return "log"
