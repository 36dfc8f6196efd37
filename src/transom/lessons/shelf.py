"""The lessons that come with Transom: a numbered path, each a TOML file of its own."""

from functools import lru_cache
from pathlib import Path

from transom.files.strict import nearest
from transom.lessons.lesson import Lesson
from transom.lessons.reading import read
from transom.names import Misfit

SHELF = Path(__file__).parent / "shipped"


def paths() -> list[Path]:
    """The files in the order of the path: by the number in front of each name."""
    return sorted(SHELF.glob("[0-9][0-9]-*.toml"))


@lru_cache(maxsize=64)
def shipped(which: int | str) -> Lesson:
    """A lesson by its number, from 1, or by its name: `three-tokens`."""
    files = {path.stem[3:]: path for path in paths()}
    if isinstance(which, str) and not which.isdigit():
        if which not in files:
            raise Misfit(f"there is no lesson {which!r}; {nearest(which, files)}")
        return read(files[which])
    number = int(which)
    if not 1 <= number <= len(files):
        raise Misfit(f"there are lessons 1 to {len(files)}, but {number} came; transom learn lists them")
    return read(list(files.values())[number - 1])
