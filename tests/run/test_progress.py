"""What a person sees of a run: plain lines, a bar, and a word at the end however it ends."""

import io
import re

import pytest
from small_runs import pairs_file, recipe

from transom.run.progress import Bar, Lines, processes, shown, spoken
from transom.run.train import train
from transom.run.training import Callback


class Memory(io.BytesIO):
    name = "memory"


class Paper(io.TextIOWrapper):
    """A stream that keeps what was written."""

    def __init__(self):
        super().__init__(Memory(), encoding="utf-8")
        self.mode = "w"

    def getvalue(self):
        self.seek(0)
        return self.read()


class Terminal(Paper):
    def isatty(self):
        return True


class Stop(Exception):
    pass


class StopAtOnce(Callback):
    def updated(self, training, step):
        raise Stop


def asked(tmp_path, **changes):
    told = {"updates": 6, "judge_every": 4, "report_every": 5, **changes}
    return recipe(tmp_path / "run", pairs_file(tmp_path), train=told)


def test_plain_lines_say_size_time_loss_and_judgements(tmp_path):
    stream = Paper()
    train(asked(tmp_path), callbacks=[shown(stream)])
    lines = stream.getvalue().splitlines()
    numbers = r"epoch 0  loss \d\.\d{3}  rate \d\.\d\de-0\d  [\d,]+ targets/s  \d+ s left"
    judged = r"loss \d\.\d+  perplexity \d+\.\d+"
    patterns = [
        r"\d,\d{3} parameters, 6 updates, about \d+ batches an epoch, one process",
        r"about \d+ s to go, judging aside",
        rf"judged after update 4: {judged}  \(best so far\)",
        rf"update 5/6  {numbers}",
        rf"update 6/6  {numbers}",
        rf"judged after update 6: {judged}(  \(best so far\))?",
    ]
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line


def test_going_on_is_told_and_a_finished_run_says_so_quickly(tmp_path):
    train(asked(tmp_path))
    stream = Paper()
    train(asked(tmp_path), callbacks=[Lines(stream)])
    assert stream.getvalue().splitlines()[0] == "going on from update 6"
    assert len(stream.getvalue().splitlines()) == 2
    stream = Paper()
    train(asked(tmp_path, updates=7), callbacks=[Lines(stream)])
    assert "update 7/7" in stream.getvalue()


def test_a_terminal_gets_a_bar_with_the_lines_above_it(tmp_path):
    stream = Terminal()
    bar = shown(stream)
    assert isinstance(bar, Bar)
    train(asked(tmp_path), callbacks=[bar])
    text = stream.getvalue()
    assert "6/6" in text
    assert "judged after update 4: loss " in text
    assert bar.bar is not None
    assert bar.bar.finished
    assert not bar.bar.live.is_started


def test_a_bar_gives_the_terminal_back_when_a_run_fails(tmp_path):
    bar = Bar(Terminal())
    with pytest.raises(Stop):
        train(asked(tmp_path), callbacks=[bar, StopAtOnce()])
    assert bar.bar is not None
    assert not bar.bar.live.is_started


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (89.0, "89 s"), (150.0, "2 min"), (5000.0, "83 min"), (9000.0, "2.5 h")]
)
def test_time_is_told_as_one_says_it(seconds, said):
    assert spoken(seconds) == said


def test_processes_are_counted():
    assert (processes(1), processes(3)) == ("one process", "3 processes")
