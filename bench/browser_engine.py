"""Does the translator in a browser write what Python's writes, how long does it take, and how much is loaded?

The site is built and served from a plain web host, and Chromium opens its playground. Then each sentence is translated
there, by beam search and greedily, and by Python. Exit code 1 if fewer than 99 % of the sentences have the same
tokens, a weight differs by more than 1e-4, or more is loaded than the site promises. The time of a sentence of ten
words is printed, and judged by the reader: it depends on the machine. Needs playwright and Chromium.

    python -m bench.browser_engine
    python -m bench.browser_engine --texts sentences.tsv --count 500
"""

import argparse
import functools
import gzip
import http.server
import json
import random
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

RECIPE = Path(__file__).parents[1] / "recipes" / "en-fr"
TEN_WORDS = "We would like a table for two by the window."
ROUNDS = 11
SAME, CLOSE = 0.99, 1e-4
BEFORE_MODEL, WITH_MODEL = 400_000, 15_000_000  # bytes
LOAD = """async (folder) => {
    const { FILES, Translator } = await import(new URL("engine/translator.js", document.baseURI).href);
    const { EngineSession } = await import(new URL("engine/engine_session.js", document.baseURI).href);
    const read = async (name) => [name, await (await fetch(new URL(`model/${name}`, document.baseURI))).arrayBuffer()];
    const files = Object.fromEntries(await Promise.all(FILES.map(read)));
    window.translator = new Translator(files, "the embedded translator");
    window.session = new EngineSession(window.translator); }"""
TRANSLATE = """(text) => { const source = translator.encode(text);
    return { source, beams: translator.translate(text).ids, greedy: translator.findTarget(source, null) }; }"""
WEIGHTS = "(text) => session.runText({ text }).attentions.map((one) => one.weights.map((head) => Array.from(head)))"
SECONDS = """(text) => { const start = performance.now(); translator.translate(text);
    const middle = performance.now(); session.runText({ text });
    return [(middle - start) / 1000, (performance.now() - middle) / 1000]; }"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def web_host(folder: Path) -> Iterator[str]:
    """The address of a folder, served until the block ends."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def read_sentences(path: Path | None, count: int) -> list[str]:
    """The first column of some lines, drawn with a seed; by default of the recipe's everyday sentences."""
    paths = sorted(RECIPE.glob("everyday-*.tsv")) if path is None else [path]
    lines: list[str] = []
    for file in paths:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        lines += [line.split("\t")[0] for line in data.decode().splitlines() if line.strip() and line[0] != "#"]
    distinct = sorted(set(lines))
    return random.Random(0).sample(distinct, min(count, len(distinct)))


def python_answers(model: Any, text: str) -> dict[str, list[int]]:
    ids = model.encode_fitting(text)
    longest = min(model.longest, 2 * len(ids) + 10)
    beams = model.model.generate([ids], num_beams=4, max_length=longest)[0].tolist()[1:]
    return {"source": ids, "beams": beams, "greedy": model.generate_ids(ids, max_length=longest)[1:]}


def largest_difference(page: Any, model: Any, texts: list[str]) -> float:
    """The largest difference of any weight of these sentences."""
    from transom.runner.watched_run import encode_and_continue, watch_run

    worst = 0.0
    for text in texts:
        trace, _ = watch_run(encode_and_continue(model, text))
        for (_, sight), heads in zip(trace.entries, page.evaluate(WEIGHTS, text), strict=True):
            expected = sight.require_full().weights(batch=0).flatten(1)
            worst = max(worst, float((expected - expected.new_tensor(heads)).abs().max()))
    return worst


def measure(page: Any, texts: list[str]) -> dict[str, Any]:
    from transom.runner import load

    model = load()
    page.evaluate(LOAD)
    same = sum(page.evaluate(TRANSLATE, text) == python_answers(model, text) for text in texts)
    seconds = [page.evaluate(SECONDS, TEN_WORDS) for _ in range(ROUNDS)]
    return {
        "sentences": len(texts),
        "same tokens": same,
        "largest difference of a weight": largest_difference(page, model, texts[:20]),
        "seconds, beam search": median(pair[0] for pair in seconds),
        "seconds, a watched run": median(pair[1] for pair in seconds),
    }


def measure_site(texts: list[str]) -> dict[str, Any]:
    """All numbers, in Chromium on the site."""
    from playwright.sync_api import sync_playwright

    from transom.serve.site import build_site

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        build_site(Path(folder) / "site")
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        with web_host(Path(folder) / "site") as root:
            page = browser.new_context(service_workers="block").new_page()
            page.on("response", lambda response: sizes.__setitem__(response.url, len(response.body())))
            page.goto(f"{root}try/index.html")
            page.wait_for_selector(".output:not(:empty)", timeout=120_000)
            loaded = dict(sizes)
            found = measure(page, texts)
            browser.close()
    model = sum(size for url, size in loaded.items() if "/model/" in url)
    return {**found, "bytes before the model": sum(loaded.values()) - model, "bytes with it": sum(loaded.values())}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=Path, help="a file with a sentence per line, or in the first column (.gz too)")
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    found = measure_site(read_sentences(options.texts, options.count))
    print(json.dumps(found, indent=2))
    holds = (
        found["same tokens"] >= SAME * found["sentences"]
        and found["largest difference of a weight"] <= CLOSE
        and found["bytes before the model"] <= BEFORE_MODEL
        and found["bytes with it"] <= WITH_MODEL
    )
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
