"""One contender of `bench pages`, in a process of its own: one layer's attention, from the text to the page.

    python -m bench.peers.page_contender '"BertViz"' '{"tokens": 512, "heads": 12, "d_model": 768, "threads": 2}'

prints one JSON object: the seconds to get the attention and to draw the page, the bytes of the files, and the peak
memory. It imports nothing that BertViz's interpreter lacks.
"""

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.peers.contender_loop import read_status_bytes, reset_peak_memory
from bench.peers.watching_contender import build_gpt2, random_tokens


def draw_with_bertviz(sizes: dict[str, Any], folder: Path) -> dict[str, float]:
    """BertViz's head view: a page that holds every weight of every head as text."""
    from bertviz import head_view  # pyright: ignore[reportMissingImports]

    model, tokens = build_gpt2(sizes, "eager"), random_tokens(sizes)
    before, begun = reset_peak_memory(), time.perf_counter()
    weights = model(tokens, output_attentions=True).attentions
    seen = time.perf_counter()
    page = head_view(weights, token_names(tokens), html_action="return").data
    (folder / "page.html").write_text(page)
    return to_figures(before, begun, seen, {"page": folder / "page.html"})


def draw_with_transom(sizes: dict[str, Any], folder: Path) -> dict[str, float]:
    """A trace, which can give any weight; a page with a map of each head; a page with the map of one head."""
    import transom
    from transom.show import draw

    model, tokens = build_gpt2(sizes, "sdpa"), random_tokens(sizes)
    before, begun = reset_peak_memory(), time.perf_counter()
    with transom.watch(model, tokens=token_names(tokens)) as trace:
        model(tokens)
    seen = time.perf_counter()
    draw("heads", trace).save(folder / "heads.html")
    draw("matrix", trace, head=0).save(folder / "matrix.html")
    found = to_figures(before, begun, seen, {"page": folder / "heads.html", "one_head": folder / "matrix.html"})
    trace.save(folder / "trace.safetensors")
    return {**found, "trace_bytes": (folder / "trace.safetensors").stat().st_size}


def token_names(tokens: torch.Tensor) -> list[str]:
    return [f"t{token}" for token in tokens[0].tolist()]


def to_figures(before: int, begun: float, seen: float, files: dict[str, Path]) -> dict[str, float]:
    return {
        "seen_seconds": seen - begun,
        "drawn_seconds": time.perf_counter() - seen,
        **{f"{name}_bytes": file.stat().st_size for name, file in files.items()},
        "peak": read_status_bytes("VmHWM") - before,
    }


CONTENDERS = {"BertViz": draw_with_bertviz, "Transom": draw_with_transom}


def main(contender: str, sizes: dict[str, Any]) -> None:
    torch.set_num_threads(sizes["threads"])
    with torch.no_grad(), TemporaryDirectory() as folder:
        print(json.dumps(CONTENDERS[contender]({**sizes, "layers": 1}, Path(folder))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
