"""Commands as tests run them."""

import pytest

from transom.cli import main


@pytest.fixture
def run_command(capsys):
    """Runs a command line and checks its exit code; returns what it printed."""

    def run(*args, code=0):
        capsys.readouterr()
        exit_code = main([str(arg) for arg in args])
        output = capsys.readouterr()
        assert exit_code == code, output.err
        return output

    return run


@pytest.fixture
def complaint(run_command):
    """Runs a command line that is an error; returns the error's one line."""

    def run(*args):
        out, err = run_command(*args, code=2)
        assert out == ""
        return err.splitlines()[-1].removeprefix("transom: ")

    return run
