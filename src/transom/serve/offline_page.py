"""The page as one HTML file that works without a server."""

import base64
import gzip
import json
import posixpath
import re
import tempfile
import webbrowser
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.files.atomic_files import write_file
from transom.files.terminal import escape_controls
from transom.names import Misfit
from transom.serve.notebook_view import AttentionSize, NotebookView, Selection
from transom.serve.offline_answers import HeadIndex, OfflineAnswers
from transom.serve.session import Session
from transom.serve.worker import Job
from transom.show.formatting import make_visible
from transom.show.html_page import csp_hash

if TYPE_CHECKING:
    from transom.lens import Trace
    from transom.serve.session import SessionRun

IMPORT = re.compile(r'^import (?:\{\s(?P<names>[^}]+)\s\} from )?"(?P<file>\.{1,2}/[\w/]+)\.js";\n', re.MULTILINE)
LATER = re.compile(r'\(\) => import\("(?P<file>\.{1,2}/[\w/]+)\.js"\)')  # a module that is loaded when it is needed
NEEDS_SERVER = {"lessons/lessons", "stage/compare_view", "training_replay"}  # views that an offline page does not have
EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function) (?P<name>\w+))", re.MULTILINE)
STYLE = re.compile(r' *<link rel="stylesheet" href="(?P<file>[\w/]+\.css)">\n')
FIRST = "app"
HEIGHT = 760  # pixels of the frame in a notebook


def build_html(answers: str, title: str) -> str:
    """A page that loads nothing; `answers` are the responses it needs, in base64."""
    page = read_static("index.html")
    script, style = bundle_scripts(), "".join(read_static(match["file"]) for match in STYLE.finditer(page))
    icon = f"data:image/svg+xml;base64,{base64.b64encode(read_static('icon.svg').encode()).decode()}"
    policy = f"default-src 'none'; script-src {csp_hash(script)}; style-src {csp_hash(style)}; img-src data:"
    replacements = {
        '<meta charset="utf-8">': '<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="'
        f"{policy}; base-uri 'none'; form-action 'none'\">",
        "</head>": f"<style>{style}</style>\n</head>",
        '<script type="module" src="app.js"></script>\n': "",
        "<title>Transom: a window into self-attention</title>": f"<title>{title}</title>",
        "</body>": f'<script type="application/octet-stream" id="offline-answers">{answers}</script>\n'
        f"<script>{script}</script>\n</body>",
    }
    page = STYLE.sub("", page).replace("icon.svg", icon)
    for before, after in replacements.items():
        assert page.count(before) == 1, before
        page = page.replace(before, after)
    return page


def read_static(name: str) -> str:
    return (files("transom.serve") / "static" / name).read_text(encoding="utf-8")


def bundle_scripts() -> str:
    """All modules as one script: each is a function that is called once, after those it imports, and returns its
    exports."""
    modules: dict[str, str] = {}
    add_module(FIRST, modules, ())
    return escape_non_ascii("\n".join(["(() => {", '"use strict";', *modules.values(), "})();"]))


def escape_non_ascii(script: str) -> str:
    """Escape characters beyond ASCII, so that the script's hash holds even if a notebook mistakes the encoding."""
    return re.sub(r"[^\x00-\x7f]", lambda match: json.dumps(match[0])[1:-1], script)


def add_module(name: str, modules: dict[str, str], importers: tuple[str, ...]) -> None:
    """Add a module after all that it imports."""
    if name in importers:
        raise Misfit(f"modules import each other in a circle: {' → '.join([*importers, name])}; move what they share")
    if name in modules:
        return
    source = read_static(f"{name}.js")
    for match in IMPORT.finditer(source):
        add_module(resolve_import(name, match["file"]), modules, (*importers, name))
    later = [resolve_import(name, match["file"]) for match in LATER.finditer(source)]
    for module in later:
        if module not in NEEDS_SERVER:
            add_module(module, modules, (*importers, name))
    exported = ", ".join(match["name"] for match in EXPORT.finditer(source))
    source = LATER.sub("() => {}", source)  # it is there already
    body = EXPORT.sub("", IMPORT.sub(lambda match: import_as_constant(name, match), source))
    modules[name] = f"const {constant_name(name)} = (() => {{\n{body}return {{ {exported} }};\n}})();"


def resolve_import(importer: str, file: str) -> str:
    """The module that `importer` calls `file`, as a path from the folder of all of them."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), file))


def constant_name(module: str) -> str:
    return f"in_{module.replace('/', '_')}"


def import_as_constant(importer: str, match: re.Match[str]) -> str:
    """`import { a as b }` as constants from the exports of that module."""
    names, module = match["names"], resolve_import(importer, match["file"])
    return "" if names is None else f"const {{ {names.replace(' as ', ': ')} }} = {constant_name(module)};\n"


class OfflinePage:
    """The page of one run in one file; a notebook shows it in a frame."""

    def __init__(
        self, html: str, attentions: list[AttentionSize] | None = None, first: HeadIndex | None = None
    ) -> None:
        self.html, self.attentions, self.first = html, attentions or [], first

    def save(self, path: str | Path) -> Path:
        write_file(Path(path), self.html.encode())
        return Path(path)

    def show(self) -> None:
        """Open it in a browser, from a temporary file; the path is printed."""
        folder = Path(tempfile.mkdtemp(prefix="transom-"))
        path = self.save(folder / "page.html")
        print(escape_controls(f"the page is in {path}"))
        webbrowser.open(path.as_uri())

    def show_in_notebook(self) -> NotebookView:
        """Show it in a notebook; the view that comes back knows what is chosen, if anywidget is installed."""
        first = self.first or HeadIndex(0, 0)
        view = NotebookView(self, self.attentions, Selection(self.attentions[first.attention].name, first.head))
        view.display()
        return view

    def __repr__(self) -> str:
        return f"Page({len(self.html):,} characters: save it, show it in a browser, or look at it in a notebook)"

    def _repr_html_(self) -> str:
        """The page in a frame that may run its own script, but cannot reach the notebook."""
        frame = f'width="100%" height="{HEIGHT}" style="border:0" title="The attention of one run"'
        return f'<iframe sandbox="allow-scripts" {frame} srcdoc="{escape(self.html)}"></iframe>'


def page_of(trace: "Trace", name: str = "") -> OfflinePage:
    """The page of a watched run; it has no model, so no edge can be knocked out."""
    if not trace.entries:
        raise Misfit("this Trace has no attention to show; run the model inside `with transom.watch(model)` first")
    stitched = trace.stitched() if len(trace.names) < len(trace) else trace
    session = Session(trace=stitched, name=name or "the model")
    return build_page(session, session.run("1"))


def build_page(
    session: Session, run: "SessionRun", chosen: HeadIndex | None = None, job: Job | None = None
) -> OfflinePage:
    """The page of a run with one head open; by default the one that is ranked first."""
    answers = OfflineAnswers(session, run, job or Job(lambda job: None), chosen)
    sizes = [AttentionSize(name, *sight.shape[1:]) for name, sight in run.trace.entries]
    return OfflinePage(page_of_answers(answers.to_dict(), session.run_title(run)), sizes, answers.chosen)


def page_of_answers(answers: dict[str, Any], name: str) -> str:
    """The page around answers that were computed before, with the name of its model."""
    packed = base64.b64encode(gzip.compress(json.dumps(answers).encode(), mtime=0)).decode()
    return build_html(packed, f"Transom: {escape(make_visible(name))}")
