"""A run to take away: the page with every answer in it that it asks for. It needs no server, and it asks none."""

import base64
import gzip
import json
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from transom.files.durable import write_file
from transom.files.terminal import escape_controls
from transom.names import Misfit
from transom.serve.one_file import one_file
from transom.serve.record import Head, Record
from transom.serve.studio import Studio
from transom.serve.work import Job
from transom.show.visible import visible

if TYPE_CHECKING:
    from transom.lens import Trace
    from transom.serve.studio import Run

TALL = 760  # pixels of a notebook


class Page:
    """The page of one run in one file; a notebook shows it in a frame."""

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: str | Path) -> Path:
        write_file(Path(path), self.html.encode())
        return Path(path)

    def show(self) -> None:
        """In a browser, from a file of its own that stays until this machine tidies up; its path is printed."""
        folder = Path(tempfile.mkdtemp(prefix="transom-"))
        path = self.save(folder / "page.html")
        print(escape_controls(f"the page is in {path}"))
        webbrowser.open(path.as_uri())

    def __repr__(self) -> str:
        return f"Page({len(self.html):,} letters: save it, show it in a browser, or look at it in a notebook)"

    def _repr_html_(self) -> str:
        """In a frame that may run its own script, and reach nothing of the notebook."""
        frame = f'width="100%" height="{TALL}" style="border:0" title="The attention of one run"'
        return f'<iframe sandbox="allow-scripts" {frame} srcdoc="{escape(self.html)}"></iframe>'


def page_of(trace: "Trace", name: str = "") -> Page:
    """The page of a watched run; there is no model in it, so nothing in it can be knocked out."""
    if not trace.seen:
        raise Misfit(
            "this Trace has no attention to look at; run the model inside `with transom.watch(model)`, and then ask"
        )
    whole = trace.stitched() if len(trace.names) < len(trace) else trace
    studio = Studio(trace=whole, name=name or "the model")
    return page(studio, studio.run("1"))


def page(studio: Studio, run: "Run", chosen: Head | None = None, job: Job | None = None) -> Page:
    """The page of a run as it is seen with one head open; unless one is chosen, the most telling."""
    record = Record(studio, run, job or Job(lambda job: None), chosen)
    packed = base64.b64encode(gzip.compress(json.dumps(record.told()).encode(), mtime=0)).decode()
    return Page(one_file(packed, f"Transom: {escape(visible(studio.titled(run)))}"))
