"""Wraps kernels of PyTorch's dispatcher while somebody listens, and puts them back."""

import threading
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch._C import (  # pyright: ignore[reportAttributeAccessIssue]
    _dispatch_get_computed_kernel_for_dispatch_key,
    _dispatch_library,
)

Override = tuple[str, str, Callable[..., Any]]  # operator, dispatch key, and what runs the kernel


class KernelOverrides:
    """Kernels that are wrapped: each wrapper gets the kernel it wraps, and calls it."""

    def __init__(self) -> None:
        self.library: Any = None
        self.lock = threading.Lock()
        self.wrapped: set[tuple[str, str]] = set()
        self.alive: list[Any] = []

    def install(self, overrides: Iterable[Override]) -> None:
        """Wrap these kernels; `torch.library.Library` does the same, but reads source files first."""
        self.library = _dispatch_library("IMPL", "aten", "", __file__, 0)
        self.wrap_once(overrides)

    def remove(self) -> None:
        """Put all kernels back."""
        with self.lock:
            if threading.active_count() > 1:
                # Another thread may be about to enter a wrapped kernel, so it stays alive.
                self.alive += [get_kernel(name, key) for name, key in self.wrapped]
            if self.library is not None:
                self.library.reset()
            self.library = None
            self.wrapped.clear()

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
