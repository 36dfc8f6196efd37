"""The one place where `transformers` loads anything: from this machine, safetensors only, and never a folder's code.

A folder can name Python files of its own (`auto_map`), kernels to be fetched, or an adapter that names another model.
None of these is followed, and nothing is asked on standard input: a corpus whose first line is "y" is no consent.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transom.files.documents import LONGEST_JSON
from transom.files.outside import Limits, whole
from transom.files.strict import json_object
from transom.names import Misfit

CONFIG, TOKENIZER_CONFIG, ADAPTER = "config.json", "tokenizer_config.json", "adapter_config.json"
CODE = "auto_map"  # says which Python file of the folder holds which class
IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")  # may name a kernel to be fetched and run


def load_pretrained(kind: str, name: str, what: str, **settings: Any) -> Any:
    """What `transformers`' class `kind` makes of a folder, or of an id in the local cache; `what` is said in an error.

    This is the only call of a `from_pretrained` of that library, so that its settings cannot be forgotten.
    """
    library = import_transformers(name)
    files = {file: read_settings(name, file) for file in (CONFIG, TOKENIZER_CONFIG)}
    check_kernels(name, files[CONFIG])
    check_adapter(name)
    brings_code = any(map(mentions_code, files.values()))
    with complaining(name, what, brings_code), no_questions(), no_output():
        return getattr(library, kind).from_pretrained(name, local_files_only=True, trust_remote_code=False, **settings)


def import_transformers(name: str) -> Any:
    """The library, quiet and offline; `name` is the model that needs it."""
    go_offline()
    try:
        import transformers
    except ImportError as error:
        raise Misfit(
            f"{name} is a Hugging Face model, which needs the extra hf; install it with pip install 'transom[hf]'"
        ) from error
    transformers.utils.logging.set_verbosity_error()  # stderr is the command's own
    transformers.utils.logging.disable_progress_bar()
    return transformers


def go_offline() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the library is imported


def find_cached(name: str, file: str = CONFIG) -> Path | None:
    """Where a file of the model of that id is in the local cache; nothing is fetched."""
    go_offline()
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(name, file)
    except (ImportError, ValueError):  # ValueError: no id could be so
        return None
    return Path(found) if isinstance(found, str) else None


def find_file(name: str, file: str) -> Path | None:
    """A file of a model, by its folder or its id."""
    path = Path(name) / file if Path(name).is_dir() else find_cached(name, file)
    return path if path is not None and path.exists() else None


def read_settings(name: str, file: str) -> dict[str, object]:
    """What a JSON file of a model holds; nothing where there is none."""
    path = find_file(name, file)
    if path is None:
        return {}
    return json_object(whole(path, Limits(document=LONGEST_JSON), "name the folder of a model"), str(path))


def mentions_code(settings: object) -> bool:
    """Whether settings name Python files, at any depth: the parts of a model have settings of their own."""
    if isinstance(settings, dict):
        return CODE in settings or any(map(mentions_code, settings.values()))
    return isinstance(settings, list) and any(map(mentions_code, settings))


def check_kernels(name: str, settings: object) -> None:
    """Complain of settings that name an implementation by where it is to be fetched from."""
    if isinstance(settings, list):
        for one in settings:
            check_kernels(name, one)
    if not isinstance(settings, dict):
        return
    for key, value in settings.items():
        fetched = [one for one in (value.values() if isinstance(value, dict) else [value]) if "/" in str(one)]
        if str(key).strip("_").startswith(IMPLEMENTATIONS) and fetched:
            raise Misfit(
                f"{name} should run by transformers' own attention, but its {CONFIG} asks for {str(fetched[0])!r:.80},"
                f" which Transom never fetches; take {key} out of {CONFIG}"
            )
        check_kernels(name, value)


def check_adapter(name: str) -> None:
    """Complain of an adapter: it would be looked for in a model that its settings name."""
    if find_file(name, ADAPTER) is not None:
        raise Misfit(f"{name} should hold a whole model, but it has an adapter ({ADAPTER}); merge the two first")


@contextmanager
def no_questions() -> Iterator[None]:
    """Standard input is empty in this block: a library that asks whether to run code gets no answer."""
    before, sys.stdin = sys.stdin, io.StringIO()
    try:
        yield
    finally:
        sys.stdin = before


@contextmanager
def no_output() -> Iterator[None]:
    """Nothing is printed in this block: compiled parts of the library print what a file holds, as it is."""
    numbers = [stream.fileno() for stream in (sys.__stdout__, sys.__stderr__) if stream is not None and is_open(stream)]
    kept = {number: os.dup(number) for number in numbers}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


def is_open(stream: Any) -> bool:
    try:
        return stream.fileno() >= 0
    except (OSError, ValueError):  # closed, or no file at all
        return False


@contextmanager
def complaining(name: str, what: str, brings_code: bool = False) -> Iterator[None]:
    """Whatever the library makes of a folder as a Misfit of one line."""
    try:
        yield
    except Exception as error:  # it raises OSError, ValueError, ImportError, KeyError and those of safetensors
        way_out = (
            "Transom never runs a model's own code: name a model that transformers knows without it"
            if brings_code
            else "name a folder, or fetch it into the local cache first"
        )
        raise Misfit(
            f"{name} should {what}, but it cannot be loaded from this machine: {first_line(error)}; {way_out}"
        ) from error


def first_line(error: Exception) -> str:
    """What an error of the library says first, and not all of very much."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
