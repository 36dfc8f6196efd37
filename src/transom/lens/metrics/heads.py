"""`heads`: all measures of every head in one pass over each attention of a trace, in row blocks."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.files.strict_settings import suggest
from transom.kernels import row_blocks
from transom.lens.attention.indexing import first_position, visible_keys
from transom.lens.attention.labels import in_decoder, is_cross
from transom.lens.attention.sight import AttentionView, Sight
from transom.lens.metrics.head_measures import HEADS, NEEDS, NEEDS_WEIGHTS, MeasureInput, RowValues, SequenceInfo
from transom.lens.metrics.head_sums import HeadSums, LayerSums
from transom.lens.metrics.head_table import HeadTable
from transom.lens.metrics.received_sums import ReceivedSums
from transom.lens.trace import Trace
from transom.lens.unseen_attention import unseen_note
from transom.names import Misfit, format_shape

Progress = Callable[[float, int], None]
TokensOrIds = Sequence[Any] | Tensor | None  # of one sequence, or of each


def heads(
    trace: Trace,
    measures: Sequence[str] | None = None,
    tokens: TokensOrIds = None,
    targets: TokensOrIds = None,
    real: Tensor | None = None,
    target_real: Tensor | None = None,
    progress: Progress | None = None,
) -> HeadTable:
    """What each head of a run does, by the measures of HEADS: one row per layer and head.

    measures      names out of HEADS; by default all that the trace allows
    tokens        strings or ids, to know which tokens are equal; by default those of the trace
    targets       the same for what the decoder of an encoder–decoder reads
    real          (batch, token), True for real tokens; by default keys that no row may see are padding
    target_real   the same for the targets
    progress      called now and then with the number of attentions done, fractions included, and the number of all; it
                  may raise an exception to stop
    """
    return HeadTable.from_sums(measure_sums(trace, measures, tokens, targets, real, target_real, progress))


def measure_sums(
    trace: Trace,
    measures: Sequence[str] | None = None,
    tokens: TokensOrIds = None,
    targets: TokensOrIds = None,
    real: Tensor | None = None,
    target_real: Tensor | None = None,
    progress: Progress | None = None,
) -> HeadSums:
    """The sums behind `heads`, which can be merged with those of other runs."""
    if not len(trace):
        raise Misfit("heads measures a run, but the trace holds no attention; run the model inside transom.watch")
    wanted = list(HEADS) if measures is None else check_measures(measures)
    sums = HeadSums(wanted, unseen=unseen_note(trace.unseen))
    encoder_side = (trace.tokens if tokens is None else tokens, real)
    decoder_side = (trace.targets if targets is None else targets, target_real)
    has_cross = any(is_cross(name) for name in trace.names)
    report = progress or (lambda done, total: None)
    received: dict[str, ReceivedSums] = {}
    for done, (name, view) in enumerate(trace.items()):
        layer = sums.layer(name, view.shape[1], is_cross(name))
        own_tokens, own_real = decoder_side if has_cross and in_decoder(name) else encoder_side
        available = available_measures(layer, name, view, wanted, measures is not None, own_tokens is not None)
        if view.full is None:
            add_statistics(layer, name, view, available, own_real)
        else:
            sequence = sequence_info(name, view.full, own_tokens, own_real, real)
            share_done = lambda share, done=done: report(done + share, len(trace))  # noqa: E731
            by_key = [measure for measure in available if HEADS[measure].of_received is not None]
            if by_key:
                received.setdefault(name, ReceivedSums(layer, name, by_key)).begin(view.full, sequence.start)
            by_row = [measure for measure in available if measure not in by_key]
            add_row_blocks(layer, name, view.full, sequence, by_row, share_done, received.get(name))
    for key_sums in received.values():
        key_sums.finish()
    return sums


def check_measures(measures: Sequence[str]) -> list[str]:
    """The names of measures, each once, if all of them are in HEADS."""
    names = [measures] if isinstance(measures, str) else list(dict.fromkeys(measures))
    for name in names:
        if name not in HEADS:
            raise Misfit(f"there is no measure {name!r}; {suggest(name, HEADS)}")
    return names


def available_measures(
    layer: LayerSums, name: str, view: AttentionView, wanted: list[str], by_name: bool, has_tokens: bool
) -> list[str]:
    """The wanted measures that this attention allows; why it does not allow the others goes into `layer.missing`.

    If the measures were given by name, one that statistics alone do not allow raises an error.
    """
    lacks = missing_needs(layer, view, has_tokens)
    available = []
    for measure in wanted:
        row = HEADS[measure]
        why = next((NEEDS[need] for need in row.needs if need in lacks), None)
        if view.full is None and why is None and row.of_statistics is None:
            if by_name:
                raise Misfit(f"{measure!r} of {name!r} cannot be computed: {NEEDS_WEIGHTS}")
            why = NEEDS_WEIGHTS
        if why is None:
            available.append(measure)
        else:
            layer.missing[measure] = why
    return available


def missing_needs(layer: LayerSums, view: AttentionView, has_tokens: bool) -> set[str]:
    """What of NEEDS an attention does not have."""
    full, (_, _, queries, keys) = view.full, view.shape
    lacks = set() if has_tokens else {"tokens"}
    if full is None:
        no_positions = queries > keys and bool(view.statistics.distance.isnan().all())
    else:
        no_positions = first_position(full.problem) is None
    if layer.cross or no_positions:
        lacks.add("sequence")
    if full is not None and full.V.shape[3] == 0:
        lacks.add("values")
    return lacks


def sequence_info(
    name: str, sight: Sight, tokens: TokensOrIds, own_real: Tensor | None, source_real: Tensor | None
) -> SequenceInfo:
    """Tokens and padding of one attention; `own_real` is for its queries, `source_real` for cross-attention's keys."""
    batch, _, queries, keys = sight.shape
    device, cross = sight.Q.device, is_cross(name)
    given = source_real if cross else own_real
    visible = visible_keys(sight.problem) if given is None else given
    real = torch.ones(batch, keys) if visible is None else visible
    real = check_real(name, real, batch, keys).to(device)
    start = None if cross else first_position(sight.problem)
    real_rows = torch.ones((batch, queries), dtype=torch.bool, device=device)
    if cross and own_real is not None:
        real_rows = check_real(name, own_real, batch, queries).to(device)
    elif start is not None and keys:
        positions = torch.arange(start, start + queries, device=device)
        outside = (positions < 0) | (positions >= keys)
        real_rows = real[:, positions.clamp(0, keys - 1)] | outside
    numbers = None if tokens is None or start is None else token_numbers(name, sight, tokens).to(device)
    return SequenceInfo(start, numbers, real, real_rows)


def check_real(name: str, real: Tensor, batch: int, size: int) -> Bool[Tensor, "batch any"]:
    """True for real tokens, for each sequence; numbers 0 and 1 are taken too, as tokenizers give them."""
    if real.dim() != 2 or real.shape[0] not in (1, batch) or real.shape[1] < size:
        raise Misfit(
            f"real is {format_shape(real, 'batch token')}, but {name!r} has batch={batch} and {size} tokens; give one"
            " entry per token"
        )
    return real[:, :size].bool().expand(batch, size)


def token_numbers(name: str, sight: Sight, tokens: Sequence[Any] | Tensor) -> Int[Tensor, "batch token"]:
    """The tokens of the keys, and the next one if it is known, as numbers that are equal where the tokens are."""
    (batch, _, _, keys), first = sight.shape, sight.first_key
    listed = tokens.tolist() if isinstance(tokens, Tensor) else tokens
    rows = [listed] if not len(listed) or isinstance(listed[0], str | int) else list(listed)
    if len(rows) not in (1, batch) or any(len(row) < first + keys for row in rows):
        lengths = ", ".join(str(len(row)) for row in rows)
        raise Misfit(
            f"tokens are {len(rows)} sequences of {lengths:.40}, but {name!r} has batch={batch} and"
            f" keys={first + keys}; give one word or id per token, and targets for what a decoder reads"
        )
    numbers: dict[object, int] = {}
    end = min(first + keys + 1, *map(len, rows))
    table = [[numbers.setdefault(token, len(numbers)) for token in row[first:end]] for row in rows]
    return torch.tensor(table, dtype=torch.long).expand(batch, end - first)


def add_row_blocks(
    layer: LayerSums,
    name: str,
    sight: Sight,
    sequence: SequenceInfo,
    measures: list[str],
    report: Callable[[float], None],
    received: ReceivedSums | None,
) -> None:
    """Compute all measures in one pass over the row blocks; `report` is called with the share of rows done."""
    heads = sight.shape[1]
    sums = {measure: torch.zeros(heads, dtype=torch.float64, device=sight.Q.device) for measure in measures}
    counts = {measure: torch.zeros(heads, dtype=torch.long, device=sight.Q.device) for measure in measures}
    has_keys, done = sight.lse != -torch.inf, 0
    if bool((sight.lse.isnan() & sequence.real_rows[:, None]).any()):
        raise Misfit(f"{name!r} cannot be measured, as some of its weights are NaN; look at what the model was given")
    with torch.no_grad():
        for region in row_blocks(sight.problem):
            report(done / prod(sight.shape[:3]))
            done += prod(region.shape[:3])
            if region.shape[3] == 0:
                continue
            block = MeasureInput(sight, sequence, region, sight.log_weights(region))
            real = sequence.real_rows[region.batch, region.rows][:, None]
            real = real & has_keys[region.batch, region.heads, region.rows]
            for measure in measures:
                of_block = HEADS[measure].of_block
                assert of_block is not None
                block_sums, block_counts = sum_rows(of_block(block), real)
                sums[measure][region.heads] += block_sums
                counts[measure][region.heads] += block_counts
            if received is not None:
                received.add(region, block.weights, real)
    for measure in measures:
        layer.add(measure, sums[measure].tolist(), counts[measure].tolist(), name)


def sum_rows(rows: RowValues, real: Bool[Tensor, "batch heads rows"]) -> tuple[Tensor, Tensor]:
    """Per head the sum over the rows that count, and their number."""
    counted = real if rows.counted is None else real & rows.counted
    return rows.values.double().where(counted, 0.0).sum(dim=(0, 2)), counted.sum(dim=(0, 2))


def add_statistics(layer: LayerSums, name: str, view: AttentionView, measures: list[str], real: Tensor | None) -> None:
    """Add the measures that statistics alone allow; `real` must cover the rows if some are padding."""
    rows = view.lse != -torch.inf
    if real is not None:
        rows = rows & check_real(name, real, view.shape[0], view.shape[2]).to(rows.device)[:, None]
    for measure in measures:
        of_statistics = HEADS[measure].of_statistics
        assert of_statistics is not None
        sums, counts = sum_rows(of_statistics(view), rows)
        layer.add(measure, sums.tolist(), counts.tolist(), name)
