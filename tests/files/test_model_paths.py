"""What is named as a model and is none is said to be what it is, by its bytes and not by its name."""

import gzip
import io
import os
import pickle
import re
import struct
import tarfile
import zipfile

import pytest
import torch
from safetensors.torch import save

from transom import cli, models
from transom.files.model_paths import KINDS, check_model_folder, detect_kind
from transom.names import Misfit
from transom.runner import load_text_model

GGUF = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
CONVERT = "turn it into a folder with transom import"
AS_SAFETENSORS = "save the model as safetensors, and name that folder"
PICKLED = "it is a file of pickled objects, which can run code when it is read, so Transom never does"
UNPACK = "unpack it, and name the folder that comes out"


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def torch_file(thing, new=True):
    held = io.BytesIO()
    torch.save(thing, held, _use_new_zipfile_serialization=new)
    return held.getvalue()


def zipped():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("model/config.json", "{}")
    return held.getvalue()


def tarred():
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("config.json"))
    return held.getvalue()


FILES = {
    "gguf": (GGUF, f"it is a GGUF file; {CONVERT}"),
    "safetensors": (
        save({"x": torch.ones(3)}),
        "it is a safetensors file: parameters alone; name the folder that has its config.json as well",
    ),
    "torch": (torch_file({"x": torch.ones(3)}), f"{PICKLED}; {AS_SAFETENSORS}"),
    "old torch": (torch_file({"x": torch.ones(3)}, new=False), f"{PICKLED}; {AS_SAFETENSORS}"),
    "pickle": (pickle.dumps({"x": 1}), f"{PICKLED}; {AS_SAFETENSORS}"),
    "zip": (zipped(), f"it is a zip archive; {UNPACK}"),
    "tar": (tarred(), f"it is an archive; {UNPACK}"),
    "gzip": (gzip.compress(tarred()), f"it is an archive; {UNPACK}"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(64), f"it is an HDF5 file, as Keras writes them; {AS_SAFETENSORS}"),
}


def complaint(act, *given):
    with pytest.raises(Misfit) as caught:
        act(*given)
    return str(caught.value)


def test_every_kind_is_tested():
    found = {KINDS.index(next(kind for kind in KINDS if kind.matches(content))) for content, _ in FILES.values()}
    assert found == set(range(len(KINDS)))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_said_to_be_what_it_is(name, tmp_path):
    content, words = FILES[name]
    path = tmp_path / "model.anything"
    path.write_bytes(content)
    expected = f"{path} should be the folder of a model, but {words}"
    assert complaint(check_model_folder, path, "config.json") == expected
    if name != "gguf":
        assert complaint(load_text_model, str(path)) == expected
    assert complaint(models.from_pretrained, path) == expected
    assert complaint(models.Decoder.from_pretrained, str(path)) == expected


@pytest.mark.parametrize("command", ["see", "translate", "generate", "classify", "heads"])
def test_a_command_reads_a_gguf_file_and_says_what_is_missing(command, tmp_path, capsys):
    path, text = tmp_path / "x.gguf", tmp_path / "text.txt"
    path.write_bytes(GGUF)
    text.write_text("the cat sat")
    assert cli.main([command, str(text) if command == "heads" else "the cat", "--model", str(path)]) == 2
    error = f"transom: {path} should list its tokenizer's tokens, but it does not; take another model\n"
    assert capsys.readouterr().err == error


def test_nothing_is_unpickled(tmp_path):
    for number, content in enumerate((pickle.dumps(Bomb(tmp_path / "ran")), torch_file(Bomb(tmp_path / "ran")))):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(content)
        assert PICKLED in complaint(load_text_model, str(path))
    assert not (tmp_path / "ran").exists()


def test_what_only_its_name_tells(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"who knows")
    assert complaint(load_text_model, str(path)) == (
        f"{path} should be the folder of a model, but it is a file, and by its name (.bin) one of pickled objects,"
        f" which Transom never reads; {AS_SAFETENSORS}"
    )
    path = tmp_path / "config.json"
    path.write_text('{"format": 1}')
    assert complaint(load_text_model, str(path)) == (
        f"{path} should be the folder of a model, but it is a file; name the folder that it lies in, {tmp_path}, if"
        " that is the folder of a model"
    )
    path = tmp_path / "nothing"
    path.write_bytes(b"")
    assert detect_kind(path) is None


def test_folders_without_a_config(tmp_path):
    assert complaint(load_text_model, str(tmp_path)) == (
        f"{tmp_path} should be the folder of a model, but it is empty; is the copy complete?"
    )
    (tmp_path / "model.gguf").write_bytes(GGUF)
    assert complaint(load_text_model, str(tmp_path)) == (
        f"{tmp_path} should hold config.json, but it does not; it holds 'model.gguf', a GGUF file; {CONVERT}"
    )
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert complaint(models.from_pretrained, tmp_path) == (
        f"{tmp_path} should be the folder of a model, but the model is in a folder in it; name {tmp_path / 'model'}"
    )


def test_names_of_nothing(tmp_path):
    long = tmp_path / ("x" * 300)
    assert complaint(models.from_pretrained, long) == (
        f"{long} should be the folder of a model, but there is no such folder; check the path"
    )
    assert re.fullmatch(r".* there is no such folder; check the path", complaint(load_text_model, str(long)))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert complaint(models.from_pretrained, pipe) == (
        f"{pipe} should be the folder of a model, but it is neither a folder nor a file; check the path"
    )
