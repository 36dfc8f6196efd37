"""What a head does, in plain words, from its measures."""

from collections.abc import Mapping

EVEN = 0.85  # entropy of log n from which a head reads everything about alike
SINK = 0.4  # share of all weight from which one key, wherever it stands, is named
MOST, OFTEN = 0.5, 0.25  # shares of the weight, or of the rows, that are named
FOCUSED = 0.6  # mean largest weight from which a head reads one token at a time
FEWEST_ROWS = 3  # behind a measure that asks for repeated tokens
PLACES = {
    "sink": "the first token",
    "own": "its own token",
    "previous": "the token before",
    "next": "the token after",
}
COPIES = {
    "induction": "what followed an earlier copy of its own token (induction)",
    "retrieval": "an earlier copy of the token that comes next (retrieval)",
    "duplicate": "earlier copies of its own token",
}
NEEDED = ("entropy", "largest_sink", *PLACES, *COPIES, "distance", "confidence")
BACK = 1.5  # tokens: a smaller mean distance is not worth a word


def describe_head(values: Mapping[str, float | None], counts: Mapping[str, int], is_cross: bool = False) -> str | None:
    """One sentence from the measures of a head; None if they were not all measured, or say nothing."""
    if any(name not in values for name in NEEDED):
        return None
    known = {name: value for name, value in values.items() if value is not None}
    if "confidence" not in known or "entropy" not in known:
        return None
    other = " of the other text" if is_cross else ""
    if known["entropy"] >= EVEN:
        return f"spreads evenly over {'all of the other text' if is_cross else 'all it may see'}"
    parts = describe_places(known, other)
    copies = {name: known.get(name, 0.0) for name in COPIES if counts.get(name, 0) >= FEWEST_ROWS}
    name = max(copies, key=lambda name: copies[name], default="")
    if name and copies[name] >= OFTEN:
        parts.append(f"where it can, {how_often(copies[name])} reads {COPIES[name]}: {percent(copies[name])}")
    return "; ".join(parts) or describe_focus(known, other)


def describe_places(known: Mapping[str, float], other: str) -> list[str]:
    """The places that get a large share of the weight, the largest first."""
    shares = {words: known.get(name, 0.0) for name, words in PLACES.items()}
    if shares[PLACES["sink"]] >= MOST:
        shares[f"{PLACES['sink']} (a sink)"] = shares.pop(PLACES["sink"])
    if known["largest_sink"] >= SINK and known["largest_sink"] > max(shares.values()):
        shares[f"one and the same token{other} (a sink)"] = known["largest_sink"]
    named = sorted(((share, words) for words, share in shares.items() if share >= OFTEN), key=lambda one: -one[0])
    return [f"{how_often(share)} reads {words}: {percent(share)}" for share, words in named[:2]]


def describe_focus(known: Mapping[str, float], other: str) -> str:
    """How many tokens it reads, and how far away, where no place is named."""
    if known["confidence"] >= FOCUSED:
        what = f"reads one token{other} at a time"
    else:
        what = f"reads {'a few' if known['entropy'] < MOST else 'many'} tokens{other}"
    away = f", {int(known['distance'] + 0.5)} tokens away" if known.get("distance", 0.0) >= BACK else ""
    return what if other else f"{what}{away}, by no rule measured here"


def how_often(share: float) -> str:
    return "mostly" if share >= MOST else "often"


def percent(share: float) -> str:
    return f"{int(100 * share + 0.5)} %"
