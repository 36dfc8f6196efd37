"""The log of a run: one JSON object a line, in order, also after a run was stopped and went on."""

import json
from pathlib import Path
from typing import Any

from transom.files.documents import Malformed, decode_distinct_json
from transom.files.outside import raw_lines


class Journal:
    """Lines of a run, each with its update. Going on from update n forgets what an earlier try wrote after n."""

    def __init__(self, path: Path, resumed_at: int) -> None:
        kept = [line for line in read(path) if line["update"] <= resumed_at] if path.exists() else []
        # Written anew and renamed: a kill in between leaves the old log whole.
        partial = path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        partial.replace(path)
        self.file = path.open("a", encoding="utf-8")

    def write(self, update: int, **what: Any) -> None:
        self.file.write(json.dumps({"update": update, **what}) + "\n")
        self.file.flush()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *raised: object) -> None:
        self.file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a log; the last one may have been cut by a kill."""
    found = []
    for _, line in raw_lines(path):
        try:
            found.append(decode_distinct_json(line, number=float))  # a loss may be NaN
        except Malformed:
            break
    return [line for line in found if isinstance(line, dict) and isinstance(line.get("update"), int)]
