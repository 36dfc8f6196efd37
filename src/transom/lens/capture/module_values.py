"""What some modules of a running model take and give at one token."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.capture.output_projection import find_module
from transom.names import Misfit, check_index

Vectors = dict[str, Float[Tensor, " any"]]


@contextmanager
def record_module_values(model: nn.Module, paths: Sequence[str], row: int) -> Iterator[tuple[Vectors, Vectors]]:
    """While the block runs, the input and the output of each module at one row, by path, in float64."""
    taken: Vectors = {}
    given: Vectors = {}

    def keep(path: str, module: nn.Module, args: tuple[Any, ...], settings: dict[str, Any], output: Any) -> None:
        value = args[0] if args else settings.get("hidden_states")
        result = output[0] if isinstance(output, tuple) else output
        for store, vectors in ((taken, value), (given, result)):
            if isinstance(vectors, Tensor) and vectors.dim() > 1:
                rows = vectors.flatten(0, -2)
                store[path] = rows[check_index(row, "token", len(rows))].detach().double()

    with ExitStack() as stack:
        for path in paths:
            module = find_module(model, path)
            if module is None:
                raise Misfit(f"the layout names {path!r}, but the model has no such module; correct the layout")
            stack.enter_context(module.register_forward_hook(partial(keep, path), with_kwargs=True))
        yield taken, given
