"""Runs of real models for the gallery of a site: recorded once, as pages in one file each."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from transom.names import Misfit

if TYPE_CHECKING:
    from transom.serve.offline_page import OfflinePage

NEW_TOKENS = 12  # that a decoder writes after its text
RECORD = re.compile(r"(?P<name>[^=]{1,80})=(?P<model>[^:]+):(?P<text>.+)", re.DOTALL)


@dataclass(frozen=True)
class RecordedRun:
    """A text through a model, with the name that visitors read and the licence of the model."""

    name: str
    model: str  # a folder, or a local Hugging Face id
    text: str
    licence: str

    @property
    def slug(self) -> str:
        """The name as a part of a file's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "run"


def parse_record(given: str, licences: dict[str, str]) -> RecordedRun:
    """A run as it is written on a command line, NAME=FOLDER:TEXT; its licence must be given by its name."""
    match = RECORD.fullmatch(given)
    if match is None:
        raise Misfit(f"a recorded run is NAME=FOLDER:TEXT, but got {given!r:.80}; write Name=path/to/model:A text.")
    name = match["name"].strip()
    if name not in licences:
        raise Misfit(f"the site names the licence of every model, but {name!r} has none; add --licence {name!r}=…")
    return RecordedRun(name, match["model"], match["text"].strip(), licences[name])


def record_page(record: RecordedRun) -> "OfflinePage":
    """The run as a page; it shows the name that was given, and not where the model lies on this machine."""
    from transom.runner import load_text_model
    from transom.serve.offline_page import build_page
    from transom.serve.request_fields import RunRequest
    from transom.serve.session import Session

    model = load_text_model(record.model, record.text)
    model.name = record.name
    session = Session(model)
    more = NEW_TOKENS if model.kind == "decoder" else 0
    return build_page(session, session.run_text(RunRequest(text=record.text, more=more)))
