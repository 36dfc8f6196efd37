"""`torch.compile` for training: each block is compiled, without attention and dropout."""

import torch
from torch import Tensor, nn

from transom.layers import Arrangement
from transom.names import Misfit

# Not compiled: the kernels choose an engine at run time and may be watched, and the compiler does not know how dropout
# draws its bytes. So a run draws the same random numbers, compiled or not.
NOT_COMPILED = ("transom.kernels", "transom.layers.dropout")


def compile_blocks(model: nn.Module) -> None:
    """Compile every block in place; names, parameters and hooks stay the same, and sizes may change."""
    from torch._dynamo import trace_rules  # takes seconds to import

    check_compiler()
    for name in NOT_COMPILED:
        trace_rules.add(name)
    for module in model.modules():
        if isinstance(module, Arrangement):
            module.compile(dynamic=True)


def check_compiler() -> None:
    """Raise an error if nothing can be compiled here, which is tried on a small function."""

    def trial(x: Tensor) -> Tensor:
        return x.sin() + x

    try:
        torch.compile(trial)(torch.ones(3))
    except Exception as error:  # the compiler's failures have no common class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Misfit(f"train.compile needs a C++ compiler, but a trial failed ({reason}); install one") from error
