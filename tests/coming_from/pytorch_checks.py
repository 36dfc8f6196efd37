"""Checks of the rows about PyTorch's own attention: the same numbers from both sides."""

import warnings
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from coming_from.page_rows import check
from coming_from.small_models import TOKENS, looking, run_watched, watched
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

import transom

torch.manual_seed(17)
Q, K, V = torch.randn(2, 6, 5, 3), torch.randn(2, 6, 7, 3), torch.randn(2, 6, 7, 4)
MASK = torch.rand(5, 7) < 0.6
MASK[:, 0] = True
BIAS = torch.randn(6, 5, 7)
LAYER = nn.MultiheadAttention(12, 3, batch_first=True).eval()
X = torch.randn(2, 7, 12)
REAL = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])


def names() -> dict[str, Any]:
    tensors = {"Q": Q, "K": K, "V": V, "mask": MASK, "hidden": ~MASK, "bias": BIAS, "real": REAL}
    return looking() | tensors | {"trace": watched(LAYER, X, X, X, need_weights=False)}


pytorch = partial(check, "PyTorch", names=names)
close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)


@pytorch("F.scaled_dot_product_attention(Q, K, V)")
def check_attend(output: Tensor) -> None:
    close(output, F.scaled_dot_product_attention(Q, K, V))
    close(transom.sight(Q, K, V).weights(), (Q @ K.mT / 3**0.5).softmax(-1))


@pytorch("attn_mask= (bool)")
def check_allowed(output: Tensor) -> None:
    close(output, F.scaled_dot_product_attention(Q, K, V, attn_mask=MASK))


@pytorch("attn_mask= (float)")
def check_bias(output: Tensor) -> None:
    close(output, F.scaled_dot_product_attention(Q, K, V, attn_mask=BIAS))


@pytorch("is_causal=True")
def check_causal(output: Tensor) -> None:
    """Five queries of seven positions: the last five here, the first five there."""
    close(output, F.scaled_dot_product_attention(Q, K, V, attn_mask=torch.ones(5, 7).tril(2).bool()))
    theirs = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
    close(theirs, F.scaled_dot_product_attention(Q, K, V, attn_mask=torch.ones(5, 7).tril().bool()))
    square = K, K, V
    close(transom.attend(*square, causal=True), F.scaled_dot_product_attention(*square, is_causal=True))


@pytorch("scale=, dropout_p=")
def check_scale(output: Tensor) -> None:
    close(output, F.scaled_dot_product_attention(Q, K, V, scale=0.5, dropout_p=0.0))


@pytorch("enable_gqa=True")
def check_groups(output: Tensor) -> None:
    close(output, F.scaled_dot_product_attention(Q, K[:, :2], V[:, :2], enable_gqa=True))


@pytorch("nn.MultiheadAttention(embed_dim, num_heads, kdim=, vdim=)")
def check_layer(layer: nn.Module) -> None:
    theirs = nn.MultiheadAttention(12, 3, kdim=7, vdim=7, batch_first=True)
    shape = (2, 7, 12)
    source = torch.randn(2, 5, 7)
    assert layer(X, source=source).shape == theirs(X, source, source)[0].shape == shape
    assert count(layer) == count(theirs)


def count(model: nn.Module) -> int:
    return sum(one.numel() for one in model.parameters())


@pytorch("need_weights=True, average_attn_weights=False")
def check_need_weights(weights: Tensor) -> None:
    close(weights, LAYER(X, X, X, average_attn_weights=False)[1])


@pytorch("key_padding_mask=")
def check_padding(mask: Any) -> None:
    weights = LAYER(X, X, X, key_padding_mask=~REAL, average_attn_weights=False)[1]
    one = transom.sight(*projected(), allowed=mask)
    close(one.weights(), weights)


def projected() -> list[Tensor]:
    """Q, K and V of the layer, by heads."""
    joint = F.linear(X, LAYER.in_proj_weight, LAYER.in_proj_bias)
    return [part.unflatten(-1, (3, 4)).transpose(1, 2) for part in joint.chunk(3, dim=-1)]


@pytorch("attn_mask= of nn.MultiheadAttention (bool)")
def check_hidden(output: Tensor) -> None:
    close(output, F.scaled_dot_product_attention(Q, K, V, attn_mask=MASK))
    hidden = torch.rand(7, 7) < 0.4
    hidden.fill_diagonal_(False)
    weights = LAYER(X, X, X, attn_mask=hidden, average_attn_weights=False)[1]
    close(transom.sight(*projected(), allowed=~hidden).weights(), weights)


@pytorch("nn.Transformer.generate_square_subsequent_mask(n)")
def check_causal_mask(mask: Any) -> None:
    theirs = nn.Transformer.generate_square_subsequent_mask(7)
    close(transom.attend(K, K, V, allowed=mask), F.scaled_dot_product_attention(K, K, V, attn_mask=theirs))


@pytorch("flex_attention with mask_mod, score_mod")
def check_window(mask: Any) -> None:
    """A window of three: a token and the two before it."""
    banded = torch.ones(7, 7).tril().triu(-2).bool()
    close(transom.attend(K, K, V, allowed=mask), F.scaled_dot_product_attention(K, K, V, attn_mask=banded))


@pytorch("AuxRequest(lse=True), return_lse=True of flex_attention")
def check_lse(lse: Tensor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is slow while it is not compiled, which does not matter here
        _, theirs = flex_attention(Q, K, V, return_aux=AuxRequest(lse=True))
    close(lse, theirs.lse)


@pytorch("nn.TransformerEncoder")
def check_encoder(model: transom.models.Encoder) -> None:
    assert model.hidden(TOKENS).shape == (1, 7, 12)
    layer = nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    assert count(model.stack) == count(theirs)
    assert len(watched(theirs, X)) == 2


@pytorch("register_forward_hook")
def check_watch(block: AbstractContextManager[transom.Trace]) -> None:
    assert len(run_watched(block)) == 2
