"""Who is told of each attention of a running model, and may cut edges out of it or replace its output."""

from collections.abc import Callable

from torch import Tensor, nn

from transom.kernels import Problem
from transom.lens.capture.captured_attention import CapturedAttention, EdgeCut, Unreadable
from transom.lens.capture.torch_attention import FunctionCall

ReadAttention = Callable[[], CapturedAttention | Unreadable | None]
PATCHED = "its output was patched from another run"


class AttentionListener:
    """Gets each attention with the modules it ran in, outermost first, and its number within the innermost."""

    cuts_edges = False
    is_open = True  # False once its block has ended; a thread that outlives it may still know it
    takes_gradients = False  # whether CAPTURE.tracked is to be set when an attention is reported
    output_scale = 1.0  # of a listener that takes gradients: the model goes on with so much of each output
    patches_outputs = False

    def on_attention(self, captured: "CapturedAttention | Unreadable", modules: list[nn.Module], order: int) -> None:
        """An attention ran."""

    def on_call(self, call: FunctionCall, modules: list[nn.Module], order: int) -> None:
        """PyTorch's attention function ran, in a model whose outputs nobody changes."""
        self.on_attention(call.to_captured(), modules, order)

    def edges_to_cut(self, problem: Problem, modules: list[nn.Module], order: int) -> EdgeCut | None:
        """Which edges to cut out of an attention, if `cuts_edges`."""

    def patch_output(
        self, output: Tensor, read: "ReadAttention", modules: list[nn.Module], order: int
    ) -> Tensor | None:
        """Another output (batch, heads, queries, d_value) in place of this one, if `patches_outputs`; None keeps it."""
