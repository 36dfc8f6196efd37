"""Devices, pipes and folders where a file is expected: refused with a line, before anything is read."""

import os
from pathlib import Path

import pytest

from transom.cli import main
from transom.files.safetensors_header import read_header
from transom.files.untrusted_files import read_bytes, read_numbered_lines
from transom.names import Misfit

COMMANDS = {
    "train": ["train", "{}"],
    "evaluate": ["evaluate", "{}"],
    "check": ["check", "{}"],
    "learn": ["learn", "{}"],
    "see": ["see", "--trace", "{}"],
    "serve": ["serve", "{}", "--port", "0"],
    "translate --file": ["translate", "--file", "{}", "--model", "gone"],
    "heads --merge": ["heads", "--merge", "{}"],
    "heads --text": ["heads", "--text", "{}"],
    "model": ["see", "the cat", "--model", "{}"],
}


@pytest.fixture(params=["/dev/zero", "pipe", "folder"])
def special(request, tmp_path):
    path = Path(request.param) if request.param.startswith("/") else tmp_path / f"{request.param}.toml"
    if request.param == "pipe":
        os.mkfifo(path)  # opening it would wait for a writer for ever
    if request.param == "folder":
        path.mkdir()
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_reads_what_is_no_file(name, special, capsys):
    if name == "model" and special.is_dir():
        pytest.skip("a model is a folder")
    assert main([word.format(special) for word in COMMANDS[name]]) == 2
    _, err = capsys.readouterr()
    assert err.startswith("transom: ")
    assert err.count("\n") == 1


def test_readers_refuse_what_is_no_file(special):
    kind = "a folder" if special.is_dir() else "something else"
    told = f"{special} should be a regular file, but it is {kind}; name the file"
    for read in (read_bytes, lambda path: list(read_numbered_lines(path))):
        with pytest.raises(Misfit) as caught:
            read(special)
        assert str(caught.value) == told
    with pytest.raises(Misfit, match=r"^it is not a regular file$"):
        read_header(special, 100)
