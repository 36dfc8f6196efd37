"""The page of a run in a notebook, two-way: what is chosen there is read in Python, and Python can choose."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Protocol
from uuid import uuid4

from transom.files.strict_settings import suggest
from transom.names import Misfit, check_index

KEEP: Any = object()  # leave this part of the selection as it is
NO_WIDGET = (
    "what is chosen on the page is known only with the package anywidget, but it is not installed;"
    " pip install 'transom[notebook]' and show it again"
)


class FramedPage(Protocol):
    """A page in one file that can be shown in a frame."""

    html: str

    def _repr_html_(self) -> str: ...


@dataclass(frozen=True)
class AttentionSize:
    """What can be chosen in one attention."""

    name: str
    heads: int
    queries: int
    keys: int


@dataclass(frozen=True)
class Selection:
    """What is chosen: an attention by its name, a head, a row and a key; None where nothing is."""

    attention: str
    head: int
    row: int | None = None
    key: int | None = None


class NotebookView:
    """A page that is shown in a notebook: `selection` is what is chosen there, `select` chooses.

    Without anywidget it is a frame that says nothing to Python.
    """

    def __init__(self, page: FramedPage, attentions: list[AttentionSize], first: Selection) -> None:
        self.page, self.attentions = page, attentions
        self.name = uuid4().hex  # by which the widget knows the frame
        self.widget = build_widget(self.name, to_chosen(first, attentions))

    @property
    def selection(self) -> Selection:
        """What is chosen on the page now."""
        chosen = self.require_widget().chosen
        return Selection(
            self.attentions[chosen["attention"]].name, chosen["head"], chosen.get("row"), chosen.get("key")
        )

    def select(
        self, attention: str = KEEP, head: int = KEEP, row: int | None = KEEP, key: int | None = KEEP
    ) -> Selection:
        """Choose on the page; what is not given stays, and rows and keys of another attention are let go."""
        widget, now = self.require_widget(), asdict(self.selection)
        if attention is not KEEP and attention != now["attention"]:
            now |= {"attention": attention, "head": 0, "row": None, "key": None}
        given = {"head": head, "row": row, "key": key}
        now |= {name: value for name, value in given.items() if value is not KEEP}
        widget.chosen = to_chosen(Selection(**now), self.attentions)
        return self.selection

    def on_select(self, callback: Callable[[Selection], object]) -> None:
        """Call a function with the selection whenever it changes."""
        self.require_widget().observe(lambda change: callback(self.selection), names="chosen")

    def require_widget(self) -> Any:
        if self.widget is None:
            raise Misfit(NO_WIDGET)
        return self.widget

    def __repr__(self) -> str:
        if self.widget is None:
            return "a frame; with pip install 'transom[notebook]', what is chosen in it can be read in Python"
        return (
            f"{self.selection}; view = trace.show() keeps it: view.selection is what is chosen, view.select() chooses"
        )

    def display(self) -> None:
        """Show it. The output is the page itself, so a notebook that is saved or exported keeps it."""
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        frame = f'<div data-transom-view="{self.name}">{self.page._repr_html_()}</div>'
        display({"text/plain": repr(self), "text/html": frame}, raw=True)


def to_chosen(selection: Selection, attentions: list[AttentionSize]) -> dict[str, int | None]:
    """The selection by numbers, as the page has it; an attention, head, row or key that is not there is an error."""
    names = [one.name for one in attentions]
    if selection.attention not in names:
        raise Misfit(f"there is no attention {selection.attention!r} here; {suggest(str(selection.attention), names)}")
    index = names.index(selection.attention)
    size = attentions[index]
    row = None if selection.row is None else check_index(selection.row, "queries", size.queries)
    key = None if selection.key is None else check_index(selection.key, "keys", size.keys)
    return {"attention": index, "head": check_index(selection.head, "heads", size.heads), "row": row, "key": key}


def build_widget(view: str, chosen: dict[str, int | None]) -> Any:
    """An anywidget that speaks with the page in the frame of that name; None if the package is not installed."""
    try:
        import anywidget  # pyright: ignore[reportMissingImports]
        import traitlets  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        return None

    class PageWidget(anywidget.AnyWidget):
        _esm = (files("transom.serve") / "notebook_widget.js").read_text(encoding="utf-8")
        view = traitlets.Unicode().tag(sync=True)
        chosen = traitlets.Dict().tag(sync=True)

    return PageWidget(view=view, chosen=chosen)
