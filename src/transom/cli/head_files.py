"""Sums of heads on file: what they are of, so that only what belongs together goes on or is joined."""

from pathlib import Path
from typing import Any

import msgspec

from transom.cli.given import many
from transom.names import Misfit

FORMAT = 1
LARGEST = 2**28  # bytes of a file of sums that are believed; those of a thousand heads have a few hundred thousand


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Texts that were measured: files with their sizes, how they were cut, and which share of the documents."""

    texts: list[str]
    sizes: list[int]
    lines: bool
    longest: int
    rank: int = 0
    processes: int = 1


class Done(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a part has come."""

    part: Part
    documents: int = 0
    pieces: int = 0
    tokens: int = 0
    finished: bool = False


class Sums(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model, what was measured of it, and the sums; `digest` tells the model's parameters from others'."""

    model: str
    digest: str
    done: list[Done]
    heads: Any
    format: int = FORMAT

    @property
    def finished(self) -> bool:
        return all(one.finished for one in self.done)

    def count(self, what: str) -> int:
        return sum(getattr(one, what) for one in self.done)


def read(path: Path) -> Sums:
    """Sums from a file; one that is damaged or made up is an error that says so."""
    from transom.files.documents import decode_json
    from transom.files.outside import Limits, whole
    from transom.lens.measuring.head_sums import HeadSums

    content = whole(path, Limits(document=LARGEST), "name a file that transom heads wrote")
    try:
        found = decode_json(content, Sums, most=LARGEST)
        found = msgspec.structs.replace(found, heads=msgspec.convert(found.heads, HeadSums))
        found.heads.check()
    except (msgspec.ValidationError, Misfit) as error:
        raise Misfit(
            f"{path} should hold the sums of transom heads, but it cannot be read ({error}); name another file"
        ) from error
    if found.format != FORMAT:
        raise Misfit(f"{path} is of format {found.format}, but this is Transom of format {FORMAT}; measure it anew")
    return found


def write(path: Path, sums: Sums) -> None:
    """Sums to a file, whole or not at all."""
    from transom.files.durable import write_file

    write_file(path, msgspec.json.format(msgspec.json.encode(sums), indent=1) + b"\n")


def going_on(path: Path, wanted: Sums) -> Sums:
    """What a file already holds of this very work, or a beginning."""
    if not path.exists():
        return wanted
    found = read(path)
    same = (found.digest, [one.part for one in found.done], found.heads.measures)
    if same != (wanted.digest, [one.part for one in wanted.done], wanted.heads.measures):
        raise Misfit(
            f"{path} holds sums of {found.model} over {spoken(found)}, which is other work than this; name another file"
            " with --out, or remove it"
        )
    return found


def spoken(sums: Sums) -> str:
    """What sums are of, in a few words."""
    texts = list(dict.fromkeys(text for one in sums.done for text in one.part.texts))
    more = f" and {len(texts) - 2} more" if len(texts) > 2 else ""
    return f"{many(sums.count('documents'), 'document')} of {', '.join(texts[:2])}{more}"


def merged(files: list[tuple[str, Sums]]) -> Sums:
    """Sums of the same model over texts that no two of them share, added up exactly."""
    from transom.lens.measuring.head_sums import joined

    seen: dict[bytes, str] = {}
    (first_name, first), *others = files
    for name, one in others:
        if one.digest != first.digest:
            raise Misfit(
                f"{first_name} is of {first.model} and {name} of {one.model}, or of other parameters; join sums of one"
                " model"
            )
    for name, one in files:
        for done in one.done:
            told = msgspec.json.encode(done.part)
            if told in seen:
                raise Misfit(f"{name} and {seen[told]} are of the same texts, which would count twice; leave one out")
            seen[told] = name
    done = [part for _, one in files for part in one.done]
    return Sums(first.model, first.digest, done, joined(one.heads for _, one in files))
