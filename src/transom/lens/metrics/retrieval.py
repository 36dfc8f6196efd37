"""The retrieval score of heads: how often a head looks at the very token that is copied (Wu et al. 2024)."""

from collections.abc import Mapping, Sequence

from transom.lens.trace import Trace
from transom.names import Misfit, check_index


def retrieval_scores(trace: Trace, copies: Mapping[int, Sequence[int]]) -> dict[tuple[str, int], float]:
    """For each head, the share of copied tokens whose place has its largest weight when they are written.

    After Wu et al. 2024, arXiv 2404.15574. `copies` names for each row that writes a copied token the positions of
    that token in the passage it is copied from.
    """
    if not copies:
        raise Misfit(
            "a retrieval score needs tokens that were copied, but got none; name a row and where it copies from"
        )
    scores = {}
    for name in trace.names:
        sight = trace[name].require_full()
        _, heads, queries, keys = sight.shape
        rows = {check_index(row, "queries", queries): set(places) for row, places in copies.items()}
        for places in rows.values():
            for place in places:
                check_index(place, "keys", keys)
        weights = sight.weights(batch=0, rows=list(rows))
        strongest = weights.argmax(dim=-1).tolist()
        for head in range(heads):
            hits = sum(key in places for key, places in zip(strongest[head], rows.values(), strict=True))
            scores[name, head] = hits / len(rows)
    return scores
