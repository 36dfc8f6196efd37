"""The command line as a whole: help, exit codes, and errors of one line."""

import os
import subprocess
import sys
import warnings

import pytest

import transom
from transom import cli
from transom.cli import COMMANDS, main
from transom.files.terminal import PLAIN
from transom.names import Misfit


def make_fail(monkeypatch, error: Exception) -> None:
    """Make `transom doctor` fail with this error."""

    def system_info():
        raise error

    monkeypatch.setattr("transom.cli.doctor.system_info", system_info)


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help_lists_every_command_with_its_line(args, capsys):
    assert main(args) == 0
    shown = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"  {name} " in shown
        assert command.help in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_its_line_and_an_example(name, capsys):
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: transom {name} " in shown
    assert f"Example: transom {name} " in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_json_twin(name, capsys):
    main([name, "--help"])
    assert "--json" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"transom {transom.__version__}\n"


def test_python_m_transom_is_the_command():
    done = subprocess.run([sys.executable, "-m", "transom", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"transom {transom.__version__}\n", "")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["tuor"], f"there is no command 'tuor'; there are {', '.join(COMMANDS)}; see transom --help"),
        (["--loud"], "No such option: --loud; see transom --help"),
        (["doctor", "--loud"], "No such option: --loud; see transom doctor --help"),
        (["doctor", "who"], "Got unexpected extra argument(s) (who); see transom doctor --help"),
    ],
)
def test_bad_use_is_one_line_and_code_2(args, complaint, capsys):
    assert main(args) == 2
    assert capsys.readouterr() == ("", f"transom: {complaint}\n")


def test_bad_input_is_one_line_and_code_2(monkeypatch, capsys):
    make_fail(monkeypatch, Misfit("expected a cat,\n  but got a dog; give a cat"))
    assert main(["doctor"]) == 2
    assert capsys.readouterr() == ("", "transom: expected a cat, but got a dog; give a cat\n")


def test_an_internal_error_is_one_line_and_code_3(monkeypatch, capsys):
    make_fail(monkeypatch, RuntimeError("the ladder broke"))
    assert main(["doctor"]) == 3
    message = "RuntimeError: the ladder broke; this is an internal error, and --debug shows where"
    assert capsys.readouterr() == ("", f"transom: {message}\n")


@pytest.mark.parametrize("args", [["--debug", "doctor"], ["doctor", "--debug"]])
def test_debug_shows_the_traceback_before_the_line(args, monkeypatch, capsys):
    make_fail(monkeypatch, Misfit("no"))
    assert main(args) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Traceback (most recent call last):\n")
    assert shown.err.endswith("transom.names.Misfit: no\ntransom: no\n")


def test_a_command_can_set_its_exit_code(monkeypatch, capsys):
    make_fail(monkeypatch, cli.typer.Exit(1))
    assert main(["doctor"]) == 1
    assert capsys.readouterr() == ("", "")


def test_a_warning_is_one_line(monkeypatch, capsys):
    def system_info():
        warnings.warn("temperature=0.5 changes nothing;\n leave it out", stacklevel=2)
        raise cli.typer.Exit(0)

    monkeypatch.setattr("transom.cli.doctor.system_info", system_info)
    original = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["doctor"]) == 0
    assert capsys.readouterr() == ("", "transom: temperature=0.5 changes nothing; leave it out\n")
    assert warnings.showwarning is original


def test_a_stream_without_our_characters_gets_plain_ones_not_an_error():
    done = subprocess.run(
        [sys.executable, "-m", "transom", "tour"],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'"The cat sat" in four dimensions' in done.stdout
    assert b"scores Q K^T" in done.stdout
    assert b".allons (.chez)" in done.stdout
    assert b'translator that comes with Transom: "We are going home." > "Nous allons chez nous."' in done.stdout
    assert b"?" not in done.stdout.split(b"Next, try:")[0]


def test_signs_without_a_plain_form_become_question_marks():
    assert "“é” → 猫, œuf, ½".encode("ascii", errors=PLAIN) == b'"e" > ?, oeuf, 1/2'


def test_a_narrow_terminal_is_told_how_wide_the_tour_is():
    done = subprocess.run(
        [sys.executable, "-m", "transom", "tour"], capture_output=True, env={**os.environ, "COLUMNS": "40"}, check=False
    )
    words = b"transom: the tour's tables need 100 columns, and this terminal has 40: lines will wrap\n"
    assert (done.returncode, done.stderr) == (0, words)
    assert max(map(len, done.stdout.decode().splitlines())) <= 100
