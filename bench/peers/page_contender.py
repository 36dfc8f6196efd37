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

from bench.peers.contender_loop import resident, set_back
from bench.peers.watching_contender import gpt2, text


def bertviz(sizes: dict[str, Any], folder: Path) -> dict[str, float]:
    """The head view: every weight of every head, as text, in a page that draws them."""
    from bertviz import head_view  # pyright: ignore[reportMissingImports]

    model, tokens = gpt2(sizes, "eager"), text(sizes)
    before, begun = set_back(), time.perf_counter()
    weights = model(tokens, output_attentions=True).attentions
    seen = time.perf_counter()
    page = head_view(weights, named(tokens), html_action="return").data
    (folder / "page.html").write_text(page)
    return told(before, begun, seen, {"page": folder / "page.html"})


def transom(sizes: dict[str, Any], folder: Path) -> dict[str, float]:
    """A trace, from which any weight can be had; a page with a map of each head, and one with that of a single head."""
    import transom
    from transom.show import draw

    model, tokens = gpt2(sizes, "sdpa"), text(sizes)
    before, begun = set_back(), time.perf_counter()
    with transom.watch(model, tokens=named(tokens)) as trace:
        model(tokens)
    seen = time.perf_counter()
    draw("heads", trace).save(folder / "heads.html")
    draw("matrix", trace, head=0).save(folder / "matrix.html")
    found = told(before, begun, seen, {"page": folder / "heads.html", "one_head": folder / "matrix.html"})
    trace.save(folder / "trace.safetensors")
    return {**found, "trace_bytes": (folder / "trace.safetensors").stat().st_size}


def named(tokens: torch.Tensor) -> list[str]:
    return [f"t{token}" for token in tokens[0].tolist()]


def told(before: int, begun: float, seen: float, files: dict[str, Path]) -> dict[str, float]:
    return {
        "seen_seconds": seen - begun,
        "drawn_seconds": time.perf_counter() - seen,
        **{f"{name}_bytes": file.stat().st_size for name, file in files.items()},
        "peak": resident("VmHWM") - before,
    }


CONTENDERS = {"BertViz": bertviz, "Transom": transom}


def main(contender: str, sizes: dict[str, Any]) -> None:
    torch.set_num_threads(sizes["threads"])
    with torch.no_grad(), TemporaryDirectory() as folder:
        print(json.dumps(CONTENDERS[contender]({**sizes, "layers": 1}, Path(folder))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
