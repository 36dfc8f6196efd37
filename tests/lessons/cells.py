"""The arithmetic of a cell computed again from its terms alone."""

import math

FUNCTIONS = {
    "relu": lambda x: max(0.0, x),
    "tanh": math.tanh,
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "−log": lambda x: -math.log(x),
}


def recompute(arithmetic):
    """The result of an arithmetic from its terms."""
    numbers = [term[1] for term in arithmetic.terms]
    match arithmetic.kind:
        case "dot" | "sum":
            return sum(math.prod(term[1:]) for term in arithmetic.terms)
        case "norm":
            x, mean, spread, gain, bias = numbers
            return (x - mean) / spread * gain + bias
        case "quotient":
            return numbers[0] / numbers[1]
        case "function" if arithmetic.terms[0][0] in FUNCTIONS:
            return FUNCTIONS[arithmetic.terms[0][0]](numbers[0])
        case "softmax":
            score, *row = numbers
            return math.exp(score) / sum(math.exp(other) for other in row)
    return arithmetic.result


def check_cells(steps):
    """Every cell has the number of its step, its terms give that number, and it can be written out."""
    for step in steps:
        for i in range(len(step.rows)):
            for j in range(len(step.columns)):
                cell, value = step.cell(i, j), step.values[i, j]
                assert cell.result == value
                if math.isfinite(value):
                    assert math.isclose(recompute(cell), value, rel_tol=1e-12, abs_tol=1e-14), (step.name, cell)
                assert cell.to_text(digits=3)
