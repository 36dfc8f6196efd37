"""Dropout by place: the right share, no pattern, and the same answer however it is asked."""

import torch

from transom.equations.dropout import keep_mask
from transom.equations.region import Region

CPU = torch.device("cpu")
WHOLE = (3, 5, 101, 211)


def test_a_block_is_cut_from_the_whole():
    whole = keep_mask(17, Region(WHOLE, device=CPU), 0.3)
    block = Region(
        WHOLE, batch=slice(1, 3), heads=torch.tensor([4, 2]), rows=slice(50, 61), columns=slice(7, 200), device=CPU
    )
    assert torch.equal(keep_mask(17, block, 0.3), whole[1:3][:, [4, 2], 50:61, 7:200])


def test_the_share_kept_is_right_everywhere():
    for dropout in (0.1, 0.5, 0.9):
        found = keep_mask(1234567890123, Region(WHOLE, device=CPU), dropout).double()
        # Standard error of the mean over n places is below 0.5/√n; five of them leave no room for chance.
        assert abs(found.mean() - (1 - dropout)) < 2.5 / found.numel() ** 0.5
        for axes, places in (((0, 1, 2), WHOLE[3]), ((0, 1, 3), WHOLE[2])):
            means = found.mean(dim=axes)
            assert (means - (1 - dropout)).abs().max() < 2.5 / (found.numel() / places) ** 0.5


def test_neighbours_have_nothing_in_common():
    x = keep_mask(3, Region(WHOLE, device=CPU), 0.5).double() - 0.5
    for shifted in (x[..., 1:] * x[..., :-1], x[:, :, 1:] * x[:, :, :-1], x[:, 1:] * x[:, :-1], x[1:] * x[:-1]):
        assert shifted.mean().abs() < 5 * 0.25 / shifted.numel() ** 0.5


def test_another_seed_is_another_pattern():
    block = Region(WHOLE, device=CPU)
    for one, other in ((0, 1), (5, 5 + 2**32), (2**61, 2**61 + 1)):
        agree = (keep_mask(one, block, 0.5) == keep_mask(other, block, 0.5)).double().mean()
        assert abs(agree - 0.5) < 0.01
