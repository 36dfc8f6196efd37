"""The log of a run, damaged, read and gone on from; and the sums that `transom heads` keeps."""

import random
from pathlib import Path

import msgspec

from fuzz.mutations import damage_bytes, damage_json, damage_text
from transom.cli.heads_corpus import CorpusPart, HeadSumsFile, PartProgress
from transom.cli.heads_corpus import load_sums as read_sums
from transom.lens.metrics.head_sums import HeadSums, LayerSums
from transom.lens.metrics.head_table import HeadTable
from transom.training.run_log import JsonLinesLog, read_log

LOG = '{"update": 1, "epoch": 0, "loss": 2.5}\n{"update": 2, "loss": NaN}\n{"update": 2, "judged": {"loss": 1.5}}\n'


def prepare(folder: Path) -> tuple[Path, bytes]:
    sums = HeadSums(["entropy", "peak"], {"a": LayerSums(2, False), "b": LayerSums(3, True)})
    kept = HeadSumsFile("model", "0", [PartProgress(CorpusPart(["x"], [1], True, 1024), 3, 4, 5, True)], sums)
    return folder, msgspec.json.encode(kept)


def try_input(state: tuple[Path, bytes], rng: random.Random) -> str:
    folder, sums = state
    if rng.random() < 0.4:
        path = folder / "sums.json"
        path.write_bytes(damage_json(sums, rng))
        table = HeadTable.from_sums(read_sums(path).heads)
        table.text(80)
        table.json()
        table.csv()
        return "sums"
    path = folder / "log.jsonl"
    content = damage_text(LOG, rng).encode("utf-8", "replace")
    path.write_bytes(content if rng.random() < 0.5 else damage_bytes(content, rng))
    lines = read_log(path)
    log = JsonLinesLog(path)
    log.open_file(1)
    log.write(2, loss=1.0)
    log.file.close()
    assert len(read_log(path)) <= len(lines) + 1
    return "log"
