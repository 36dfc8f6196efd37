"""One run and the number it is asked about: its attentions with their influence, and true knock-outs of it."""

from collections.abc import Callable, Sequence
from functools import cached_property

from transom.lens.ablation.ablated_runs import AblatedRuns, ModelCall, ReadOutput
from transom.lens.ablation.edge import Edge
from transom.lens.ablation.effect import value_of
from transom.lens.ablation.knock_out import How
from transom.lens.attribution.attention_influence import AttentionInfluence
from transom.lens.trace import Trace, list_some

Progress = Callable[[int, int], None]


class ExplainedRun:
    """A call of a model, what is read of its result, and the influence of each attention on one number of that.

    value, target   the number that is explained, and the token whose logit it is (None if the output is one number)
    trace           the attentions of the run
    unseen          attentions that are left out, each with the reason
    """

    def __init__(
        self,
        call: ModelCall,
        read: ReadOutput,
        trace: Trace,
        attentions: dict[str, AttentionInfluence],
        unseen: dict[str, str],
        explained: tuple[float, int | None, How],
    ) -> None:
        self.call, self.read, self.trace, self.attentions, self.unseen = call, read, trace, attentions, unseen
        self.value, self.target = explained[:2]
        self.how: How = explained[2]

    @cached_property
    def runs(self) -> AblatedRuns:
        longest = max(max(attention.sight.shape[2:]) for attention in self.attentions.values())
        return AblatedRuns(self.call, self.read, self.read(self.call()), self.how, longest)

    def measure(self, sets: Sequence[Sequence[Edge]], progress: Progress | None = None) -> list[float]:
        """The true change of the number without each set of edges."""
        if not sets:
            return []
        self.runs.progress = progress
        pairs = self.runs.run_sets(sets)
        return [value_of(without, self.target) - value_of(baseline, self.target) for baseline, without in pairs]

    def describe_unit(self) -> str:
        """What the changes are changes of, and which attentions are left out."""
        what = "the output" if self.target is None else f"the logit of token id {self.target}"
        left_out = f"; left out: {describe_unseen(self.unseen)}" if self.unseen else ""
        return f"change of {what}, {self.value:.4f}; knocked out {self.how} the softmax{left_out}"


def describe_unseen(unseen: dict[str, str]) -> str:
    reasons = {reason: [name for name, why in unseen.items() if why == reason] for reason in unseen.values()}
    return "; ".join(f"of {list_some(names)} {reason}" for reason, names in reasons.items())
