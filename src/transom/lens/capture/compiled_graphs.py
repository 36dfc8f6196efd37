"""Functions that `torch.compile` has turned into machine code: they belong to no module, and call few operators.

While somebody listens, each run of such a graph is noted, and its source says whether it computes attention by hand.
What it computes by PyTorch's fused kernel is captured as ever.
"""

import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from transom.lens.capture.call_state import CAPTURE
from transom.lens.capture.hand_reports import add_leftover, is_other_kind
from transom.lens.unseen_attention import Evidence

HOLDER = "torch._inductor.output_code"  # the module of the class whose instances are compiled graphs
KERNELS = r"\bcpp_fused_(\w+) = "  # the compiler names its kernels after the operators that it fused
BATCHED_PRODUCTS = r"\bextern_kernels\.(?:bmm|baddbmm)\b|\bcpp_\w*bmm\w* = "
NORMALISED = {"softmax", "exp", "exp2", "logsumexp"}
BY_HAND = "a compiled function ran in it, with batched products and a softmax in its code"
FLEX = "a compiled function ran in it, with FlexAttention in its code"
PERHAPS = "a compiled function ran in it, with {} in its code"


@lru_cache(maxsize=256)
def judge_source(source: str) -> tuple[str, Evidence] | None:
    """Why the code of a compiled graph computes attention by hand, and how surely; None if it does not."""
    if "flex_attention" in source:
        return FLEX, "strong"
    kernels = [set(name.split("_")) for name in re.findall(KERNELS, source)]
    products = len(re.findall(BATCHED_PRODUCTS, source))
    if products >= 2:
        normalised = any(words & NORMALISED for words in kernels)
        return (BY_HAND, "strong") if normalised else (PERHAPS.format("several batched products"), "weak")
    if "_softmax_" in source and len(re.findall(r"\bextern_kernels\.mm\b", source)) >= 2:
        return PERHAPS.format("products and a softmax"), "weak"
    if any(words & NORMALISED and {"mul", "sum"} <= words for words in kernels):
        return PERHAPS.format("a weighted sum by exponentials"), "weak"
    return None


def note_graph(graph: Any) -> None:
    """A compiled graph is about to run."""
    source = getattr(graph, "source_code", "")
    found = judge_source(source) if isinstance(source, str) else None
    if found is not None and not is_other_kind(CAPTURE.modules):
        add_leftover(CAPTURE.modules, *found, beside=found[1] == "strong")


class CompiledGraphs:
    """Whether the runs of compiled graphs are noted: only if the compiler was there when the hooks were installed."""

    noted = False

    def wrap(self) -> Callable[[], None]:
        """Note each run of a compiled graph; returns a function that undoes it."""
        graph_class: Any = getattr(sys.modules.get(HOLDER), "CompiledFxGraph", None)
        if graph_class is None:
            return lambda: None
        call = graph_class.__call__

        def call_noted(graph: Any, inputs: Any) -> Any:
            if CAPTURE.listeners and CAPTURE.attention is None:
                note_graph(graph)
            return call(graph, inputs)

        def put_back() -> None:
            self.noted = False
            if graph_class.__call__ is call_noted:
                graph_class.__call__ = call

        graph_class.__call__, self.noted = call_noted, True
        return put_back

    def compiled_inside(self) -> bool:
        """Whether the first graph of this process was compiled since then, so that none of its runs was noted."""
        return HOLDER in sys.modules and not self.noted


GRAPHS = CompiledGraphs()
