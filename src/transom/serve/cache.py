"""Answers kept for the next who ask, up to so many bytes; the one used longest ago goes first."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Bytes with what is said beside them."""

    body: bytes
    kind: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)

    @cached_property
    def etag(self) -> str:
        """Names these very bytes: a browser that has them need not take them again."""
        told = repr(sorted(self.headers.items())).encode()
        return f'"{hashlib.sha256(told + self.body).hexdigest()[:32]}"'

    @property
    def size(self) -> int:
        return len(self.body) + 512  # with what Python keeps beside it


def as_json(data: Any) -> Answer:
    return Answer(json.dumps(data, ensure_ascii=True, allow_nan=False).encode(), "application/json")


class Cache:
    """Answers by what was asked."""

    def __init__(self, most: int = 64 * 2**20) -> None:
        self.most, self.size = most, 0
        self.answers: OrderedDict[Hashable, Answer] = OrderedDict()

    def __getitem__(self, asked: Hashable) -> Answer | None:
        found = self.answers.get(asked)
        if found is not None:
            self.answers.move_to_end(asked)
        return found

    def keep(self, asked: Hashable, answer: Answer) -> Answer:
        if answer.size > self.most:
            return answer
        self.drop(asked)
        self.answers[asked] = answer
        self.size += answer.size
        while self.size > self.most:
            self.drop(next(iter(self.answers)))
        return answer

    def drop(self, asked: Hashable) -> None:
        found = self.answers.pop(asked, None)
        if found is not None:
            self.size -= found.size

    def forget(self, first: Hashable) -> None:
        """Drop every answer whose question begins so."""
        for asked in [one for one in self.answers if isinstance(one, tuple) and one and one[0] == first]:
            self.drop(asked)
