"""`transom doctor` prints what is really there."""

import ctypes
import json
import platform

import numpy
import pytest
import torch

import transom
from transom.cli import main
from transom.kernels import dispatch, native_library
from transom.kernels.native_library import NativeLibrary


def test_json_has_everything(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["transom"] == transom.__version__
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert found["numpy"] == numpy.__version__
    assert {name: found[name] for name in ("engine", "instructions", "why")} == dispatch.engine_info()
    assert found["threads"] == torch.get_num_threads()
    assert found["devices"][0] == "cpu"
    assert len(found["devices"]) == 1 + torch.cuda.device_count() + torch.backends.mps.is_available()


def test_text_has_a_line_for_each_thing_in_json(capsys):
    main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(found)
    assert lines[-1].split(maxsplit=1)[1] == ", ".join(found["devices"])
    assert f"threads      {found['threads']}" in lines


def test_a_cuda_device_is_listed_by_number_and_name(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: f"card {i}")
    main(["doctor", "--json"])
    devices = json.loads(capsys.readouterr().out)["devices"]
    assert devices[:3] == ["cpu", "cuda:0 (card 0)", "cuda:1 (card 1)"]


NATIVE = NativeLibrary("avx2", ctypes.CDLL(None))
INFO = {
    "": ("native", "avx2", "TRANSOM_ENGINE is not set; torch for what it does not do, or not faster"),
    "auto": ("native", "avx2", "TRANSOM_ENGINE=auto; torch for what it does not do, or not faster"),
    "native": ("native", "avx2", "TRANSOM_ENGINE=native; what it does not do is an error"),
    "torch": ("torch", "those of torch", "TRANSOM_ENGINE=torch"),
}


@pytest.mark.parametrize("setting", INFO)
def test_the_engine_has_its_reason(setting, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", setting)
    monkeypatch.setattr(native_library, "library_or_reason", lambda: NATIVE)
    assert tuple(dispatch.engine_info().values()) == INFO[setting]


def test_a_missing_engine_has_its_reason(monkeypatch):
    monkeypatch.setattr(native_library, "library_or_reason", lambda: "it is not built")
    assert dispatch.engine_info() == {
        "engine": "torch",
        "instructions": "those of torch",
        "why": "there is no native engine: it is not built",
    }
