"""The one place where `transformers` loads anything: from this machine, safetensors only, and never a folder's code.

A folder can name Python files of its own (`auto_map`), kernels to be downloaded, or an adapter that names another
model. None of these is followed, and the library cannot ask on standard input: a corpus whose first line is "y" is no
consent.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transom.files.documents import LONGEST_JSON
from transom.files.strict_settings import parse_json_object
from transom.files.untrusted_files import Limits, read_bytes
from transom.names import Misfit

CONFIG, TOKENIZER_CONFIG, ADAPTER = "config.json", "tokenizer_config.json", "adapter_config.json"
CODE = "auto_map"  # names the Python file of the folder that holds a class
IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")  # may name a kernel to be downloaded and run


def load_pretrained(kind: str, name: str, what: str, **settings: Any) -> Any:
    """Load a folder, or an id in the local cache, with the class `kind` of `transformers`; an error says that the model
    should `what`.

    This is the only call of `from_pretrained` of that library, so its settings cannot be forgotten.
    """
    library = import_transformers(name)
    files = {file: read_settings(name, file) for file in (CONFIG, TOKENIZER_CONFIG)}
    check_kernels(name, files[CONFIG])
    check_adapter(name)
    brings_code = any(map(mentions_code, files.values()))
    with errors_as_misfit(name, what, brings_code), empty_stdin(), silence_output():
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
    """The path of a file of the model of that id in the local cache; nothing is downloaded."""
    go_offline()
    try:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(name, file)
    except (ImportError, ValueError):  # ValueError: not a valid id
        return None
    return Path(path) if isinstance(path, str) else None


def find_file(name: str, file: str) -> Path | None:
    """A file of a model, by its folder or its id."""
    path = Path(name) / file if Path(name).is_dir() else find_cached(name, file)
    return path if path is not None and path.exists() else None


def read_settings(name: str, file: str) -> dict[str, object]:
    """The content of a JSON file of a model; empty if there is no such file."""
    path = find_file(name, file)
    if path is None:
        return {}
    return parse_json_object(read_bytes(path, Limits(document=LONGEST_JSON), "name the folder of a model"), str(path))


def mentions_code(settings: object) -> bool:
    """Whether settings name Python files, at any depth: each part of a model can have its own settings."""
    if isinstance(settings, dict):
        return CODE in settings or any(map(mentions_code, settings.values()))
    return isinstance(settings, list) and any(map(mentions_code, settings))


def check_kernels(name: str, settings: object) -> None:
    """Complain of settings that name an implementation to be downloaded."""
    if isinstance(settings, list):
        for item in settings:
            check_kernels(name, item)
    if not isinstance(settings, dict):
        return
    for key, value in settings.items():
        names = map(str, value.values() if isinstance(value, dict) else [value])
        remote = next((each for each in names if "/" in each), None)
        if str(key).strip("_").startswith(IMPLEMENTATIONS) and remote is not None:
            raise Misfit(
                f"{name} should run with transformers' own attention, but its {CONFIG} asks for {remote!r:.80},"
                f" which Transom never downloads; take {key} out of {CONFIG}"
            )
        check_kernels(name, value)


def check_adapter(name: str) -> None:
    """Complain of an adapter: its settings name another model to be loaded."""
    if find_file(name, ADAPTER) is not None:
        raise Misfit(f"{name} should hold a whole model, but it has an adapter ({ADAPTER}); merge the two first")


@contextmanager
def empty_stdin() -> Iterator[None]:
    """Make standard input empty in this block: a library that asks whether to run code gets no answer."""
    before, sys.stdin = sys.stdin, io.StringIO()
    try:
        yield
    finally:
        sys.stdin = before


@contextmanager
def silence_output() -> Iterator[None]:
    """Discard all output in this block: compiled parts of the library print the content of files unescaped."""
    copies: dict[int, int] = {}  # of the file descriptors of standard output and standard error
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(AttributeError, OSError, ValueError):  # no stream, closed, or not a file
            descriptor = stream.fileno()  # pyright: ignore[reportOptionalMemberAccess]
            copies[descriptor] = os.dup(descriptor)
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in copies:
            os.dup2(devnull, descriptor)
        yield
    finally:
        for descriptor, copy in copies.items():
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(devnull)


@contextmanager
def errors_as_misfit(name: str, what: str, brings_code: bool = False) -> Iterator[None]:
    """Turn any error of the library into a Misfit of one line."""
    try:
        yield
    except Exception as error:  # it raises OSError, ValueError, ImportError, KeyError and those of safetensors
        way_out = (
            "Transom never runs a model's own code: name a model that transformers knows without it"
            if brings_code
            else "name a folder, or download it into the local cache first"
        )
        raise Misfit(
            f"{name} should {what}, but it cannot be loaded from this machine: {first_line(error)}; {way_out}"
        ) from error


def first_line(error: Exception) -> str:
    """The first line of an error of the library, cut to 200 characters."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
