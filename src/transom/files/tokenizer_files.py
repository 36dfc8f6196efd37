"""The files of a tokenizer: tokenizer.json, and those that other libraries have beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transom.files.strict_settings import parse_json_object
from transom.files.untrusted_files import Limits, decode_utf8, read_bytes

TOKENIZER = "tokenizer.json"
SETTINGS, SPECIAL_MAP, CHAT_TEMPLATE = "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"
BESIDE = (SETTINGS, SPECIAL_MAP, CHAT_TEMPLATE)
LARGEST = Limits(document=2**26)  # bytes of a tokenizer.json; one of 250,000 tokens has about half as many
LARGEST_BESIDE = Limits(document=2**20)


def read_tokenizer_files(path: Path) -> dict[str, bytes]:
    """The content of a tokenizer.json and of the files beside it, by their names."""
    return {TOKENIZER: read_bytes(path, LARGEST, "name a tokenizer.json")} | {
        name: read_bytes(path.parent / name, LARGEST_BESIDE, "take another copy")
        for name in BESIDE
        if (path.parent / name).is_file()
    }


def read_settings(files: Mapping[str, bytes], folder: Path) -> dict[str, Any] | None:
    """What the files beside a tokenizer.json say about it; None if there is no such file."""
    named = [name for name in (SPECIAL_MAP, SETTINGS) if name in files]  # the second has the last word
    settings: dict[str, Any] = {}
    for name in named:
        settings |= parse_json_object(files[name], str(folder / name), LARGEST_BESIDE.document)
    return settings if named else None


def read_chat_template(settings: Mapping[str, Any], files: Mapping[str, bytes]) -> str | None:
    """The chat template that came with a tokenizer, as text: it is kept, and never run."""
    template = settings.get("chat_template") or decode_utf8(CHAT_TEMPLATE, files.get(CHAT_TEMPLATE, b""))
    return template if isinstance(template, str) and template else None
