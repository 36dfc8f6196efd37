"""The gradient of a number by the output of each attention: one forward and one backward pass, nothing else kept."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from transom.lens.capture.call_state import CAPTURE, AttentionListener, TrackedOutput
from transom.lens.capture.captured_attention import CapturedAttention, Unreadable
from transom.lens.capture.dispatch_hooks import listen
from transom.lens.capture.watch import AttentionNames
from transom.names import Misfit


class OutputGradients(AttentionListener):
    """Remembers for each attention of a model, in running order, where the gradient of its output comes out."""

    takes_gradients = True

    def __init__(self, model: nn.Module, output_scale: float = 1.0) -> None:
        self.names, self.output_scale = AttentionNames(model), output_scale
        self.tracked: list[tuple[str, TrackedOutput | None]] = []

    def on_attention(self, captured: CapturedAttention | Unreadable, modules: list[nn.Module], order: int) -> None:
        name = self.names.record(modules, order)
        if name is not None:
            self.tracked.append((name, CAPTURE.tracked))

    def compute(self, result: Tensor, index: int | None = None) -> list[Tensor | None]:
        """The gradient of result[0], or of result[0, index], by each output (batch, heads, queries, d_value).

        In float32 or wider. None for an output that does not reach it, or that could not be followed: only its softmax
        was seen, or it is compiled. The graph of the result is freed.
        """
        with torch.inference_mode(False), torch.enable_grad():
            number = result[0] if index is None else result[0, index]
        return self.compute_along(number)

    def compute_along(self, result: Tensor, direction: Tensor | None = None, keep: bool = False) -> list[Tensor | None]:
        """The gradient of a number, or of direction · result, by each output; `keep` keeps the graph for another."""
        edges = [tracked.edge for _, tracked in self.tracked if tracked is not None]
        with torch.inference_mode(False), torch.enable_grad():
            raw = gradients_by_edges(result, edges, direction, keep)
        gradients, found = [], iter(raw)
        for _, tracked in self.tracked:
            gradient = None if tracked is None else next(found)
            if gradient is not None and tracked is not None:
                gradient = tracked.to_heads(gradient.detach())
                gradient = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
            gradients.append(gradient)
        return gradients


def gradients_by_edges(
    result: Tensor, edges: list[Any], direction: Tensor | None, keep: bool
) -> Sequence[Tensor | None]:
    """The gradient of a result, along a direction, at each edge of its graph; None where it does not get there."""
    if not edges:
        return ()
    try:
        return torch.autograd.grad(result, edges, direction, retain_graph=keep, allow_unused=True)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise Misfit(
            f"influence needs the gradient of the output, but PyTorch cannot compute it: {reason}; use effect, which"
            " needs none"
        ) from error


@contextmanager
def capture_output_gradients(model: nn.Module, output_scale: float = 1.0) -> Iterator[OutputGradients]:
    """While the block runs, follow the outputs of a model's attentions; its parameters take no gradients meanwhile.

    So the graph begins at the first attention, and holds what the gradients of activations need. PyTorch's fast path,
    which has no gradient, is off. The model goes on with `output_scale` times each output.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fast = torch.backends.mha.get_fastpath_enabled()
    gradients = OutputGradients(model, output_scale)
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.inference_mode(False), torch.enable_grad(), listen(gradients):
            yield gradients
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for parameter in parameters:
            parameter.requires_grad_(True)
