"""Whether a model is what its config says: a folder holds the config and the parameters, so all else would be lost.

The model is compared, part by part and attribute by attribute, with one built from its config without memory for
parameters. Nothing is listed here that a new part could be missing from.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from transom.layers.positions.part import Table
from transom.names import Misfit

BOOKKEEPING = {*vars(nn.Module()), "_compiled_call_impl"}  # of every module: its mode, its hooks, its compiled form
OF_MODELS = {"config", "generation"}  # written into files of their own
PLAIN = (Tensor, msgspec.Struct, FunctionType, BuiltinFunctionType, type, list, tuple, dict)  # compared as they are
Difference = tuple[str, str, str]  # where, what the config says, what it is


def check_config_match(model: Any) -> None:
    """Complain unless the model is what its config builds; the numbers of its parameters are free."""
    with torch.device("meta"):
        expected = unwrapped_class(model)(model.config)
    for where, said, found in differences(expected, model):
        raise Misfit(
            f"{where} should be {said}, as the model's config says, but it is {found}, and the saved model would load"
            " without it; put that part back, or keep model.state_dict() and build the model yourself"
        )


def differences(expected: nn.Module, live: nn.Module) -> Iterator[Difference]:
    """What is not as expected, the outermost first."""
    yield from compared_modules("", expected, live)
    said, found = (shared_names(model) for model in (expected, live))
    for name, first in found.items():
        if said.get(name) != first:
            yield name, tied(name, said.get(name)), tied(name, first)


def compared_modules(path: str, expected: nn.Module, live: nn.Module) -> Iterator[Difference]:
    if unwrapped_class(live) is not type(expected):
        yield path or "the model", type(expected).__name__, type(live).__name__
        return
    yield from compared_names(path, expected._parameters, live._parameters, compared_parameters)
    yield from compared_names(path, expected._buffers, live._buffers, compared)
    own, other = attributes(expected), attributes(live)
    for name, value in own.items():
        if name not in other:
            yield joined(path, name), spelled(value), "not there"
        else:
            yield from compared(joined(path, name), value, other[name])
    # What was added is somebody's note, unless it stands in the way of what the class has: forward, for one.
    for name in other.keys() - own.keys():
        if not name.startswith("_") and hasattr(type(expected), name):
            yield joined(path, name), "the class's own", spelled(other[name])
    yield from compared_names(path, expected._modules, live._modules, compared_modules)


def compared_names(
    path: str, expected: Mapping[str, Any], live: Mapping[str, Any], inner: Callable[..., Iterator[Difference]]
) -> Iterator[Difference]:
    """Two tables of parameters, buffers or parts: the same names, and what stands under them."""
    for name in dict.fromkeys((*expected, *live)):
        said, found = expected.get(name), live.get(name)
        if said is None and found is None:
            continue
        if said is None or found is None:
            yield joined(path, name), spelled(said, name in expected), spelled(found, name in live)
        else:
            yield from inner(joined(path, name), said, found)


def compared_parameters(path: str, expected: Tensor, live: Tensor) -> Iterator[Difference]:
    if expected.shape != live.shape:
        yield path, f"of shape {tuple(expected.shape)}", f"of shape {tuple(live.shape)}"


def compared(path: str, expected: Any, live: Any) -> Iterator[Difference]:
    """Two values of any kind: numbers, words, tables, functions with what they hold, objects by their attributes."""
    if expected is live:
        return
    if isinstance(expected, nn.Module) and isinstance(live, nn.Module):
        yield from compared_modules(path, expected, live)
        return
    pairs = inside(expected, live)
    if pairs is None:
        if not same(expected, live):
            yield path, spelled(expected), spelled(live)
        return
    for name, said, found in pairs:
        yield from compared(joined(path, name), said, found)


def inside(expected: Any, live: Any) -> list[tuple[str, Any, Any]] | None:
    """The pairs that two things of one kind consist of; None where they are to be compared as they are."""
    if type(expected) is not type(live):
        return None
    if isinstance(expected, Table):
        return [("formula", expected.formula, live.formula), ("rows", expected_rows(expected, live), live.rows)]
    if isinstance(expected, partial):
        words = ("func", "args", "keywords")
        return [(word, getattr(expected, word), getattr(live, word)) for word in words]
    if isinstance(expected, FunctionType) and expected.__code__ is live.__code__:
        words = ("__defaults__", "__kwdefaults__")
        own, other = ([cell.cell_contents for cell in one.__closure__ or ()] for one in (expected, live))
        return [("its values", own, other), *((word, getattr(expected, word), getattr(live, word)) for word in words)]
    if isinstance(expected, MethodType):
        return [("__func__", expected.__func__, live.__func__), ("__self__", expected.__self__, live.__self__)]
    if isinstance(expected, list | tuple) and len(expected) == len(live):
        return [(str(place), *pair) for place, pair in enumerate(zip(expected, live, strict=True))]
    if isinstance(expected, dict) and expected.keys() == live.keys():
        return [(str(key), expected[key], live[key]) for key in expected]
    if (
        isinstance(expected, PLAIN)
        or not (held := getattr(expected, "__dict__", None))
        or held.keys() != vars(live).keys()
    ):
        return None
    return [(name, value, vars(live)[name]) for name, value in held.items()]


def same(expected: Any, live: Any) -> bool:
    if isinstance(expected, Tensor) and isinstance(live, Tensor):
        # A part that works out a tensor when it is built does so on the CPU: on the meta device it has no values.
        assert not expected.is_meta
        return expected.shape == live.shape and torch.equal(expected.to(live.dtype), live.detach().cpu())
    if type(expected) is not type(live):
        # 1 and 1.0 mean the same size or share, True does not.
        numbers = all(type(one) in (int, float) for one in (expected, live))
        return numbers and expected == live
    return bool(expected == live)


def expected_rows(expected: Table, live: Table) -> Tensor | None:
    """What a table has worked out on its way: its own rows if the formula gives these, else what it gives."""
    rows = live.rows
    if not isinstance(rows, Tensor):
        return None
    again = expected.formula(torch.arange(len(rows), device=rows.device), dtype=rows.dtype)
    # Another number of threads may round the last bit differently.
    same_rows = again.shape == rows.shape and torch.allclose(again, rows, rtol=1e-5, atol=1e-6)
    return rows if same_rows else again.cpu()


def attributes(module: nn.Module) -> dict[str, Any]:
    """What a module holds beside parameters, buffers and parts."""
    left_out = BOOKKEEPING | (OF_MODELS if hasattr(type(module), "kind") else set())
    return {name: value for name, value in vars(module).items() if name not in left_out}


def unwrapped_class(module: nn.Module) -> type:
    """The module's class; FSDP2 puts a class of its own over each module that it looks after."""
    over = {cls for cls in type(module).__mro__ if cls.__name__ == "FSDPModule" and cls.__module__.startswith("torch.")}
    return next(cls for cls in type(module).__mro__ if not any(issubclass(cls, one) for one in over))


def shared_names(model: nn.Module) -> dict[str, str]:
    """Each parameter's name, with the first name that it has: where two are tied, they have one."""
    first: dict[int, str] = {}
    found = model.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(parameter), name) for name, parameter in found}


def tied(name: str, first: str | None) -> str:
    return "not there" if first is None else "a parameter of its own" if first == name else f"tied to {first}"


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def spelled(value: Any, there: bool = True) -> str:
    """A value in a few words."""
    if not there:
        return "not there"
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}" + (
            " with its values" if value.is_meta else f" ({value!r:.40})"
        )
    if isinstance(value, nn.Module):
        return type(value).__name__
    name = getattr(value, "__name__", None)
    return str(name) if callable(value) and name is not None else f"{value!r:.60}"
