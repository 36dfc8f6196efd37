"""Learning rates: against torch's own schedulers and the paper's formula."""

import math

import pytest
import torch
from torch.optim import lr_scheduler

from transom.training.optimizers import SCHEDULES, rate_share


def rates(name, warmup, updates, final=0.0):
    return [rate_share(name, update, warmup, updates, final) for update in range(1, updates + 1)]


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 1, 7])
def test_every_schedule_rises_to_one_and_never_above(name, warmup):
    found = rates(name, warmup, 23)
    assert max(found) == pytest.approx(1.0, abs=0.01 if warmup else 0.07)
    assert found[:warmup] == pytest.approx([update / warmup for update in range(1, warmup + 1)])
    assert all(0.0 <= rate <= 1.0 for rate in found)


def test_inverse_sqrt_is_the_papers_up_to_a_constant():
    for update in (1, 5, 7, 100):
        paper = min(update**-0.5, update * 7**-1.5)
        assert rate_share("inverse_sqrt", update, 7, 100, 0.0) == pytest.approx(paper / 7**-0.5)


def test_cosine_is_torchs_after_the_warm_up():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    torchs = lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.1)
    for update in range(3, 23):
        assert rate_share("cosine", update, 3, 23, 0.1) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        torchs.step()


def test_linear_and_cosine_end_at_the_final_rate():
    for name in ("linear", "cosine"):
        assert rate_share(name, 23, 3, 23, 0.2) == pytest.approx(0.2)
        assert rate_share(name, 50, 3, 23, 0.2) == pytest.approx(0.2)
    assert rate_share("linear", 13, 3, 23, 0.0) == pytest.approx(0.5)
    assert rate_share("cosine", 8, 3, 23, 0.0) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
