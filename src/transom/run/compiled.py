"""`torch.compile` for training: each block of a model as compiled code, attention and dropout as they are."""

import torch
from torch import Tensor, nn

from transom.layers import Arrangement
from transom.names import Misfit

# Kept out of the compiled code: the kernels choose by what comes, and may be listened to; dropout draws bytes in a way
# that the compiler does not know. So a run draws the same random numbers, compiled or not.
APART = ("transom.kernels", "transom.layers.dropout")


def compile_blocks(model: nn.Module) -> None:
    """Compile every block in place; names, parameters and hooks stay. Sizes may change from batch to batch."""
    from torch._dynamo import trace_rules  # seconds of import that only a compiled run waits for

    check_compiler()
    for name in APART:
        trace_rules.add(name)
    for module in model.modules():
        if isinstance(module, Arrangement):
            module.compile(dynamic=True)


def check_compiler() -> None:
    """Complain, before a run begins, if nothing can be compiled here: tried, not guessed."""

    def tried(x: Tensor) -> Tensor:
        return x.sin() + x

    try:
        torch.compile(tried)(torch.ones(3))
    except Exception as error:  # the compiler's failures have no common class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Misfit(
            f"train.compile needs torch.compile and a C++ compiler, but a trial failed ({reason});"
            " install one, or leave it out"
        ) from error
