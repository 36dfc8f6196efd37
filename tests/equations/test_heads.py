"""Folding and unfolding heads, and heads that share keys."""

import torch

from transom.equations.heads import grouped_matmul, merge_heads, project_heads, split_heads, sum_groups

torch.manual_seed(7)


def test_fold_gives_each_head_its_run_of_numbers():
    x = torch.randn(2, 5, 21)
    folded = split_heads(x, 3)
    assert folded.shape == (2, 3, 5, 7)
    for head in range(3):
        assert torch.equal(folded[:, head], x[:, :, head * 7 : head * 7 + 7])


def test_unfold_undoes_fold():
    x = torch.randn(2, 5, 21)
    assert torch.equal(merge_heads(split_heads(x, 3)), x)


def test_joined_is_the_sum_of_each_heads_part_of_W_O():
    heads, W_O = torch.randn(2, 3, 5, 7).double(), torch.randn(21, 11).double()
    expected = sum(heads[:, h] @ W_O[h * 7 : h * 7 + 7] for h in range(3))
    assert torch.allclose(project_heads(heads, W_O), expected, atol=1e-12)


def test_shared_product_is_the_product_with_repeated_heads():
    left, right = torch.randn(2, 6, 5, 7).double(), torch.randn(2, 3, 7, 11).double()
    assert torch.allclose(grouped_matmul(left, right), left @ right.repeat_interleave(2, dim=1), atol=1e-12)
    alone = torch.randn(2, 1, 7, 11).double()
    assert torch.allclose(grouped_matmul(left, alone), left @ alone, atol=1e-12)


def test_shared_sum_is_the_way_back():
    x = torch.randn(2, 6, 5, 7).double()
    assert torch.allclose(sum_groups(x, 3)[:, 1], x[:, 2] + x[:, 3], atol=1e-12)
