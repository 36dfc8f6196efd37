"""Measuring heads: every attention of a trace gone through once, band by band, by all measures at a time."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.files.strict import nearest
from transom.kernels.tiles import bands
from transom.lens.glance import Glance
from transom.lens.labels import in_decoder, is_cross, whole
from transom.lens.measuring.head_sums import HeadSums, LayerSums
from transom.lens.measuring.head_table import HeadTable
from transom.lens.measuring.look import Line, Look
from transom.lens.measuring.measures import HEADS, NEEDS, STATISTICS, Tally
from transom.lens.positions import first_position, seen_keys
from transom.lens.sight import Sight
from transom.lens.trace import Trace
from transom.names import Misfit, spelled

Progress = Callable[[float, int], None]
Tokens = Sequence[Any] | Tensor | None  # words or ids, of one sequence or of each


def heads(
    trace: Trace,
    measures: Sequence[str] | None = None,
    tokens: Tokens = None,
    targets: Tokens = None,
    real: Tensor | None = None,
    target_real: Tensor | None = None,
    progress: Progress | None = None,
) -> HeadTable:
    """What each head of a run does, by the measures of HEADS: one row per layer and head.

    measures      names out of HEADS; all that can be had unless given
    tokens        words or ids that tell which tokens are alike; unless given, those of the trace
    targets       the same for what the decoder of an encoder–decoder reads
    real          (batch, token), True for real tokens; unless given, keys that nobody may look at are padding
    target_real   the same for the targets
    progress      called now and then with how many attentions are done, the one at hand in part, and with the number of
                  all; it may raise to end the work
    """
    return HeadTable.of(measured(trace, measures, tokens, targets, real, target_real, progress))


def measured(
    trace: Trace,
    measures: Sequence[str] | None = None,
    tokens: Tokens = None,
    targets: Tokens = None,
    real: Tensor | None = None,
    target_real: Tensor | None = None,
    progress: Progress | None = None,
) -> HeadSums:
    """The sums behind `heads`, which can be joined with those of other runs."""
    if not len(trace):
        raise Misfit("heads measures a run, but the trace holds no attention; run the model inside transom.watch")
    wanted = list(HEADS) if measures is None else checked(measures)
    found = HeadSums(wanted)
    sides = {
        False: (trace.tokens if tokens is None else tokens, real),
        True: (trace.targets if targets is None else targets, target_real),
    }
    two_sided = any(is_cross(name) for name in trace.names)
    told = progress or (lambda done, of: None)
    for done, (name, sight) in enumerate(trace.items()):
        sizes, cross = whole(sight), is_cross(name)
        layer = found.layer(name, sizes[1], cross)
        own = sides[two_sided and in_decoder(name)]
        had = available(layer, name, sight, wanted, measures is not None, own[0] is not None)
        if isinstance(sight, Glance):
            add_statistics(layer, name, sight, had, own[1])
        else:
            line = line_of(name, sight, own, sides[False][1], cross)
            add_bands(layer, name, sight, line, had, lambda share, done=done: told(done + share, len(trace)))
    return found


def checked(measures: Sequence[str]) -> list[str]:
    for measure in [measures] if isinstance(measures, str) else measures:
        if measure not in HEADS:
            raise Misfit(f"there is no measure {measure!r}; {nearest(measure, HEADS)}")
    return [measures] if isinstance(measures, str) else list(dict.fromkeys(measures))


def available(layer: LayerSums, name: str, sight: Sight, wanted: list[str], insisted: bool, known: bool) -> list[str]:
    """The wanted measures that this attention can tell; why it cannot the others is written down.

    What was asked for by name and cannot be had from statistics alone is an error.
    """
    lacks = lacking(layer, sight, known)
    had = []
    for measure in wanted:
        row = HEADS[measure]
        why = next((NEEDS[need] for need in row.needs if need in lacks), None)
        if isinstance(sight, Glance) and why is None and row.of_statistics is None:
            if insisted:
                raise Misfit(f"{measure!r} of {name!r} cannot be told: {STATISTICS}")
            why = STATISTICS
        if why is None:
            had.append(measure)
        else:
            layer.missing[measure] = why
    return had


def lacking(layer: LayerSums, sight: Sight, known: bool) -> set[str]:
    """What of NEEDS an attention does not have."""
    lacks = set() if known else {"tokens"}
    if layer.cross or (not isinstance(sight, Glance) and first_position(sight.problem) is None):
        lacks.add("line")
    if isinstance(sight, Glance) and sight.whole[2] > sight.whole[3] and bool(sight.statistics.distance.isnan().all()):
        lacks.add("line")
    if not isinstance(sight, Glance) and sight.V.shape[3] == 0:
        lacks.add("values")
    return lacks


def line_of(
    name: str, sight: Sight, own: tuple[Tokens, Tensor | None], source_real: Tensor | None, cross: bool
) -> Line:
    """Tokens and padding of one attention."""
    batch, _, queries, keys = sight.problem.whole
    device = sight.Q.device
    given = source_real if cross else own[1]
    seen = seen_keys(sight.problem) if given is None else given
    real = (
        torch.ones((batch, keys), dtype=torch.bool, device=device) if seen is None else as_real(name, seen, batch, keys)
    )
    real = real.to(device)
    start = None if cross else first_position(sight.problem)
    rows = torch.ones((batch, queries), dtype=torch.bool, device=device)
    if cross and own[1] is not None:
        rows = as_real(name, own[1], batch, queries).to(device)
    elif start is not None:
        places = torch.arange(start, start + queries, device=device)
        outside = (places < 0) | (places >= keys)
        rows = real[:, places.clamp(0, keys - 1)] | outside if keys else rows
    tokens = None if own[0] is None or start is None else numbered(name, sight, own[0]).to(device)
    return Line(start, tokens, real, rows)


def as_real(name: str, real: Tensor, batch: int, size: int) -> Bool[Tensor, "batch any"]:
    """What is real, one entry per token; numbers 0 and 1 are taken too, as tokenizers give them."""
    if real.dim() != 2 or real.shape[0] not in (1, batch) or real.shape[1] < size:
        raise Misfit(
            f"real is {spelled(real, 'batch token')}, but {name!r} has batch={batch} and {size} tokens; give one entry"
            " per token"
        )
    return real[:, :size].bool().expand(batch, size)


def numbered(name: str, sight: Sight, tokens: Tokens) -> Int[Tensor, "batch token"]:
    """Words or ids of the keys as numbers that are alike where they are."""
    (batch, _, _, keys), first = sight.problem.whole, 0 if sight.stretch is None else sight.stretch.first
    if isinstance(tokens, Tensor):
        tokens = tokens.tolist()
    assert tokens is not None
    rows = [tokens] if not len(tokens) or isinstance(tokens[0], str | int) else list(tokens)
    if len(rows) not in (1, batch) or any(len(row) < first + keys for row in rows):
        lengths = ", ".join(str(len(row)) for row in rows)
        raise Misfit(
            f"tokens are {len(rows)} sequences of {lengths:.40}, but {name!r} has batch={batch} and"
            f" keys={first + keys}; give one word or id per token, and targets for what a decoder reads"
        )
    known: dict[object, int] = {}
    found = [[known.setdefault(one, len(known)) for one in row[first : first + keys]] for row in rows]
    return torch.tensor(found, dtype=torch.long).expand(batch, keys)


def add_bands(
    layer: LayerSums, name: str, sight: Sight, line: Line, measures: list[str], told: Callable[[float], None]
) -> None:
    """Every band of an attention looked at once, by all measures; `told` hears the share of rows that is done."""
    count = sight.problem.whole[1]
    sums = {measure: torch.zeros(count, dtype=torch.float64, device=sight.Q.device) for measure in measures}
    rows = {measure: torch.zeros(count, dtype=torch.long, device=sight.Q.device) for measure in measures}
    alive, done = sight.lse != -torch.inf, 0
    if bool((sight.lse.isnan() & line.real_rows[:, None]).any()):
        raise Misfit(f"{name!r} cannot be measured, as some of its weights are NaN; look at what the model was given")
    with torch.no_grad():
        for band in bands(sight.problem):
            told(done / prod(sight.problem.whole[:3]))
            done += prod(band.shape[:3])
            if band.shape[3] == 0:
                continue
            look = Look(sight, line, band, sight.log_weights(band))
            real = line.real_rows[band.batch, band.rows][:, None] & alive[band.batch, band.heads, band.rows]
            for measure in measures:
                more, many = tallied(HEADS[measure].of_band(look), real)
                sums[measure][band.heads] += more
                rows[measure][band.heads] += many
    for measure in measures:
        layer.add(measure, sums[measure].tolist(), rows[measure].tolist(), name)


def tallied(tally: Tally, real: Bool[Tensor, "batch heads rows"]) -> tuple[Tensor, Tensor]:
    """Per head the sum over the rows that count, and their number."""
    counted = real if tally.counted is None else real & tally.counted
    return tally.values.double().where(counted, 0.0).sum(dim=(0, 2)), counted.sum(dim=(0, 2))


def add_statistics(layer: LayerSums, name: str, kept: Glance, measures: list[str], real: Tensor | None) -> None:
    """What kept statistics tell; `real` must cover the rows where some are padding."""
    rows = kept.lse != -torch.inf
    if real is not None:
        rows = rows & as_real(name, real, kept.whole[0], kept.whole[2]).to(rows.device)[:, None]
    for measure in measures:
        of_statistics = HEADS[measure].of_statistics
        assert of_statistics is not None
        more, many = tallied(of_statistics(kept), rows)
        layer.add(measure, more.tolist(), many.tolist(), name)
