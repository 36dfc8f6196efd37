"""Answers as bytes, and a cache of them with a limit in bytes; the least recently used goes first."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

BYTES_BESIDE = 512  # about what Python needs for an answer beside its body


@dataclass(frozen=True)
class Answer:
    """The body of a response, its content type and its headers."""

    body: bytes
    kind: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def download(cls, body: bytes, name: str, kind: str = "application/octet-stream") -> "Answer":
        """An answer that the browser saves as a file."""
        return cls(body, kind, {"Content-Disposition": f'attachment; filename="{name}"'})

    @cached_property
    def etag(self) -> str:
        """Identifies these bytes, so that a browser that has them need not fetch them again."""
        headers = repr(sorted(self.headers.items())).encode()
        return f'"{hashlib.sha256(headers + self.body).hexdigest()[:32]}"'

    @property
    def size(self) -> int:
        return len(self.body) + BYTES_BESIDE


def as_answer(data: object) -> Answer:
    """An Answer itself, or data as JSON."""
    if isinstance(data, Answer):
        return data
    return Answer(json.dumps(data, ensure_ascii=True, allow_nan=False).encode(), "application/json")


class AnswerCache:
    """Answers by key: a tuple that begins with the number of the run that the answer is about, if any."""

    def __init__(self, limit: int = 64 * 2**20) -> None:
        self.limit, self.size = limit, 0
        self.answers: OrderedDict[tuple[Hashable, ...], Answer] = OrderedDict()

    def __getitem__(self, key: tuple[Hashable, ...]) -> Answer | None:
        answer = self.answers.get(key)
        if answer is not None:
            self.answers.move_to_end(key)
        return answer

    def keep(self, key: tuple[Hashable, ...], answer: Answer) -> Answer:
        if answer.size > self.limit:
            return answer
        self.drop(key)
        self.answers[key] = answer
        self.size += answer.size
        while self.size > self.limit:
            self.drop(next(iter(self.answers)))
        return answer

    def drop(self, key: tuple[Hashable, ...]) -> None:
        answer = self.answers.pop(key, None)
        if answer is not None:
            self.size -= answer.size

    def forget_run(self, number: str) -> None:
        """Drop every answer about a run."""
        for key in [key for key in self.answers if key[0] == number]:
            self.drop(key)
