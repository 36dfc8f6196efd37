"""`transom doctor` names what is really there."""

import ctypes
import json
import platform

import numpy
import pytest
import torch

import transom
from transom.cli import main
from transom.kernels import engines, library
from transom.kernels.library import Engine


def test_json_tells_what_runs_here(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["transom"] == transom.__version__
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert found["numpy"] == numpy.__version__
    assert {name: found[name] for name in ("engine", "instructions", "why")} == engines.told()
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


NATIVE = Engine("avx2", ctypes.CDLL(None))
TOLD = {
    "": ("native", "avx2", "TRANSOM_ENGINE is not set; torch for what it does not do, or not faster"),
    "auto": ("native", "avx2", "TRANSOM_ENGINE=auto; torch for what it does not do, or not faster"),
    "native": ("native", "avx2", "TRANSOM_ENGINE=native; what it does not do is an error"),
    "torch": ("torch", "those of torch", "TRANSOM_ENGINE=torch"),
}


@pytest.mark.parametrize("asked", TOLD)
def test_the_engine_is_told_with_its_reason(asked, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", asked)
    monkeypatch.setattr(library, "engine", lambda: NATIVE)
    assert tuple(engines.told().values()) == TOLD[asked]


def test_a_missing_engine_is_told_with_its_reason(monkeypatch):
    monkeypatch.setattr(library, "engine", lambda: "it is not built")
    assert engines.told() == {
        "engine": "torch",
        "instructions": "those of torch",
        "why": "there is no native engine: it is not built",
    }
