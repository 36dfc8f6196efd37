"""Photographs every view of the local page in every state, at four widths, light and dark, to be looked at.

Beside the pictures stands `states.json`: in which of them the page scrolls sideways, and what axe-core finds where
`axe-playwright-python` is installed, contrast that it could not decide included. Exit code 1 if there is any of these.
Needs playwright and Chromium; `--model` is a language model of one's own, photographed as well.

    python docs/photograph_states.py FOLDER [--model FOLDER] [--only NAME] [--widths 390,1280] [--schemes dark]
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from page_camera import PATIENCE, WIDTHS, Photographer, photograph, serve

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FIRST, SECOND = "We are going home.", "We were at home yesterday."
LONGER = "The old man lives in the house near the river."
VIEWS = {
    "stage": ".stage-token",
    "see": "transom-arrows svg .arrow:not([display])",
    "walk": "td.cell",
    "map": "transom-map li button",
    "heads": "transom-heads table",
    "compare": ".two-models .stage-token",
}
LEVEL = ".stage-area[data-level='{}'] .level:only-child"
LESSONS = {
    "list": ("", ".lesson-list"),
    "first": ("lesson=1&screen=0", ".lesson-screen"),
    "question": ("lesson=1&screen=2", ".lesson-ask"),
    "change": ("lesson=1&screen=1", ".lesson-screen"),
    "motion": ("lesson=1&screen=7", ".lesson-screen"),
    "picture": ("lesson=7&screen=7", ".lesson-screen"),
    "editor": ("edit=1&screen=1", ".findings"),
}


def run_text(page: Any, text: str) -> str:
    """Run a text, and wait until its head is ranked; returns the number of the run."""
    number = "new URLSearchParams(location.hash.slice(1)).get('run')"
    before = page.evaluate(number)
    page.fill("#text", text)
    page.click("button[type=submit]")
    page.wait_for_function(f"before => {number} !== before", arg=before)
    run = page.evaluate(number)
    page.wait_for_function("run => fetch(`/api/runs/${run}/telling`).then((one) => one.ok)", arg=run)
    return run


def show_views(camera: Photographer, run: str, state: str, views: tuple[str, ...] = tuple(VIEWS)) -> None:
    for view in views:
        camera.go(f"view={view}&run={run}", VIEWS[view])
        camera.take(f"{view}-{state}")


def show_levels(camera: Photographer, run: str, place: str, state: str) -> None:
    for level in (2, 3, 4, 5):
        camera.go(f"view=stage&run={run}&{place}&level={level}", LEVEL.format(level))
        camera.take(f"level{level}-{state}")


def show_translator(camera: Photographer, runs: dict[str, str]) -> None:
    """The views of a sentence, and of a long text."""
    run, place = runs["short"], "attention=5&head=4&row=1&key=4"
    show_views(camera, run, "ready")
    show_levels(camera, run, place, "ready")
    camera.go(f"view=stage&run={run}&level=1&scene=1", "h2.scene")
    camera.take("story-ready")
    camera.go(f"view=see&run={run}&{place}", VIEWS["see"])
    camera.page.get_by_role("button", name="Knock it out", exact=True).click()
    camera.page.locator(".result table").wait_for()
    camera.take("see-chosen")
    camera.go(f"view=walk&run={run}&step=3", VIEWS["walk"])
    camera.page.locator("td.cell").first.click()
    camera.take("walk-cell")
    show_views(camera, runs["long"], "longer", ("stage", "see"))


def show_errors(camera: Photographer, run: str) -> None:
    """Bad input, a run under way, and a server that is gone."""
    page = camera.page
    camera.go(f"view=stage&run={run}&level=1", VIEWS["stage"])
    page.fill("#text", "")
    page.click("button[type=submit]")
    page.locator("#error:not([hidden])").wait_for()
    camera.take("stage-badinput")
    page.fill("#text", "This one waits.")
    page.route(re.compile("/api/writing$"), lambda route: None)
    page.click("button[type=submit]")
    camera.take("stage-writing")
    page.unroute_all()
    held = re.compile(
        "/api/runs/.*/(thumbnails|mean_weights|influence|picture|heads|weights|strongest|tile|overview|row|ranking|beside)"
    )
    page.route(held, lambda route: None)
    page.reload()
    for view in VIEWS:
        page.click(f"#tab-{view}")
        camera.take(f"{view}-waiting")
    page.unroute_all()
    page.click("#tab-stage")
    page.reload()
    page.locator(VIEWS["stage"]).first.wait_for()
    page.route("**/api/**", lambda route: route.abort())
    for view in (*VIEWS, "learn"):
        page.click(f"#tab-{view}")
        camera.take(f"{view}-gone")
    page.click("#tab-stage")
    page.fill("#text", "Is anybody there?")
    page.click("button[type=submit]")
    camera.take("stage-gone-run")
    page.unroute_all()


def show_lessons(camera: Photographer) -> None:
    for name, (fields, selector) in LESSONS.items():
        if fields:
            camera.go(f"view=learn&{fields}", selector)
        else:
            camera.page.get_by_role("button", name="All lessons").click()
            camera.page.locator(selector).wait_for()
        camera.take(f"lesson-{name}")
    camera.page.locator("textarea").last.fill('title = "x"\ntokens = ["a"\nembeddings = 3')
    camera.page.locator(".editor-bad").first.wait_for()
    camera.take("lesson-badinput")


def scenes_of_translator(browser: Any, options: argparse.Namespace, sizes: list[tuple[int, str]]) -> dict[str, Any]:
    """The embedded translator: a sentence and a longer text; then the run as a page in one file."""
    with serve() as address:
        runs = prepare_runs(browser, address)
        found = photograph(browser, address, options, sizes, lambda camera: show_translator(camera, runs))
        page = browser.new_page()
        page.goto(address)
        copy = options.folder / "copy.html"
        path = f"/api/runs/{runs['short']}/page?attention=5&head=4"
        copy.write_text(page.evaluate("path => fetch(path).then((one) => one.text())", path), encoding="utf-8")
        page.close()
    copied = [view for view in VIEWS if view != "compare"]

    def show_copy(camera: Photographer) -> None:
        for view in copied:
            camera.page.click(f"#tab-{view}")
            camera.page.locator(VIEWS[view]).first.wait_for()
            camera.take(f"{view}-offline")

    return found | photograph(browser, copy.resolve().as_uri(), options, sizes, show_copy)


def scenes_of_errors(browser: Any, options: argparse.Namespace, sizes: list[tuple[int, str]]) -> dict[str, Any]:
    with serve() as address:
        return photograph(browser, address, options, sizes, lambda camera: show_errors(camera, "1"))


def prepare_runs(browser: Any, address: str) -> dict[str, str]:
    """A long text and two sentences, on one server for all sizes."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.locator(VIEWS["stage"]).first.wait_for()
    found = {"long": run_text(page, " ".join([LONGER] * 20)), "other": run_text(page, SECOND)}
    found["short"] = run_text(page, FIRST)
    page.close()
    return found


def scenes_of_lessons(browser: Any, options: argparse.Namespace, sizes: list[tuple[int, str]]) -> dict[str, Any]:
    from transom.lessons.lesson_file import shipped_paths

    with serve(str(shipped_paths()[0])) as address:
        return photograph(browser, address, options, sizes, show_lessons)


def scenes_of_training(browser: Any, options: argparse.Namespace, sizes: list[tuple[int, str]]) -> dict[str, Any]:
    """A replay of a training, of random weights."""
    import torch

    from transom.lens.replay import Replay

    replay = Replay([["<s>", "The", "cat", "sat"]], None, {"layer.0": [0, 1]})
    for update in range(0, 500, 50):
        torch.manual_seed(update)
        replay.add(update, {"layer.0": torch.rand(2, 4, 4).softmax(dim=-1)})
        replay.losses.add(update, 3.0 / (1 + update / 100))

    def show(camera: Photographer) -> None:
        camera.page.wait_for_selector("td.cell")
        camera.take("training-ready")
        camera.page.click("#tab-stage")
        camera.take("stage-empty")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replay.safetensors"
        replay.save(path)
        with serve(str(path)) as address:
            return photograph(browser, address, options, sizes, show)


def show_long(camera: Photographer, run: str, place: str, state: str) -> None:
    """A text of more than 1,000 tokens in every view, whether it has what the view shows or says what is missing."""
    show_views(camera, run, state, ("stage", "see", "map", "heads"))
    camera.go(f"view=walk&run={run}", "transom-steps *")
    camera.take(f"walk-{state}")
    show_levels(camera, run, place, state)


def scenes_of_trace(browser: Any, options: argparse.Namespace, sizes: list[tuple[int, str]]) -> dict[str, Any]:
    """A trace of a long text, of random numbers: there is no model behind it."""
    import torch

    import transom

    torch.manual_seed(0)
    tokens = (LONGER.split() * 120)[:1200]
    trace = transom.Trace([f" {token}" for token in tokens])
    for layer in range(3):
        Q, K, V = (torch.randn(1, 4, len(tokens), 16) for _ in range(3))
        trace.add(f"layers.{layer}.attention", transom.sight(Q, K, V, causal=True))
    place = "attention=2&head=1&row=900&key=4"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.safetensors"
        trace.save(path)
        with serve(str(path)) as address:
            return photograph(browser, address, options, sizes, lambda camera: show_long(camera, "1", place, "trace"))


def scenes_of_model(browser: Any, options: argparse.Namespace, sizes: list[tuple[int, str]]) -> dict[str, Any]:
    """A language model of the reader's own."""
    if options.model is None:
        return {}

    def show(camera: Photographer) -> None:
        camera.page.locator(VIEWS["stage"]).first.wait_for()
        run = camera.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('run')")
        camera.go(f"view=compare&run={run}", "transom-compare .hint")
        camera.take("compare-empty")
        show_views(camera, run, "model", ("stage", "see", "map", "heads"))
        place = "attention=3&head=2&row=3&key=1"
        show_levels(camera, run, place, "model")
        show_long(camera, run_text(camera.page, " ".join([LONGER] * 101)), place, "long")

    with serve("--model", options.model) as address:
        return photograph(browser, address, options, sizes, show)


SCENES = {
    "translator": scenes_of_translator,
    "errors": scenes_of_errors,
    "lessons": scenes_of_lessons,
    "training": scenes_of_training,
    "trace": scenes_of_trace,
    "model": scenes_of_model,
}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the pictures go; best outside the repository")
    parser.add_argument("--model", help="a language model's folder")
    parser.add_argument("--only", choices=SCENES)
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--schemes", default="light,dark")
    parser.add_argument("--quick", action="store_true", help="without axe-core, which takes most of the time")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        sys.exit("photographs of the page need Chromium, but there is none; install it")
    options.folder.mkdir(parents=True, exist_ok=True)
    sizes = [(int(width), scheme) for width in options.widths.split(",") for scheme in options.schemes.split(",")]
    found: dict[str, Any] = {}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, scenes in SCENES.items():
            if options.only in (None, name):
                found |= scenes(browser, options, sizes)
        browser.close()
    (options.folder / "states.json").write_text(json.dumps(found, indent=2, ensure_ascii=False), encoding="utf-8")
    print(json.dumps({name: list(problems) for name, problems in found.items()}, indent=2))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
