"""Pictures: a Sight, a Trace or a lesson → a Picture → terminal text, SVG, HTML, JSON, Mermaid, DOT, PDF, PNG."""

from transom.show.picture import Picture, Source, Table
from transom.show.views import VIEWS, draw

__all__ = ["VIEWS", "Picture", "Source", "Table", "draw"]
