"""Wraps kernels of PyTorch's dispatcher while somebody listens, and puts them back."""

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch._C import (  # pyright: ignore[reportAttributeAccessIssue]
    _dispatch_get_computed_kernel_for_dispatch_key,
    _dispatch_library,
)

KEPT_REMOVALS = 64  # wrappers that were removed stay alive until so many later removals, and so long
KEPT_SECONDS = 2.0
Override = tuple[str, str, Callable[..., Any]]  # operator, dispatch key, and what runs the kernel


class KernelOverrides:
    """Kernels that are wrapped: each wrapper gets the kernel it wraps, and calls it.

    alive   of the last removals, the time and the wrappers
    """

    def __init__(self) -> None:
        self.library: Any = None
        self.lock = threading.Lock()
        self.wrapped: set[tuple[str, str]] = set()
        self.alive: deque[tuple[float, list[Any]]] = deque()

    def install(self, overrides: Iterable[Override]) -> None:
        """Wrap these kernels; `torch.library.Library` does the same, but reads source files first."""
        self.library = _dispatch_library("IMPL", "aten", "", __file__, 0)
        self.wrap_once(overrides)

    def remove(self) -> None:
        """Put all kernels back."""
        with self.lock:
            if threading.active_count() > 1:
                # Another thread may have looked a wrapper up, and be about to enter it, so it stays alive for a while.
                self.alive.append((time.monotonic(), [get_kernel(name, key) for name, key in self.wrapped]))
            if self.library is not None:
                self.library.reset()
            self.library = None
            self.wrapped.clear()
            self.drop_old()

    def drop_old(self) -> None:
        """Let go of wrappers that were removed long ago: a thread that looked one up has entered it since, and holds
        what it runs itself. All of them together would grow by 17 KiB with every run that is watched."""
        until = time.monotonic() - KEPT_SECONDS
        while len(self.alive) > KEPT_REMOVALS and self.alive[0][0] <= until:
            self.alive.popleft()

    def wrap_once(self, overrides: Iterable[Override]) -> None:
        """Wrap those of the kernels that are not wrapped yet."""
        missing = [override for override in overrides if override[:2] not in self.wrapped]
        if not missing:
            return
        with self.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a kernel is replaced; `remove` puts it back
            for operator, key, capture in missing:
                if self.library is not None and (operator, key) not in self.wrapped:
                    kernel = get_kernel(operator, key)
                    self.library.impl(operator, key, wrap_kernel(kernel, capture), True)
                    self.wrapped.add((operator, key))


def get_kernel(operator: str, key: str) -> Any:
    """The kernel that runs now, as `torch.library.get_kernel` gives it; for an alias key that of CPU."""
    key = "CPU" if key == "CompositeImplicitAutograd" else key
    return _dispatch_get_computed_kernel_for_dispatch_key(f"aten::{operator}", key)


def wrap_kernel(kernel: Any, capture: Callable[..., Any]) -> Callable[..., Any]:
    def run_wrapped(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        return capture(partial(kernel.call_boxed, keyset), *args, **kwargs)

    return run_wrapped


OVERRIDES = KernelOverrides()
