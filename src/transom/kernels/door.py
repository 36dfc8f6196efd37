"""The one door to attention."""

from collections.abc import Callable

from torch import Tensor

from transom.equations.biases import Bias
from transom.equations.masks import Mask
from transom.kernels import engines
from transom.kernels.problem import Problem, put

Solve = Callable[[Problem], tuple[Tensor, Tensor]]

# Who watches is called with each problem and the engine that solves it, and gives back what the engine gave.
listener: Callable[[Problem, Solve], tuple[Tensor, Tensor]] | None = None


def attend(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    allowed: Tensor | Mask | None = None,
    bias: Tensor | Bias | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention: each query takes the values of the keys it matches, weighted by softmax(Q Kᵀ · scale).

    Q is (batch, heads, queries, d_head), K (batch, kv_heads, keys, d_head), V (batch, kv_heads, keys, d_value);
    kv_heads divides heads. Gives (batch, heads, queries, d_value).

    allowed   bool tensor, True = may look, that broadcasts to (batch, heads, queries, keys), or a mask object such as
              `transom.causal() & transom.padding(real)`. A row that may look nowhere gives zeros.
    bias      float tensor that broadcasts likewise, or a bias object; added to the scores after scale and softcap.
    causal    no looking ahead, by position: the queries are the last positions of the keys.
    scale     1/√d_head unless given.
    softcap   bends the scaled scores into (−softcap, softcap).
    dropout   share of the weights set to 0, the rest scaled up; follows torch's random seed.
    """
    problem = put(Q, K, V, allowed, bias, causal, scale, softcap, dropout)
    hears = listener  # read once: another thread may stop watching at any time
    output, _ = engines.solve(problem) if hears is None else hears(problem, engines.solve)
    return output
