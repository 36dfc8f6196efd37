"""Which arithmetic a processor has, from what Linux says of it."""

import pytest
import torch

from transom.training import precision
from transom.training.precision import describe_emulation, has_bfloat16, resolve_precision

X86 = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse2 avx2 {}\nbogomips\t: 1\n\nprocessor\t: 1\n"
ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd {} sve\nCPU implementer\t: 0x41\n"


@pytest.mark.parametrize(
    ("cpuinfo", "has"),
    [
        (X86.format("avx512f avx512_bf16 vaes"), True),
        (X86.format("amx_tile amx_bf16"), True),
        (X86.format("avx512f avx512_vnni"), False),
        (X86.format("avx_bf16x"), False),
        (ARM.format("i8mm bf16"), True),
        (ARM.format("i8mm ebf16x"), False),
        ("model name\t: bf16\n", False),
        ("", False),
    ],
)
def test_bfloat16_is_read_off_the_flags(tmp_path, cpuinfo, has):
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert has_bfloat16(tmp_path / "cpuinfo") is has


def test_where_no_flags_can_be_read_there_is_none(tmp_path):
    assert has_bfloat16(tmp_path / "cpuinfo") is False


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "auto"])
def test_only_auto_looks_at_the_processor(monkeypatch, name, has):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: has)
    expected = name if name != "auto" else "bfloat16" if has else "float32"
    assert resolve_precision(name, torch.device("cpu")) == expected
    slow = describe_emulation(expected, torch.device("cpu"))
    assert (slow is not None) == (expected == "bfloat16" and not has)


def test_auto_is_float32_on_a_device_of_which_nothing_is_known():
    assert resolve_precision("auto", torch.device("meta")) == "float32"
    assert describe_emulation("bfloat16", torch.device("meta")) is None
