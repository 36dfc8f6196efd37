"""What a person sees of a run: plain lines, a bar, and a word at the end however it ends."""

import io
import re

import pytest
from small_runs import pairs_file, small_recipe

from transom.training.loop import Callback
from transom.training.progress import ProgressBar, ProgressLines, format_duration, progress_for
from transom.training.train import train


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
    def on_update(self, training, result):
        raise Stop


def run_recipe(tmp_path, **changes):
    settings = {"updates": 6, "judge_every": 4, "report_every": 5, **changes}
    return small_recipe(tmp_path / "run", pairs_file(tmp_path), train=settings)


def test_plain_lines_say_size_time_loss_and_judgements(tmp_path):
    stream = Paper()
    train(run_recipe(tmp_path), callbacks=[progress_for(stream)])
    lines = stream.getvalue().splitlines()
    numbers = r"epoch 0  loss \d\.\d{3}  rate \d\.\d\de-0\d  [\d,]+ targets/s  \d+ s left"
    judged = r"loss \d\.\d+  perplexity \d+\.\d+"
    patterns = [
        r"\d,\d{3} parameters, 6 updates, about \d+ batches an epoch, one process",
        r"about \d+ s to go, without evaluations",
        rf"evaluated after update 4: {judged}  \(best so far\)",
        rf"update 5/6  {numbers}",
        rf"update 6/6  {numbers}",
        rf"evaluated after update 6: {judged}(  \(best so far\))?",
    ]
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line


def test_going_on_is_told_and_a_finished_run_says_so_quickly(tmp_path):
    train(run_recipe(tmp_path))
    stream = Paper()
    train(run_recipe(tmp_path), callbacks=[ProgressLines(stream)])
    assert stream.getvalue().splitlines()[0] == "resuming from update 6"
    assert len(stream.getvalue().splitlines()) == 2
    stream = Paper()
    train(run_recipe(tmp_path, updates=7), callbacks=[ProgressLines(stream)])
    assert "update 7/7" in stream.getvalue()


def test_a_terminal_gets_a_bar_with_the_lines_above_it(tmp_path):
    stream = Terminal()
    bar = progress_for(stream)
    assert isinstance(bar, ProgressBar)
    train(run_recipe(tmp_path), callbacks=[bar])
    text = stream.getvalue()
    assert "6/6" in text
    assert "evaluated after update 4: loss " in text
    assert bar.bar is not None
    assert bar.bar.finished
    assert not bar.bar.live.is_started


def test_a_bar_gives_the_terminal_back_when_a_run_fails(tmp_path):
    bar = ProgressBar(Terminal())
    with pytest.raises(Stop):
        train(run_recipe(tmp_path), callbacks=[bar, StopAtOnce()])
    assert bar.bar is not None
    assert not bar.bar.live.is_started


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (89.0, "89 s"), (150.0, "2 min"), (5000.0, "83 min"), (9000.0, "2.5 h")]
)
def test_time_is_told_as_one_says_it(seconds, said):
    assert format_duration(seconds) == said
