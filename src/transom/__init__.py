"""Transom: a window into self-attention.

Names are fetched when first used, so that `transom --help` need not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from transom.names import Drawable

if TYPE_CHECKING:
    from transom import equations, kernels, layers, lens, lessons, models, runner, show, text, training
    from transom.equations.masks import causal, padding, same_document, sliding_window
    from transom.kernels import attend
    from transom.lens import (
        HEADS,
        EffectTable,
        Influence,
        Replay,
        Sight,
        Trace,
        by_words,
        diff,
        effect,
        flow,
        heads,
        influence,
        knock_out,
        mean_outputs,
        patch,
        rollout,
        sight,
        watch,
    )
    from transom.names import Misfit
    from transom.runner import load
    from transom.runner.hugging_face_attention import register_hugging_face_attention
    from transom.runner.residual_layouts import attribute_logit, logit_lens
    from transom.show import Picture, draw

__version__ = "0.1.0"

PACKAGES = ("equations", "kernels", "layers", "models", "text", "training", "lens", "runner", "lessons", "show")
HOMES = {
    "attend": "transom.kernels",
    "causal": "transom.equations.masks",
    "padding": "transom.equations.masks",
    "same_document": "transom.equations.masks",
    "sliding_window": "transom.equations.masks",
    "sight": "transom.lens",
    "Sight": "transom.lens",
    "watch": "transom.lens",
    "knock_out": "transom.lens",
    "patch": "transom.lens",
    "mean_outputs": "transom.lens",
    "effect": "transom.lens",
    "EffectTable": "transom.lens",
    "influence": "transom.lens",
    "Influence": "transom.lens",
    "Trace": "transom.lens",
    "Replay": "transom.lens",
    "heads": "transom.lens",
    "HEADS": "transom.lens",
    "rollout": "transom.lens",
    "flow": "transom.lens",
    "diff": "transom.lens",
    "by_words": "transom.lens",
    "load": "transom.runner",
    "attribute_logit": "transom.runner.residual_layouts",
    "logit_lens": "transom.runner.residual_layouts",
    "register_hugging_face_attention": "transom.runner.hugging_face_attention",
    "Misfit": "transom.names",
    "Picture": "transom.show",
    "draw": "transom.show",
}

__all__ = [
    "HEADS",
    "EffectTable",
    "Influence",
    "Misfit",
    "Picture",
    "Replay",
    "Sight",
    "Trace",
    "attend",
    "attribute_logit",
    "by_words",
    "causal",
    "diff",
    "draw",
    "effect",
    "equations",
    "flow",
    "heads",
    "influence",
    "kernels",
    "knock_out",
    "layers",
    "lens",
    "lessons",
    "load",
    "logit_lens",
    "mean_outputs",
    "models",
    "padding",
    "patch",
    "register_hugging_face_attention",
    "rollout",
    "runner",
    "same_document",
    "show",
    "sight",
    "sliding_window",
    "text",
    "training",
    "watch",
]


Drawable.drawn_by, Drawable.paged_by = "transom.show.views", "transom.serve.offline_page"


def __getattr__(name: str) -> object:
    if name in PACKAGES:
        return import_module(f"transom.{name}")
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"transom has no {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
