"""The one door to attention."""

from torch import Tensor

from transom.equations.biases import Bias
from transom.equations.masks import Mask
from transom.kernels import torch_engine
from transom.kernels.problem import put


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
    output, _ = torch_engine.solve(put(Q, K, V, allowed, bias, causal, scale, softcap, dropout))
    return output
