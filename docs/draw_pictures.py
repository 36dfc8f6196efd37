"""Draws docs/pictures again, from the lessons and the translator that come with Transom: `make screenshots`."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import transom
from transom.lessons.lesson_file import load_shipped
from transom.models import PRESETS
from transom.runner import load_text_model
from transom.show import Picture, draw

FOLDER = Path(__file__).parent / "pictures"
SENTENCE = "We are going home."
LAYER, HEAD = "decoder.blocks.2.cross", 0
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def watch_translation() -> tuple[Any, Any, transom.Trace]:
    """The translator, its input, and the trace of all its attention while it translated."""
    found = load_text_model()
    encoded = found.encode_text(SENTENCE)
    with transom.watch(found.model, tokens=encoded.tokens) as trace:
        found.run(encoded)
    trace.targets = [*encoded.targets, encoded.written[-1]]
    return found, encoded, trace


def draw_arrows() -> Picture:
    """The strongest arrow of each word, with the change of the output without it."""
    found, encoded, trace = watch_translation()
    effects = {}
    for row, key in enumerate(trace[LAYER].weights(batch=0, head=HEAD).argmax(dim=-1).tolist()):
        table = transom.effect(
            found.model, encoded.inputs, edges=[(LAYER, HEAD, row, key)], output=lambda logits, row=row: logits[:, row]
        )
        effects[row, key] = table.rows[0].kl or 0.0
    return draw("arrows", trace, layer=LAYER, head=HEAD, model="en-fr", effect=effects, predicted=True)


# Each picture by its file: how it is drawn, and whether it is the same on every machine.
PICTURES: dict[str, tuple[Callable[[], Picture], bool]] = {
    "steps.svg": (lambda: draw("steps", load_shipped("three-tokens")), True),
    "sequence.svg": (lambda: draw("sequence", load_shipped("three-tokens"), rows=0), True),
    "fold.svg": (lambda: draw("fold", load_shipped("many-heads")), True),
    "architecture.svg": (lambda: draw("architecture", PRESETS["base"](37_000)), True),
    "vectors.svg": (lambda: draw("vectors", load_shipped("blue-cute-creature")), True),
    "matrix.svg": (
        lambda: draw("matrix", watch_translation()[2], layer=LAYER, head=HEAD, model="en-fr", predicted=True),
        False,
    ),
    "arrows.svg": (draw_arrows, False),
    "heads.svg": (lambda: draw("heads", watch_translation()[2], model="en-fr"), False),
}


def photograph_lesson(path: Path) -> None:
    """The page of the first lesson's steps, with one cell open, as Chromium shows it."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        sys.exit(f"{path.name} needs Chromium, but there is none; install it, or leave that picture as it is")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        page_file = draw("steps", load_shipped("three-tokens"), only=["Q", "K", "scores", "weights"]).save(
            Path(folder) / "page.html"
        )
        browser = play.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 900, "height": 620})
        page.goto(page_file.as_uri())
        page.get_by_role("button", name="from sat, at cat").last.click()
        page.screenshot(path=path)
        browser.close()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (draw_picture, _) in PICTURES.items():
        print(draw_picture().save(FOLDER / name))
    photograph_lesson(FOLDER / "page.png")
    print(FOLDER / "page.png")


if __name__ == "__main__":
    main()
