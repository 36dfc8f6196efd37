"""PyTorch's layers and ours with the same parameters; outputs and all gradients are compared."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

EVERYTHING = slice(None)
Pairs = Iterator[tuple[Tensor, Tensor, slice]]  # our parameter, the twin's, and which rows of the twin's it is


def attention_pairs(ours: nn.Module, twin: nn.MultiheadAttention) -> Pairs:
    d_model = twin.embed_dim
    for index, name in enumerate("QKV"):
        rows = slice(index * d_model, (index + 1) * d_model)
        mine = getattr(ours, f"W_{name}")
        if twin.in_proj_weight is None:
            yield mine.weight, getattr(twin, f"{name.lower()}_proj_weight"), EVERYTHING
        else:
            yield mine.weight, twin.in_proj_weight, rows
        yield mine.bias, twin.in_proj_bias, rows
    yield ours.W_O.weight, twin.out_proj.weight, EVERYTHING
    yield ours.W_O.bias, twin.out_proj.bias, EVERYTHING


def same_pairs(ours: nn.Module, twin: nn.Module) -> Pairs:
    yield ours.weight, twin.weight, EVERYTHING
    yield ours.bias, twin.bias, EVERYTHING


def encoder_pairs(ours: nn.Module, twin: nn.TransformerEncoderLayer) -> Pairs:
    yield from attention_pairs(ours.attention, twin.self_attn)
    yield from same_pairs(ours.feed_forward.W_1, twin.linear1)
    yield from same_pairs(ours.feed_forward.W_2, twin.linear2)
    yield from same_pairs(ours.norm_attention, twin.norm1)
    yield from same_pairs(ours.norm_feed_forward, twin.norm2)


def decoder_pairs(ours: nn.Module, twin: nn.TransformerDecoderLayer) -> Pairs:
    yield from attention_pairs(ours.attention, twin.self_attn)
    yield from attention_pairs(ours.cross, twin.multihead_attn)
    yield from same_pairs(ours.feed_forward.W_1, twin.linear1)
    yield from same_pairs(ours.feed_forward.W_2, twin.linear2)
    yield from same_pairs(ours.norm_attention, twin.norm1)
    yield from same_pairs(ours.norm_cross, twin.norm2)
    yield from same_pairs(ours.norm_feed_forward, twin.norm3)


def copy_parameters(pairs) -> None:
    """Set every parameter of the twin to random numbers, which biases of 0 are not, and ours to the same."""
    with torch.no_grad():
        for mine, theirs, rows in pairs:
            mine.copy_(theirs[rows].normal_(std=0.3))


def assert_twins(outputs: tuple[Tensor, Tensor], inputs: list[tuple[Tensor, Tensor]], pairs) -> None:
    """Equal outputs, and equal gradients of every input and parameter, under one random gradient of the output."""
    mine, theirs = outputs
    assert mine.dtype == torch.float64
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    gradient = torch.randn_like(mine)
    mine.backward(gradient)
    theirs.backward(gradient)
    for our_input, their_input in inputs:
        torch.testing.assert_close(our_input.grad, their_input.grad, rtol=0, atol=1e-11)
    compared = 0
    for parameter, their_parameter, rows in pairs:
        torch.testing.assert_close(parameter.grad, their_parameter.grad[rows], rtol=0, atol=1e-11)
        compared += 1
    assert compared >= 8


def twice(*shape: int) -> tuple[Tensor, Tensor]:
    """One random float64 input, as two leaves that collect gradients apart."""
    x = torch.randn(*shape, dtype=torch.float64)
    return x.clone().requires_grad_(), x.clone().requires_grad_()
