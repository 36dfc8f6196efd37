"""The answers of all questions as rows of one table: case, peer and its version, both figures, and who wins."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.measuring.instruments import MiB
from bench.peers.environment import PACKAGES, peer_version

ALIKE = 0.05  # a smaller difference counts as none: the noise of the machine is of that size


@dataclass(frozen=True)
class Row:
    """One comparison with a peer; less is always better."""

    question: str
    case: str
    peer: str
    unit: str
    ours: float | None
    theirs: float | None
    note: str = ""
    unsteady: dict[str, float] = field(default_factory=dict)  # whose two runs differ, and by which factor

    @property
    def version(self) -> str:
        return peer_version(self.peer)

    def peer_label(self) -> str:
        """The peer with its version, and with its package if that has another name."""
        package = PACKAGES[self.peer]
        same = package.replace("-", "") == self.peer.lower()
        return f"{self.peer} {self.version}" if same else f"{self.peer} ({package} {self.version})"

    def verdict(self) -> str:
        """Who wins and by how much, or why that is not known."""
        if self.ours is None or self.theirs is None:
            return f"not measured: {self.note}"
        less, more = sorted((self.ours, self.theirs))
        better = {"MiB": "smaller", "packages": "fewer"}.get(self.unit.split()[0], "quicker")
        if less == 0 or more / less < 1 + ALIKE:
            verdict = "alike"
        else:
            winner = "Transom" if self.ours == less else f"**{self.peer} wins**:"
            times = f"{more / less:,.0f}" if more / less >= 100 else f"{more / less:.2f}"
            verdict = f"{winner} {times} times {better}"
        factors = ", ".join(f"of {name} {ratio:.2f} times" for name, ratio in self.unsteady.items())
        notes = [self.note, f"unsteady: two runs differ, {factors}" if factors else ""]
        return "; ".join([verdict, *filter(None, notes)])

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "version": self.version, "named": self.peer_label(), "words": self.verdict()}


def format_number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def render_markdown(rows: list[dict[str, Any]]) -> str:
    """A table of the rows of a saved document: it can be rendered again without the peers."""
    lines = ["| question | case | peer | unit | Transom | peer's | in words |", "|---|---|---|---|---:|---:|---|"]
    for row in rows:
        cells = (
            row["question"],
            row["case"],
            row["named"],
            row["unit"],
            format_number(row["ours"]),
            format_number(row["theirs"]),
        )
        lines.append(f"| {' | '.join(cells)} | {row['words']} |")
    return "\n".join(lines)


def unsteady_pair(
    result: dict[str, Any], ours: str, peer: str, theirs: str = "", key: str = "unsteady"
) -> dict[str, float]:
    """Which of Transom and a peer the result calls unsteady, with the factor."""
    found = result.get(key, {})
    return {label: found[name] for label, name in (("Transom", ours), (peer, theirs or peer)) if name in found}


def attention_rows(result: dict[str, Any]) -> Iterator[Row]:
    """The output alone and with every statistic, against SDPA (no statistics) and eager attention (all weights)."""
    for one in result["attention"]:
        shape = f"{tuple(one['shape'])} {'causal' if one['causal'] else 'full'}"
        times, peaks = one["milliseconds"], one["peak_MiB"]
        off = unsteady_pair(one, "attend", "SDPA", "sdpa")
        yield Row("attention", f"{shape}, output", "SDPA", "ms", times["attend"], times["sdpa"], "", off)
        note, off = "Transom with every statistic, SDPA with none", unsteady_pair(one, "sight", "SDPA", "sdpa")
        yield Row("attention", f"{shape}, looked into", "SDPA", "ms", times["sight"], times["sdpa"], note, off)
        if "eager + statistics" in times:
            off = unsteady_pair(one, "sight", "eager attention", "eager + statistics")
            for unit, found, wrong in (("ms", times, off), ("MiB at the peak", peaks, {})):
                pair = found["sight"], found["eager + statistics"]
                yield Row("attention", f"{shape}, looked into", "eager attention", unit, *pair, "", wrong)


def flex_rows(result: dict[str, Any]) -> Iterator[Row]:
    for one in result["compared"]:
        times, case = one["milliseconds"], f"{tuple(one['shape'])} {one['kind']}"
        for peer in ("SDPA", "eager attention", "FlexAttention"):
            note = one["not run"].get(peer, "")
            if peer == "FlexAttention" and not note:
                note = f"its first call takes {one['first_call_seconds'][peer]:.0f} s: it is compiled"
            off = unsteady_pair(one, "Transom", peer)
            yield Row("flex", case, peer, "ms", times["Transom"], times.get(peer), note, off)


def kernel_rows(result: dict[str, Any]) -> Iterator[Row]:
    """Forward and backward against SDPA; the rest of that question has no peer."""
    for case, found in result["ratios"].items():
        if case.startswith("training"):
            shape, theirs = case.removeprefix("training "), found["sdpa_ms"]
            off = unsteady_pair(found, "transom", "SDPA", "sdpa")
            yield Row("kernel", f"{shape}, there and back", "SDPA", "ms", theirs * found["transom"], theirs, "", off)


def watching_rows(result: dict[str, Any]) -> Iterator[Row]:
    for one in result["compared"]:
        contenders, tokens = one["contenders"], f"{one['tokens']:,} tokens"
        for peer in ("Hugging Face eager", "TransformerLens", "nnsight"):
            ours, theirs = contenders["Transom"], contenders[peer]
            why = ours.get("not run") or theirs.get("not run") or ""
            for unit, key, wrong in (("s", "seconds", "unsteady"), ("MiB at the peak", "peak", "unsteady_peaks")):
                own, other = (None if "not run" in found else seconds_or_mib(found[key]) for found in (ours, theirs))
                off = unsteady_pair(one, "Transom", peer, key=wrong)
                yield Row("watching", tokens, peer, unit, own, other, why, off)


def seconds_or_mib(found: list[float] | int) -> float:
    """The best of several seconds, or bytes as MiB."""
    return min(found) if isinstance(found, list) else found / MiB


def pages_rows(result: dict[str, Any]) -> Iterator[Row]:
    held = "BertViz's holds every weight, Transom's a map of each head"
    whole = "Transom's trace, from which every weight can be had, beside BertViz's page"
    for one in result["compared"]:
        ours, theirs = one["Transom"], one["BertViz"]
        case, why = f"one layer, {one['tokens']:,} tokens", theirs.get("not run", "")
        page = None if why else theirs["page_bytes"] / MiB
        seconds = None if why else theirs["seen_seconds"] + theirs["drawn_seconds"]
        own = ours["seen_seconds"] + ours["drawn_seconds"]
        yield Row("pages", f"{case}, page", "BertViz", "MiB", ours["page_bytes"] / MiB, page, why or held)
        yield Row("pages", f"{case}, every weight", "BertViz", "MiB", ours["trace_bytes"] / MiB, page, why or whole)
        once = [f"one run of {name}: the time was up" for name in one.get("one run", [])]
        why, off = why or ", ".join(once), unsteady_pair(one, "Transom", "BertViz")
        yield Row("pages", f"{case}, from text to page", "BertViz", "s", own, seconds, why, off)


def training_rows(result: dict[str, Any]) -> Iterator[Row]:
    """Each precision is compared with the same precision."""
    times, peaks = result["milliseconds"], result["peak_MiB"]
    rows, length = result["batch"]
    for more in ("", ", bfloat16"):
        case = f"a step of {rows} pairs of {length} tokens{more}"
        for peer in ("nn.Transformer", "Marian", "JoeyNMT"):
            name, own = peer + more, f"Transom{more}"
            if own not in times or (more and name not in times):
                continue
            why = "" if name in times else result.get("not run", {}).get(name, "not installed")
            off, wrong = (unsteady_pair(result, own, peer, name, key) for key in ("unsteady", "unsteady_peaks"))
            yield Row("training", case, peer, "ms", times[own], times.get(name), why, off)
            yield Row("training", case, peer, "MiB at the peak", peaks[own], peaks.get(name), why, wrong)


def generation_rows(result: dict[str, Any]) -> Iterator[Row]:
    for case, found in result["cases"].items():
        times = found["milliseconds_a_step"]
        for peer in ("Hugging Face", "CTranslate2"):
            why = "" if peer in times else "not installed"
            off = unsteady_pair(found, "Transom", peer)
            yield Row("generation", case, peer, "ms a step", times["Transom"], times.get(peer), why, off)


def llama_rows(result: dict[str, Any]) -> Iterator[Row]:
    times = result["milliseconds_a_step"]
    for peer in ("Hugging Face", "llama.cpp"):
        why = result["not run"].get(peer, "")
        off = unsteady_pair(result, "Transom", peer)
        yield Row("llama", "greedy, 1", peer, "ms a token", times["Transom"], times.get(peer), why, off)


def startup_rows(result: dict[str, Any]) -> Iterator[Row]:
    """Seconds until the library is ready to use, and what pip installs beyond torch."""
    times, brought = result["seconds"], result["brought"]
    packages = {
        "Hugging Face": "transformers",
        "TransformerLens": "transformer-lens",
        "nnsight": "nnsight",
        "BertViz": "bertviz",
        "captum": "captum",
    }
    for peer, package in packages.items():
        why = "" if peer in times else result.get("not run", {}).get(peer, "not installed")
        own, off = times["transom.watch at hand"], unsteady_pair(result, "transom.watch at hand", peer)
        yield Row("startup", "imported, ready to use", peer, "s", own, times.get(peer), why, off)
        for unit, key, scale in (("MiB on disk", "bytes", MiB), ("packages", "packages", 1)):
            theirs = brought[package][key] / scale if package in brought else None
            yield Row(
                "startup",
                "installed, beyond torch",
                peer,
                unit,
                brought["transom"][key] / scale,
                theirs,
                why,
            )


ROWS: dict[str, Callable[[dict[str, Any]], Iterator[Row]]] = {
    "attention": attention_rows,
    "flex": flex_rows,
    "kernel": kernel_rows,
    "watching": watching_rows,
    "pages": pages_rows,
    "training": training_rows,
    "generation": generation_rows,
    "llama": llama_rows,
    "startup": startup_rows,
}


def rows_of(question: str, result: dict[str, Any] | None) -> list[Row]:
    """The rows of a question; none if it has no peer or gave no answer."""
    return [] if result is None or question not in ROWS else list(ROWS[question](result))
