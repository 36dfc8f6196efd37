"""Runs of real models for the gallery of a site: recorded once, as the answers that a page needs."""

import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from transom.files.atomic_files import write_file
from transom.files.documents import decode_json
from transom.names import Misfit

NEW_TOKENS = 12  # that a decoder writes after its text
RECORD = re.compile(r"(?P<name>[^=]{1,80})=(?P<model>[^:]+):(?P<text>.+)", re.DOTALL)
FORMAT = "transom-recording"
LARGEST_RECORDING = 2**26  # bytes, unpacked


@dataclass(frozen=True)
class RecordedRun:
    """A text through a model, with the name that visitors read, the licence of the model, and a sentence about it."""

    name: str
    model: str  # a folder, or a local Hugging Face id
    text: str
    licence: str
    about: str = ""

    @property
    def slug(self) -> str:
        """The name as a part of a file's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "run"


@dataclass(frozen=True)
class Recording:
    """A run that was recorded: what it was, and the answers of its page."""

    run: RecordedRun
    answers: dict[str, Any]

    def html(self) -> str:
        """The run as a page; it shows the name that was given, and not where the model lies on this machine."""
        from transom.serve.offline_page import page_of_answers

        return page_of_answers(self.answers, self.run.name)

    def save(self, path: Path) -> None:
        run = {"name": self.run.name, "text": self.run.text, "licence": self.run.licence, "about": self.run.about}
        data = {"format": FORMAT, **run, "answers": self.answers}
        write_file(path, lzma.compress(json.dumps(data, ensure_ascii=False).encode(), preset=9))


def parse_record(given: str, licences: dict[str, str]) -> RecordedRun:
    """A run as it is written on a command line, NAME=FOLDER:TEXT; its licence must be given by its name."""
    match = RECORD.fullmatch(given)
    if match is None:
        raise Misfit(f"a recorded run is NAME=FOLDER:TEXT, but got {given!r:.80}; write Name=path/to/model:A text.")
    name = match["name"].strip()
    if name not in licences:
        raise Misfit(f"the site names the licence of every model, but {name!r} has none; add --licence {name!r}=…")
    return RecordedRun(name, match["model"], match["text"].strip(), licences[name])


def record_run(record: RecordedRun) -> Recording:
    """Run the model on the text, and compute what the page will ask."""
    from transom.runner import load_text_model
    from transom.serve.offline_answers import OfflineAnswers
    from transom.serve.request_fields import RunRequest
    from transom.serve.session import Session
    from transom.serve.worker import Job

    model = load_text_model(record.model, record.text)
    model.name = record.name
    session = Session(model)
    more = NEW_TOKENS if model.kind == "decoder" else 0
    run = session.run_text(RunRequest(text=record.text, more=more))
    return Recording(record, OfflineAnswers(session, run, Job(lambda job: None), None).to_dict())


def shipped_recordings() -> Iterator[Recording]:
    """The recordings that come with Transom, which docs/record_gallery.py makes."""
    for file in sorted((files("transom.serve") / "recordings").iterdir(), key=lambda file: file.name):
        data = decode_json(lzma.decompress(file.read_bytes()), max_bytes=LARGEST_RECORDING)
        assert data["format"] == FORMAT, file.name
        run = RecordedRun(data["name"], "", data["text"], data["licence"], data["about"])
        yield Recording(run, data["answers"])
