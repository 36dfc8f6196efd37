"""Pictures: a Sight, a Trace or a lesson → a Picture → terminal text, SVG, HTML, JSON, Mermaid, DOT, PDF, PNG."""

from transom.show.drawing import VIEWS, draw
from transom.show.picture import Picture, Source, Table

__all__ = ["VIEWS", "Picture", "Source", "Table", "draw"]
