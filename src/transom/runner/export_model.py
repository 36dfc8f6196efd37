"""Models of Transom's as Hugging Face folders, with their tokenizers: what transformers, CTranslate2 and vLLM read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.files.strict_settings import check_choice
from transom.files.tokenizer_files import TOKENIZER
from transom.names import Misfit
from transom.runner.import_model import ConversionReport
from transom.runner.import_tokenizer import find_difference
from transom.runner.pretrained import load_pretrained

if TYPE_CHECKING:
    from transom.models import Model
    from transom.training.inference import LoadedModel

DTYPES = ("float32", "float16", "bfloat16")
README = """# {name}

Exported by `transom export`: a model for transformers, of the class {kind}.

    transformers.AutoTokenizer.from_pretrained(folder)
    transformers.{kind}.from_pretrained(folder)
"""
CASE_MARKS = (
    "the tokenizer writes capitals as marks, and tokenizer.json cannot say how: pass text through"
    " transom.text.case_marks.mark_case before it, and through restore_case after it"
)


def export_model(
    source: str | Path | None, to: str | Path, family: str | None = None, dtype: str | None = None
) -> ConversionReport:
    """Write a model of Transom's as a folder for transformers, which appears whole or not at all.

    source   a folder; None is the translator that comes with Transom
    family   the model_type; by default the first that has all parts of the model
    dtype    of the numbers in the file; by default float32
    """
    from transom.files.atomic_files import atomic_folder, write_file
    from transom.models import to_hugging_face

    to = Path(to)
    check_new_folder(to)
    if dtype is not None:
        check_choice("dtype", dtype, dict.fromkeys(DTYPES))
    loaded, name = load_source(source)
    model, tokenizer = loaded.model, loaded.tokenizer
    theirs = to_hugging_face(model, family)
    files, notes = tokenizer_files(loaded), model_notes(model)
    with atomic_folder(to) as new:
        save_theirs(theirs, new, dtype or "float32")
        for file, content in files.items():
            write_file(new / file, content)
        write_file(new / "README.md", README.format(name=name, kind=type(theirs).__name__).encode())
        if tokenizer.case:
            notes.append(CASE_MARKS)
        else:
            check_tokens(loaded, new)
    return ConversionReport(
        str(source or name),
        str(to),
        theirs.config.model_type,
        model.kind,
        model.count(),
        model.config.vocabulary,
        dtype or "float32",
        list(files),
        notes,
    )


def check_new_folder(to: Path) -> None:
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise Misfit(
            f"{to} should become the exported folder, but it is there already; choose a new or an empty folder"
        )


def load_source(source: str | Path | None) -> tuple["LoadedModel", str]:
    """The model and its name."""
    from transom.models.embedded import embedded_folder
    from transom.training.inference import load_for_task

    if source is None:
        return load_for_task(embedded_folder()), "the embedded translator"
    return load_for_task(Path(source)), Path(source).name


def tokenizer_files(loaded: "LoadedModel") -> dict[str, bytes]:
    from transom.text.tokenizer_export import export_files

    return export_files(loaded.tokenizer, loaded.model.kind, loaded.model.config.longest)


def model_notes(model: "Model") -> list[str]:
    """What transformers' class does not have."""
    pooling: Any = getattr(model.config, "pooling", None)
    if pooling is None or getattr(model.config, "labels", ()):
        return []
    how = "is the mean of its tokens' vectors" if pooling == "mean" else "is its first token's"
    return [f"the vector of a text {how}: transformers' class gives one for each token, so pool them yourself"]


def save_theirs(theirs: Any, folder: Path, dtype: str) -> None:
    import torch

    from transom.runner.pretrained import silence_output

    with silence_output():
        theirs.to(getattr(torch, dtype)).save_pretrained(folder)


def check_tokens(loaded: "LoadedModel", folder: Path) -> None:
    """Compare the exported tokenizer, as transformers reads it, with ours."""
    theirs = load_pretrained("AutoTokenizer", str(folder), "have a tokenizer")
    difference = find_difference(loaded.tokenizer, theirs, loaded.tokenizer.wrapping(loaded.model.kind))
    if difference is not None:
        raise Misfit(f"{folder / TOKENIZER} is not read by transformers as by Transom: {difference}; report it")
