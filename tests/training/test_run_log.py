"""The log of a run: in order, complete, and right after a stop."""

import json
from contextlib import contextmanager

from transom.training.run_log import JsonLinesLog, read_log


@contextmanager
def open_log(path, resumed_at):
    log = JsonLinesLog(path)
    log.open_file(resumed_at)
    yield log
    log.file.close()


def test_lines_are_json_in_order(tmp_path):
    path = tmp_path / "log.jsonl"
    with open_log(path, 0) as log:
        log.write(1, loss=2.5)
        assert [json.loads(line) for line in path.read_text().splitlines()] == [{"update": 1, "loss": 2.5}]
        log.write(2, judged={"loss": 1.5})
    assert read_log(path) == [{"update": 1, "loss": 2.5}, {"update": 2, "judged": {"loss": 1.5}}]


def test_resuming_drops_what_came_after_the_checkpoint(tmp_path):
    path = tmp_path / "log.jsonl"
    with open_log(path, 0) as log:
        for update in range(1, 6):
            log.write(update, loss=float(update))
    with open_log(path, 3) as log:
        log.write(4, loss=40.0)
    assert [(line["update"], line["loss"]) for line in read_log(path)] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 40.0)]
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_new_run_begins_a_new_log(tmp_path):
    path = tmp_path / "log.jsonl"
    with open_log(path, 0) as log:
        log.write(1, loss=1.0)
    with open_log(path, 0):
        pass
    assert path.read_text() == ""


def test_a_log_is_read_up_to_where_it_was_cut_or_damaged(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"update": 1}\n{"update": 2}\n{"upd')
    assert read_log(path) == [{"update": 1}, {"update": 2}]
    path.write_bytes(b'{"update": 1}\n\xff\xfe\n{"update": 3}\n')
    assert read_log(path) == [{"update": 1}]
    path.write_bytes(b'{"update": 1}\n' + b"[" * 100_000 + b'\n{"update": 3}\n')
    assert read_log(path) == [{"update": 1}]
    path.write_bytes(b'{"update": 1, "loss": Infinity}\n')
    assert read_log(path) == [{"update": 1, "loss": float("inf")}]
    path.write_bytes(b'[1]\n{"loss": 1.0}\n{"update": "x"}\n{"update": 4}\n')
    assert read_log(path) == [{"update": 4}]
