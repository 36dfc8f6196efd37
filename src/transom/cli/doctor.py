"""`transom doctor`: what Transom runs on here."""

import platform
from typing import Annotated

import typer

from transom.cli.output import print_json, print_text


def run(as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False) -> None:
    """What Transom runs on here: versions, engine and why it, threads, devices.

    Example: transom doctor --json
    """
    found = findings()
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        print_text(f"{name:<12} {', '.join(value) if isinstance(value, list) else value}")


def findings() -> dict[str, str | int | list[str]]:
    """Each thing that may differ from machine to machine, by name."""
    import numpy
    import torch

    from transom import __version__
    from transom.kernels import engines

    return {
        "transom": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        **engines.told(),
        "threads": torch.get_num_threads(),
        "devices": devices(),
    }


def devices() -> list[str]:
    """What torch can compute on, as one would name it in `.to(…)`."""
    import torch

    cuda = [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *cuda, *mps]
