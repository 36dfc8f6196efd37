"""Ctrl-C, once or twice, at any moment: exit code 130 and no traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import transom
from transom.__main__ import SAME_INTERRUPT, Interrupts, is_importing

# Sleeps instead of the command's work, and prints when it does: the signal comes at a known moment.
BUSY = """
import sys, time, runpy
import transom.cli.doctor
def system_info():
    print("at work", file=sys.stderr, flush=True)
    {work}
    return {{}}
transom.cli.doctor.system_info = system_info
sys.argv = ["transom", "doctor"]
runpy.run_module("transom", run_name="__main__")
"""
IMPORTING = """
import sys, pathlib, runpy
sys.path.insert(0, {folder!r})
import transom.cli.doctor
def system_info():
    import slow_to_import
transom.cli.doctor.system_info = system_info
sys.argv = ["transom", "doctor"]
runpy.run_module("transom", run_name="__main__")
"""
SLOW_MODULE = """
import sys, time
print("at work", file=sys.stderr, flush=True)
try:
    time.sleep(60)
except BaseException:
    pass  # as some extension modules do
time.sleep(60)
"""
ENDING = """
import atexit, sys, time, runpy
import transom.cli
def end():
    print("at work", file=sys.stderr, flush=True)
    time.sleep(60)
run = transom.cli.main
transom.cli.main = lambda: atexit.register(end) and run()
sys.argv = ["transom", "--version"]
runpy.run_module("transom", run_name="__main__")
"""
MOMENTS = {
    "while it works": BUSY.format(work="time.sleep(60)"),
    "while it cleans up": BUSY.format(work="try:\n        time.sleep(60)\n    finally:\n        time.sleep(0.3)"),
    "in a finalizer": BUSY.format(
        work="class Slow:\n        def __del__(self):\n            time.sleep(60)\n    one = Slow()\n    del one"
    ),
    "at the end": ENDING,
}


def start(code: str) -> subprocess.Popen[str]:
    home = {"PYTHONPATH": str(Path(transom.__file__).parent.parent)}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def interrupt(process: subprocess.Popen[str], gap: float | None) -> tuple[int, str]:
    """Exit code and stderr after one SIGINT, or after two with so many seconds between them."""
    process.send_signal(signal.SIGINT)
    if gap is not None:
        time.sleep(gap)
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.slow
@pytest.mark.parametrize("gap", [None, 0.0, 0.005, 0.03], ids=["once", "at once", "5 ms", "30 ms"])
@pytest.mark.parametrize("moment", [*MOMENTS, "while it imports"])
def test_no_moment_gives_a_traceback(moment, gap, tmp_path):
    (tmp_path / "slow_to_import.py").write_text(SLOW_MODULE)
    process = start(MOMENTS.get(moment) or IMPORTING.format(folder=str(tmp_path)))
    assert process.stderr is not None
    assert process.stderr.readline() == "at work\n"
    code, err = interrupt(process, gap)
    assert code == 130, err
    assert "Traceback" not in err
    assert "KeyboardInterrupt" not in err


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.0, 0.05, 0.2, 0.5, 1.0, 2.0])
def test_two_interrupts_at_any_time_after_the_start(wait):
    """From the first line of Transom on, while torch is imported."""
    code = "print('begun', flush=True); import sys, runpy; sys.argv = ['transom', 'tour'];"
    code += "import transom.__main__ as m; i = m.Interrupts(); i.install(); sys.unraisablehook = m.report_unraisable;"
    process = start(f"{code} print('ready', flush=True); runpy.run_module('transom', run_name='__main__')")
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == ["begun\n", "ready\n"]
    time.sleep(wait)
    code, err = interrupt(process, 0.03)
    assert code in {0, 130}, err  # 0: it was done before
    assert "Traceback" not in err


@pytest.mark.slow
def test_interrupts_while_python_ends_do_not_kill_it():
    """After the last handler of atexit Python restores the default handler of SIGINT; it must stay ignored."""
    code = "import os, sys, runpy; sys.argv = ['transom', '--version'];"
    code += "Last = type('Last', (), {'__del__': lambda self, kill=os.kill, me=os.getpid(): kill(me, 2)});"
    process = start(f"{code} sys.last_object = Last(); runpy.run_module('transom', run_name='__main__')")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_an_import_is_known_by_its_frames(tmp_path, monkeypatch):
    answers = []
    (tmp_path / "asks_who_imports.py").write_text("from __main__ import ask_frames\nask_frames()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        sys.modules["__main__"], "ask_frames", lambda: answers.append(is_importing(sys._getframe())), False
    )
    __import__("asks_who_imports")
    assert answers == [True]
    assert not is_importing(None)


def test_a_second_interrupt_soon_after_is_the_same_one(monkeypatch):
    exits, now = [], [100.0]
    monkeypatch.setattr("transom.__main__.leave", lambda: exits.append(now[0]))
    monkeypatch.setattr("transom.__main__.time.monotonic", lambda: now[0])
    interrupts = Interrupts()
    interrupts.is_running = True
    with pytest.raises(KeyboardInterrupt):
        interrupts(signal.SIGINT, None)
    now[0] += SAME_INTERRUPT / 2
    interrupts(signal.SIGINT, None)
    assert exits == []
    now[0] += SAME_INTERRUPT
    interrupts(signal.SIGINT, None)
    assert exits == [now[0]]
