"""Records the runs of real models that come with Transom, for the gallery of its site.

    python docs/record_gallery.py --smollm2 FOLDER --minilm FOLDER --digits out/digits/model

Each option is a folder with a model; a recording whose option is left out stays as it is. The digits are learned by
`recipes/digits.toml`, in about two minutes; the picture that is recorded is not among those it learned from.
"""

import argparse
import random
import runpy
import sys
import time
from pathlib import Path

from transom.serve.recorded_runs import RecordedRun, record_run

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "transom" / "serve" / "recordings"
PICTURE_SEED, DIGIT = 2, "5"


def draw_picture() -> str:
    """A picture of a digit from another seed than the recipe's."""
    drawing = runpy.run_path(str(ROOT / "recipes" / "digits" / "draw_digits.py"))
    return drawing["picture_as_text"](drawing["draw_digit"](DIGIT, random.Random(PICTURE_SEED)))


def gallery(options: argparse.Namespace) -> dict[str, RecordedRun | None]:
    """The runs by the names of their files; None for a model that was not given."""
    runs = {
        "1-smollm2": (
            "SmolLM2-135M-Instruct",
            options.smollm2,
            "The keys to the old cabinet",
            "A decoder with 30 layers of 9 heads goes on writing after the text.",
        ),
        "2-minilm": (
            "all-MiniLM-L6-v2",
            options.minilm,
            "The bank by the river was closed.",
            "An encoder with 6 layers of 12 heads, which turns sentences into vectors for search.",
        ),
        "3-digits": (
            "Digits, a small vision model",
            options.digits,
            draw_picture(),
            "Trained by recipes/digits.toml: it reads a picture as 32 patches of 4 × 2 pixels, each shown as a Braille"
            " character with the same dots (a white one as ·), and says which digit it is.",
        ),
    }
    return {
        name: RecordedRun(title, model, text, "Apache-2.0", about) if model else None
        for name, (title, model, text, about) in runs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("smollm2", "minilm", "digits"):
        parser.add_argument(f"--{name}", metavar="FOLDER")
    FOLDER.mkdir(exist_ok=True)
    for name, run in gallery(parser.parse_args()).items():
        if run is None:
            continue
        begun, path = time.process_time(), FOLDER / f"{name}.json.xz"
        record_run(run).save(path)
        print(
            f"{path.name}: {path.stat().st_size / 1e6:.2f} MB in {time.process_time() - begun:.0f} s of processor time",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
