"""Whether a model is what its config says: a folder holds the config and the parameters, and all else would be lost.

The model is compared, attribute by attribute, with one that is built from its config on the meta device. There is no
list of parts here, so none can be missing from it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from transom.layers.position_encoding import PositionTable
from transom.names import Misfit

BOOKKEEPING = {*vars(nn.Module()), "_compiled_call_impl"}  # of every module: its mode, its hooks, its compiled form
OWN_FILES = {"config", "generation"}  # attributes of a model that have their own files
ATOMIC = (Tensor, msgspec.Struct, FunctionType, BuiltinFunctionType, type, list, tuple, dict)  # have no other members
MISSING = "absent"
Difference = tuple[str, str, str]  # path, what the config says, what the model has


def check_config_match(model: Any) -> None:
    """Raise an error unless the model is what its config builds; the values of its parameters are free."""
    with torch.device("meta"):
        expected = unwrapped_class(model)(model.config)
    for path, by_config, by_model in differences(expected, model):
        raise Misfit(
            f"{path} should be {by_config}, as the model's config says, but it is {by_model}, and the saved model would"
            " load without it; put that part back, or keep model.state_dict() and build the model yourself"
        )


def differences(expected: nn.Module, live: nn.Module) -> Iterator[Difference]:
    """All differences, the outermost first."""
    yield from compare_modules("", expected, live)
    expected_ties, live_ties = tied_names(expected), tied_names(live)
    for name, first in live_ties.items():
        if expected_ties.get(name) != first:
            yield name, format_tie(name, expected_ties.get(name)), format_tie(name, first)


def compare_modules(path: str, expected: nn.Module, live: nn.Module) -> Iterator[Difference]:
    if unwrapped_class(live) is not type(expected):
        yield path or "the model", type(expected).__name__, type(live).__name__
        return
    yield from compare_names(path, expected._parameters, live._parameters, compare_parameters)
    yield from compare_names(path, expected._buffers, live._buffers, compare_values)
    expected_attributes, live_attributes = attributes(expected), attributes(live)
    for name, value in expected_attributes.items():
        if name not in live_attributes:
            yield join_path(path, name), format_value(value), MISSING
        else:
            yield from compare_values(join_path(path, name), value, live_attributes[name])
    # An added attribute is a note of the caller, unless it hides one of the class, such as forward.
    for name in live_attributes.keys() - expected_attributes.keys():
        if not name.startswith("_") and hasattr(type(expected), name):
            yield join_path(path, name), "the class's own", format_value(live_attributes[name])
    yield from compare_names(path, expected._modules, live._modules, compare_modules)


def compare_names(
    path: str, expected: Mapping[str, Any], live: Mapping[str, Any], compare: Callable[..., Iterator[Difference]]
) -> Iterator[Difference]:
    """Compare two tables of parameters, buffers or modules: their names, and the values of each name."""
    for name in dict.fromkeys((*expected, *live)):
        expected_value, live_value = expected.get(name), live.get(name)
        if expected_value is not None and live_value is not None:
            yield from compare(join_path(path, name), expected_value, live_value)
        elif expected_value is not None or live_value is not None:
            texts = [format_value(table[name]) if name in table else MISSING for table in (expected, live)]
            yield join_path(path, name), texts[0], texts[1]


def compare_parameters(path: str, expected: Tensor, live: Tensor) -> Iterator[Difference]:
    if expected.shape != live.shape:
        yield path, f"of shape {tuple(expected.shape)}", f"of shape {tuple(live.shape)}"


def compare_values(path: str, expected: Any, live: Any) -> Iterator[Difference]:
    """Compare two values of any kind: numbers, strings, tables, functions with their closures, objects."""
    if expected is live:
        return
    if isinstance(expected, nn.Module) and isinstance(live, nn.Module):
        yield from compare_modules(path, expected, live)
        return
    members = paired_members(expected, live)
    if members is None:
        if not is_same(expected, live):
            yield path, format_value(expected), format_value(live)
        return
    for name, expected_member, live_member in members:
        yield from compare_values(join_path(path, name), expected_member, live_member)


def paired_members(expected: Any, live: Any) -> list[tuple[str, Any, Any]] | None:
    """The members of two values of one type, in pairs; None if the values themselves are to be compared."""
    if type(expected) is not type(live):
        return None
    if isinstance(expected, PositionTable):
        return [("formula", expected.formula, live.formula), ("rows", expected_rows(expected, live), live.rows)]
    if isinstance(expected, FunctionType) and expected.__code__ is live.__code__:
        closures = [[cell.cell_contents for cell in function.__closure__ or ()] for function in (expected, live)]
        defaults = paired_attributes(expected, live, "__defaults__", "__kwdefaults__")
        return [("its values", closures[0], closures[1]), *defaults]
    if isinstance(expected, partial):
        return paired_attributes(expected, live, "func", "args", "keywords")
    if isinstance(expected, MethodType):
        return paired_attributes(expected, live, "__func__", "__self__")
    if isinstance(expected, list | tuple) and len(expected) == len(live):
        return [(str(index), *pair) for index, pair in enumerate(zip(expected, live, strict=True))]
    if isinstance(expected, dict) and expected.keys() == live.keys():
        return [(str(key), expected[key], live[key]) for key in expected]
    members = getattr(expected, "__dict__", None)
    if isinstance(expected, ATOMIC) or not members or members.keys() != vars(live).keys():
        return None
    return paired_attributes(expected, live, *members)


def paired_attributes(expected: Any, live: Any, *names: str) -> list[tuple[str, Any, Any]]:
    return [(name, getattr(expected, name), getattr(live, name)) for name in names]


def is_same(expected: Any, live: Any) -> bool:
    """Whether two values without members are equal."""
    if isinstance(expected, Tensor) and isinstance(live, Tensor):
        # A part that computes a tensor when it is built does so on the CPU: on the meta device it has no values.
        assert not expected.is_meta
        return expected.shape == live.shape and torch.equal(expected.to(live.dtype), live.detach().cpu())
    if type(expected) is not type(live):
        # 1 and 1.0 mean the same size or share, True does not.
        are_numbers = all(type(value) in (int, float) for value in (expected, live))
        return are_numbers and expected == live
    return bool(expected == live)


def expected_rows(expected: PositionTable, live: PositionTable) -> Tensor | None:
    """The rows that a table should have: its own if the formula gives the same, else those of the formula."""
    rows = live.rows
    if not isinstance(rows, Tensor):
        return None
    computed = expected.formula(torch.arange(len(rows), device=rows.device), dtype=rows.dtype)
    # Another number of threads may round the last bit differently.
    same_rows = computed.shape == rows.shape and torch.allclose(computed, rows, rtol=1e-5, atol=1e-6)
    return rows if same_rows else computed.cpu()


def attributes(module: nn.Module) -> dict[str, Any]:
    """The attributes of a module that are no parameters, buffers or modules."""
    left_out = BOOKKEEPING | (OWN_FILES if hasattr(type(module), "kind") else set())
    return {name: value for name, value in vars(module).items() if name not in left_out}


def unwrapped_class(module: nn.Module) -> type:
    """The module's class, without the one that FSDP2 puts over it."""
    mro = type(module).__mro__
    wrappers = tuple(cls for cls in mro if cls.__name__ == "FSDPModule" and cls.__module__.startswith("torch."))
    return next(cls for cls in mro if not issubclass(cls, wrappers))


def tied_names(model: nn.Module) -> dict[str, str]:
    """The name of each parameter, with the first name of the parameter it is tied to, or with its own."""
    first: dict[int, str] = {}
    parameters = model.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(parameter), name) for name, parameter in parameters}


def format_tie(name: str, first: str | None) -> str:
    return MISSING if first is None else "untied" if first == name else f"tied to {first}"


def join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def format_value(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, Tensor):
        values = " with its values" if value.is_meta else f" ({value!r:.40})"
        return f"a tensor of shape {tuple(value.shape)}{values}"
    if isinstance(value, nn.Module):
        return type(value).__name__
    name = getattr(value, "__name__", None)
    return str(name) if callable(value) and name is not None else f"{value!r:.60}"
