"""Attention that ran while a model was watched, and that could not be captured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from transom.files.html_table import DisplayedTable
from transom.files.terminal import escape_controls

# How sure it is: it did attention's work; its class is named after attention; it is another kind of layer.
Evidence = Literal["strong", "weak", "other kind"]


@dataclass(frozen=True)
class UnseenAttention:
    """One module whose attention is not in the trace.

    name         its path in the model
    class_name   its class
    reason       why it is taken for attention, and why it was not captured
    evidence     "strong" if it did attention's work, "weak" if little more than its name says so, "other kind" if it
                 is known to be no softmax attention (linear attention, a state space)
    """

    name: str
    class_name: str
    reason: str
    evidence: Evidence = "strong"


class UnseenList(DisplayedTable, list[UnseenAttention]):
    """What was not captured in a run; a notebook shows it as a table, a terminal line by line."""

    def table_cells(self) -> tuple[list[str], list[list[str]]]:
        return ["name", "class", "evidence", "reason"], [
            [one.name, one.class_name, one.evidence, one.reason] for one in self
        ]

    def __str__(self) -> str:
        lines = [f"{one.name} ({one.class_name}, {one.evidence}): {one.reason}" for one in self]
        return escape_controls("\n".join(lines) or "nothing: every attention was captured")


def list_names(names: Sequence[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    listed = ", ".join(repr(name) for name in names[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed


def group_by_reason(unseen: Sequence[UnseenAttention]) -> str:
    """Names, class and reason; modules of one class and with one reason together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in unseen:
        groups.setdefault((one.class_name, one.reason), []).append(one.name)
    return "; ".join(f"{list_names(names)} ({kind}): {reason}" for (kind, reason), names in groups.items())


def unseen_note(unseen: Sequence[UnseenAttention]) -> str:
    """One line that says what a run does not show; empty if nothing is missing but what only its name speaks for."""
    sure = [one for one in unseen if one.evidence != "weak"]
    return f"Not seen: {group_by_reason(sure)}." if sure else ""
