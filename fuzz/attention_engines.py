"""The engine of each input: torch, native, auto, and auto with the native engine for everything it can do."""

import os
import random

from transom.kernels import dispatch

ENGINES = ("torch", "auto", "native", "native where it can")


class ChosenEngine:
    """Sets an engine for each input; `close` puts back what was set before."""

    def __init__(self) -> None:
        self.before = os.environ.get("TRANSOM_ENGINE"), dispatch.why_native_is_slower

    def choose(self, rng: random.Random) -> str:
        name = rng.choice(ENGINES)
        os.environ["TRANSOM_ENGINE"] = "auto" if name == "native where it can" else name
        dispatch.why_native_is_slower = (lambda problem: None) if name == "native where it can" else self.before[1]
        return name

    def close(self) -> None:
        dispatch.why_native_is_slower = self.before[1]
        if self.before[0] is None:
            os.environ.pop("TRANSOM_ENGINE", None)
        else:
            os.environ["TRANSOM_ENGINE"] = self.before[0]
