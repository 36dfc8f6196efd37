"""Which arithmetic this machine's processor has, by its own flags."""

import re
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # of Linux; elsewhere nothing is known of the processor
BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # Intel and AMD, Intel's tiles, ARM


def parse_flags(cpuinfo: str) -> set[str]:
    """The flags of the first processor: the line `flags` of an x86, the line `Features` of an ARM."""
    line = re.search(r"^(?:flags|Features)[ \t]*:(.*)$", cpuinfo, re.MULTILINE)
    return set(line[1].split()) if line else set()


def has_bfloat16(cpuinfo: Path = CPUINFO) -> bool:
    """Whether the processor multiplies in bfloat16 itself; False where its flags cannot be read."""
    try:
        content = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not parse_flags(content).isdisjoint(BFLOAT16_FLAGS)
