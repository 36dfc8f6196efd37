"""A model without gradients and dropout for a while, also where several threads use it at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import nn


class InUse:
    """How many calls need a model to stay in evaluation mode, and which of its modules were training before."""

    def __init__(self) -> None:
        self.calls = 0
        self.training: list[nn.Module] = []


LOCK = Lock()
IN_USE: WeakKeyDictionary[nn.Module, InUse] = WeakKeyDictionary()


@contextmanager
def evaluation_mode(model: object) -> Iterator[None]:
    """No gradients and no dropout; once the last of several calls at the same time ends, the model is as it was."""
    assert isinstance(model, nn.Module)
    with LOCK:
        use = IN_USE.setdefault(model, InUse())
        use.calls += 1
        for module in model.modules():
            if module.training:
                module.training = False
                use.training.append(module)
    try:
        with torch.no_grad():
            yield
    finally:
        with LOCK:
            use.calls -= 1
            if use.calls == 0:
                del IN_USE[model]
                for module in use.training:
                    module.training = True
