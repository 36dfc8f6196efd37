"""`transom doctor`: versions, engine and devices on this machine."""

import platform

from transom.cli.cli_io import AsJson, print_json, print_text


def run(as_json: AsJson = False) -> None:
    """Print what Transom runs on here: versions, engine and why it was chosen, threads, devices.

    Example: transom doctor --json
    """
    info = system_info()
    if as_json:
        print_json(info)
        return
    for name, value in info.items():
        print_text(f"{name:<12} {', '.join(value) if isinstance(value, list) else value}")


def system_info() -> dict[str, str | int | list[str]]:
    """Everything that may differ from machine to machine, by name."""
    import numpy
    import torch

    from transom import __version__
    from transom.kernels import dispatch

    return {
        "transom": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        **dispatch.engine_info(),
        "threads": torch.get_num_threads(),
        "devices": devices(),
    }


def devices() -> list[str]:
    """The devices of torch, by their names in `.to(…)`."""
    import torch

    cuda = [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *cuda, *mps]
