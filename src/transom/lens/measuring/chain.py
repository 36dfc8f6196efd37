"""The attentions of a run as a chain, from the last layer down to the tokens of target and source."""

from collections.abc import Sequence
from dataclasses import dataclass

from transom.lens.asked import Asked
from transom.lens.glance import Glance
from transom.lens.labels import in_decoder, is_cross
from transom.lens.sight import Sight
from transom.lens.trace import Trace, nearest
from transom.lens.watch import covers
from transom.names import Misfit

TARGET, SOURCE = "target", "source"


@dataclass(frozen=True, eq=False)
class Link:
    """One attention: from which sequence it looks, and at which."""

    name: str
    sight: Sight
    rows_of: str
    keys_of: str


@dataclass(frozen=True, eq=False)
class Chain:
    """The links from the last to the first, and the length of each sequence; `source` is 0 where there is none."""

    links: list[Link]
    target: int
    source: int


def chained(trace: Trace, layers: Sequence[str | int] | str | int | None = None) -> Chain:
    """The chosen attentions of a trace, once they are seen to fit together."""
    asked = [layers] if isinstance(layers, str | int) else layers
    seen = [(name, s) for name, s in trace.items() if asked is None or any(covers(one, name) for one in asked)]
    for one in asked or ():
        if not any(covers(one, name) for name, _ in seen):
            raise Misfit(f"no attention ran in layer {one!r}; {nearest(str(one), trace.names)}")
    if not seen:
        raise Misfit("a chain of attentions needs one or more, but the trace holds none; watch a run first")
    check_once([name for name, _ in seen])
    crossed = any(is_cross(name) for name, _ in seen)
    links = [link(name, sight, crossed) for name, sight in reversed(seen)]
    sizes: dict[str, int] = {}
    for one in links:
        for side, size in zip((one.rows_of, one.keys_of), one.sight.problem.whole[2:], strict=True):
            if sizes.setdefault(side, size) != size:
                raise Misfit(
                    f"each attention of the chain should see the whole {side} of {sizes[side]} tokens, but {one.name!r}"
                    f" sees {size}; run the model once over all tokens, without a cache, or choose layers=…"
                )
    return Chain(links, sizes.get(TARGET, 0), sizes.get(SOURCE, 0))


def check_once(names: list[str]) -> None:
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise Misfit(
            f"{again!r} ran {names.count(again)} times, so the run is no chain of layers; run the model once over all"
            " tokens, without a cache"
        )


def link(name: str, sight: Sight, crossed: bool) -> Link:
    if isinstance(sight, Glance):
        raise Misfit(f"of {name!r} only statistics were kept, but its weights are needed; watch with keep='qkv'")
    if is_cross(name):
        return Link(name, sight, TARGET, SOURCE)
    side = TARGET if not crossed or in_decoder(name) else SOURCE
    return Link(name, sight, side, side)


def heads_of(heads: Asked | dict[str, Asked], name: str) -> Asked:
    """The heads chosen for one attention: the same everywhere, or by name; those not named are all taken."""
    return heads.get(name) if isinstance(heads, dict) else heads
