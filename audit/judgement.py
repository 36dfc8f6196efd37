"""The verdicts of the audit, and one row of it."""

from dataclasses import asdict, dataclass, field
from typing import Any

EXACT, IN_WINDOWS, UNPROVED, LISTED = "exact", "exact, in windows", "shown, not compared", "listed as unseen"
RAISES, NO_ATTENTION = "clear error", "no attention"
SILENT, WRONG, CHANGED, FOREIGN = "silent", "wrong weights", "changed bits", "foreign exception"
NOT_BUILDABLE, NOT_OFFERED, CRASHED, TOO_LONG = "not buildable small", "not offered", "crashed", "took too long"
# Each verdict, and what it means.
VERDICTS = {
    EXACT: "every attention is shown, with the weights that the model returns or the detector found",
    IN_WINDOWS: "the same; each window is an attention of its own, so rows and columns are positions in the window",
    UNPROVED: "shown, but there is nothing to compare it with",
    LISTED: "what is not shown is listed in `trace.unseen`, and nothing is raised; the rest is exact",
    RAISES: "`watch` raises an error by default that names what it cannot show; if allowed, it is listed",
    NO_ATTENTION: "the model has none, and `watch` says so",
    SILENT: "attention ran that is neither shown nor listed",
    WRONG: "other weights are shown than those that the model used",
    CHANGED: "the output changed because it was watched",
    FOREIGN: "an error that is not Transom's own",
    CRASHED: "the process ended",
    TOO_LONG: "it took more time than a configuration may take",
    NOT_OFFERED: "the architecture does not have this implementation of attention",
    NOT_BUILDABLE: "no small model could be built and run",
}
BAD = (SILENT, WRONG, CHANGED, FOREIGN, CRASHED, TOO_LONG)


@dataclass
class Judgement:
    """The verdict on one configuration, and what it rests on."""

    verdict: str
    reason: str = ""
    seen: int = 0  # attentions in the trace
    own: int = 0  # weights that the model itself returns
    detected: int = 0  # attentions that the detector found
    unseen: list[dict[str, str]] = field(default_factory=list)
    proof: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
