"""LoRA: its equation in float64 loops, nothing changed at first, and the same map once it is merged."""

import pytest
import torch

from transom.layers import Projection
from transom.layers.lora import LoRA, add_lora, merge_lora
from transom.models import Encoder, EncoderConfig
from transom.names import Misfit


def small_encoder():
    torch.manual_seed(3)
    config = EncoderConfig(vocabulary=11, d_model=6, heads=2, d_hidden=7, layers=2, labels=("a", "b"), dropout=0.0)
    return Encoder(config).eval()


def learned_lora(d_in=5, d_out=7, rank=3, alpha=4.0):
    torch.manual_seed(1)
    lora = LoRA(Projection(d_in, d_out), rank, alpha).double()
    torch.nn.init.normal_(lora.B.weight)
    torch.nn.init.normal_(lora.base.bias)
    return lora


def test_the_equation_number_by_number():
    lora, x = learned_lora(), torch.randn(2, 3, 5, dtype=torch.float64)
    W, b, A, B = (t.tolist() for t in (lora.base.weight, lora.base.bias, lora.A.weight, lora.B.weight))
    found = lora(x)
    for batch in range(2):
        for token in range(3):
            v = x[batch, token].tolist()
            inner = [sum(A[r][i] * v[i] for i in range(5)) for r in range(3)]
            for out in range(7):
                plain = sum(W[out][i] * v[i] for i in range(5)) + b[out]
                update = 4.0 / 3 * sum(B[out][r] * inner[r] for r in range(3))
                assert found[batch, token, out].item() == pytest.approx(plain + update, rel=1e-12)


def test_at_first_it_changes_nothing_and_only_its_update_learns():
    base = Projection(5, 7)
    lora, x = LoRA(base, 2, 16.0), torch.randn(3, 4, 5)
    assert torch.equal(lora(x), base(x))
    assert [name for name, p in lora.named_parameters() if p.requires_grad] == ["A.weight", "B.weight"]
    lora(x).sum().backward()
    assert base.weight.grad is None
    assert float(lora.B.weight.grad.abs().sum()) > 0


def test_merged_it_is_the_same_map():
    lora, x = learned_lora(), torch.randn(2, 3, 5, dtype=torch.float64)
    before = lora(x).detach()
    merged = lora.merge()
    assert type(merged) is Projection
    assert torch.allclose(merged(x), before, rtol=1e-12, atol=1e-12)


def test_a_model_with_lora_computes_the_same_until_it_learns_and_after_merging():
    model, tokens = small_encoder(), torch.randint(0, 11, (2, 5))
    before = model(tokens)
    names = add_lora(model, ["*.W_Q", "*.blocks.1.*.W_V"], rank=2, alpha=8.0)
    assert names == ["stack.blocks.0.attention.W_Q", "stack.blocks.1.attention.W_Q", "stack.blocks.1.attention.W_V"]
    assert torch.equal(model(tokens), before)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == {f"{name}.{part}.weight" for name in names for part in "AB"}
    with torch.no_grad():
        for name in names:
            model.get_submodule(name).B.weight.normal_()
    moved = model(tokens)
    assert not torch.allclose(moved, before)
    assert merge_lora(model) == 3
    assert torch.allclose(model(tokens), moved, atol=1e-6)
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in small_encoder().named_parameters()]


def test_a_pattern_that_fits_nothing_is_an_error():
    with pytest.raises(Misfit) as error:
        add_lora(small_encoder(), ["*.W_Q", "*.q_proj"], 2, 8.0)
    assert str(error.value) == (
        "lora.names has '*.q_proj', but no projection is called so; they are called like"
        " 'stack.blocks.0.attention.W_Q', and * stands for any letters"
    )
