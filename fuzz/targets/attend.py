"""`attend` against float64: output and gradients, over dtypes, engines, sizes, strides, masks, biases and poison."""

import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import transom
from fuzz.attention_cases import Case, make_case
from fuzz.attention_engines import ChosenEngine
from fuzz.attention_reference import compute_gradients, compute_row, output_tolerance


def prepare(folder: Path) -> ChosenEngine:
    return ChosenEngine()


def try_input(state: ChosenEngine, rng: random.Random) -> str:
    case = make_case(rng)
    state.choose(rng)
    learning = rng.random() < 0.3
    tensors = [x.detach().requires_grad_(learning) for x in (case.Q, case.K, case.V)]
    options = dict(case.options)
    if isinstance(options["bias"], Tensor) and learning and rng.random() < 0.5:
        options["bias"] = options["bias"].detach().requires_grad_()
        tensors.append(options["bias"])
    before = [x.detach().clone() for x in tensors]
    output = transom.attend(tensors[0], tensors[1], tensors[2], **options)
    assert output.dtype == case.Q.dtype
    assert output.shape == (*case.whole[:3], case.V.shape[3])
    for x, kept in zip(tensors, before, strict=True):
        assert torch.equal(x.detach().nan_to_num(), kept.nan_to_num()), "an input was changed"
    judged = compare_output(case, output)
    if learning:
        return compare_gradients(case, tensors, output)
    return "exact" if judged == np.prod(case.whole[:3]) else "exact in part"


def compare_output(case: Case, output: Tensor) -> int:
    """How many rows were compared."""
    found, judged = output.detach().double().numpy(), 0
    for place in np.ndindex(*case.whole[:3]):
        row = compute_row(case.numbers, place, case.precision)
        V = case.numbers.V[place[0], place[1] // (case.whole[1] // case.K.shape[1])]
        if row.judged:
            judged += 1
            difference = np.abs(found[place] - row.output)
            near = output_tolerance(row, V, case.precision)
            assert (difference <= near).all(), (
                f"{place}: {found[place]} should be {row.output}, off by {difference} of {near}"
            )
        elif row.error < 0.1:  # its scores are sure, though not all that it looks at is a number
            shown = (row.weights[:, None] > 1e-2) & np.isnan(V[row.keys])
            assert np.isnan(found[place][shown.any(axis=0)]).all(), f"{place}: NaN that is looked at was lost"
    return judged


def compare_gradients(case: Case, tensors: list[Tensor], output: Tensor) -> str:
    """What comes back to Q, K and V."""
    random_numbers = torch.Generator().manual_seed(output.numel())
    of_output = torch.randn(output.shape, generator=random_numbers).to(output.dtype)
    output.backward(of_output)
    rows = [compute_row(case.numbers, place, case.precision) for place in np.ndindex(*case.whole[:3])]
    if not all(row.judged for row in rows):
        return "no gradient to compare"
    with np.errstate(all="ignore"):
        found, near = compute_gradients(case.numbers, of_output.double().numpy(), case.precision)
    for name, x in zip(("Q", "K", "V", "bias"), tensors, strict=False):
        assert x.grad is not None
        assert x.grad.dtype == x.dtype
        broadcast = tuple(axis for axis in range(4) if x.shape[axis] == 1)
        expected, tolerance = (
            getattr(one, name).sum(axis=broadcast, keepdims=True) if name == "bias" else getattr(one, name)
            for one in (found, near)
        )
        if np.abs(expected).max(initial=0.0) > torch.finfo(x.dtype).max / 4:
            continue
        of_grad = torch.finfo(x.dtype)
        tolerance = tolerance + 4.0 * of_grad.eps * np.abs(expected) + case.precision.sums
        tolerance += of_grad.smallest_normal * of_grad.eps  # the gradient itself is of that dtype
        difference = np.abs(x.grad.double().numpy() - expected)
        worst = (
            np.unravel_index(np.argmax(np.nan_to_num(difference - tolerance, nan=np.inf)), expected.shape)
            if expected.size
            else ()
        )
        assert (difference <= tolerance).all(), (
            f"gradient of {name} at {worst}: {x.grad[worst]} should be {expected[worst]} within {tolerance[worst]}"
        )
    return "exact with gradients"
