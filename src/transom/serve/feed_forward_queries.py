"""What the feed-forward level of the stage asks: one token's hidden units, what each writes, and what it was worth."""

from typing import TYPE_CHECKING, Any

from transom.names import Misfit, check_index
from transom.serve.explained_row import NextLogProbability, can_explain
from transom.serve.request_fields import FeedForwardRequest
from transom.serve.stage_queries import INFLUENCE, round_values

if TYPE_CHECKING:
    from torch import Tensor

    from transom.lens.capture.feed_forward import FeedForwardUnits, LinearMap
    from transom.serve.session import SessionRun

SIZE = "size"  # how units are ranked where no prediction can be followed back: by the length of what they write
CURVE_POINTS = 61
CURVE_REACH = 3.0  # at least so far to both sides of 0


def feed_forward_units(run: "SessionRun", index: int, fields: FeedForwardRequest) -> dict[str, Any]:
    """The feed-forward part of an attention's block at one token: the units that did most, the others summed.

    Where a prediction is explained, a unit's effect is its activation times the gradient of the log-probability: the
    effects of all units and of the bias add up to that of the whole part.
    """
    from transom.lens.ablation.ablated_runs import ModelCall
    from transom.lens.capture.feed_forward import find_feed_forward, hidden_gradient

    name, _ = run.attention(index)
    if run.text_run is None:
        raise Misfit("a trace has no model, so its feed-forward parts cannot be taken apart; open the model itself")
    model, encoded = run.text_run.model, run.text_run.encoded
    units = find_feed_forward(model.model, lambda: model.run(encoded), name, fields.query)
    effects, bias_effect = None, 0.0
    if can_explain(run) and fields.explained is not None:
        call = ModelCall.from_inputs(model.model, encoded.inputs, "the feed-forward level")
        read = NextLogProbability(run, fields.explained)
        gradient, by_output = hidden_gradient(model.model, lambda: call(gradients=True), units, read, fields.query)
        effects = units.hidden * gradient
        if units.b_2 is not None:
            bias_effect = float(units.b_2.double() @ by_output)
    reads = run.trace.labels(name).reads
    return {
        "token": reads[fields.query],
        "activation": units.activation,
        "gated": units.up is not None,
        "by": SIZE if effects is None else INFLUENCE,
        "explained": None if effects is None else fields.explained,
        "input": round_values(units.x),
        **listed_units(units, effects, fields),
        "bias": bias_part(units, None if effects is None else bias_effect),
        "output": round_values(units.output),
        "effect": None if effects is None else round_one(float(effects.sum()) + bias_effect),
        "curve": activation_curve(units),
    }


def listed_units(units: "FeedForwardUnits", effects: "Tensor | None", fields: FeedForwardRequest) -> dict[str, Any]:
    """The units with the largest effects, or that write most, each with all its numbers; and the sum of the others."""
    from transom.lens.capture.feed_forward import ACTIVATIONS

    sizes = units.hidden.abs() * units.W_2.double().norm(dim=-1)
    active = ACTIVATIONS[units.activation](units.gate.output)
    ranked = (sizes if effects is None else effects.abs()).argsort(descending=True, stable=True)
    rest = ranked[fields.count :]

    def unit_to_dict(unit: int) -> dict[str, Any]:
        return {
            "unit": unit,
            "gate": linear_unit(units.gate, unit),
            "up": None if units.up is None else linear_unit(units.up, unit),
            "active": round_one(active[unit]),
            "hidden": round_one(units.hidden[unit]),
            "effect": None if effects is None else round_one(effects[unit]),
            "size": round_one(sizes[unit]),
            "writes": round_values(units.hidden[unit] * units.W_2[unit].double()),
        }

    others = {
        "count": len(rest),
        "effect": None if effects is None else round_one(effects[rest].sum()),
        "writes": round_values(units.hidden[rest] @ units.W_2[rest].double()),
    }
    return {
        "count": len(units.hidden),
        "on": int((units.gate.output > 0).sum()),
        "units": [unit_to_dict(unit) for unit in ranked[: fields.count].tolist()],
        "asked": None if fields.unit is None else unit_to_dict(check_index(fields.unit, "unit", len(units.hidden))),
        "others": others,
    }


def linear_unit(part: "LinearMap", unit: int) -> dict[str, Any]:
    """One column of a matrix, its bias, and what they made of the input."""
    bias = None if part.b is None else round_one(part.b[unit])
    return {"W": round_values(part.W[:, unit].double()), "b": bias, "value": round_one(part.output[unit])}


def bias_part(units: "FeedForwardUnits", effect: float | None) -> dict[str, Any] | None:
    if units.b_2 is None:
        return None
    return {"effect": None if effect is None else round_one(effect), "writes": round_values(units.b_2.double())}


def activation_curve(units: "FeedForwardUnits") -> list[list[float]]:
    """Points of the activation over the numbers that come to it."""
    import torch

    from transom.lens.capture.feed_forward import ACTIVATIONS

    reach = max(CURVE_REACH, float(units.gate.output.abs().max()))
    x = torch.linspace(-reach, reach, CURVE_POINTS, dtype=torch.float64)
    return [[round_one(a), round_one(b)] for a, b in zip(x, ACTIVATIONS[units.activation](x), strict=True)]


def round_one(value: "Tensor | float") -> float:
    return float(f"{float(value):.6g}")
