"""Models of Transom's as Hugging Face folders or GGUF files, with their tokenizers, for other engines."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.files.strict_settings import check_choice
from transom.files.tokenizer_files import TOKENIZER
from transom.names import Misfit
from transom.runner.import_model import ConversionReport, OnTensor
from transom.runner.import_tokenizer import find_difference
from transom.runner.pretrained import load_pretrained

if TYPE_CHECKING:
    from transom.models import Model
    from transom.training.inference import LoadedModel

DTYPES = ("float32", "float16", "bfloat16")
GGUF = ".gguf"
STEPS = 4  # loaded, turned into the other library's class, saved, compared
README = """# {name}

Exported by `transom export`: a model for transformers, of the class {kind}.

    transformers.AutoTokenizer.from_pretrained(folder)
    transformers.{kind}.from_pretrained(folder)
"""
CASE_MARKS = (
    "the tokenizer writes capitals as marks, and tokenizer.json cannot say how: pass text through"
    " transom.text.case_marks.mark_case before it, and through restore_case after it"
)
STARTS_IN_CTRANSLATE2 = ("marian", "pegasus")  # families whose decoders its converter starts in its own way
ZERO_START = (
    "CTranslate2's converter starts every Marian decoder from zeros and drops the last token, which is not what this"
    " model was trained with: serve it with transformers"
)
PAD_START = (
    "CTranslate2's converter starts every Pegasus decoder with <pad>, this one starts with {token}: after converting,"
    ' set "decoder_start_token": "{token}" in its config.json'
)
NO_TOKENIZER = (
    "no rule that GGUF files name splits text as this tokenizer does, so the file has none: tokenise with Transom, and"
    " give llama.cpp the numbers"
)


def export_model(
    source: str | Path | None,
    to: str | Path,
    family: str | None = None,
    dtype: str | None = None,
    on_step: OnTensor | None = None,
) -> ConversionReport:
    """Write a model of Transom's as a folder for transformers, or a GGUF file; it appears whole or not at all.

    source    a folder; None is the translator that comes with Transom
    to        a new folder, or a new file that ends in .gguf
    family    the model_type; by default the first that has all parts of the model
    dtype     of the numbers in the file; by default float32
    on_step   called with the number of steps that are done, and of all: tensors of a file, or parts of the work
    """
    to, on_step = Path(to), on_step or (lambda done, total: None)
    if dtype is not None:
        check_choice("dtype", dtype, dict.fromkeys(DTYPES))
    export = export_gguf if to.suffix == GGUF else export_folder
    return export(source, to, family, dtype or "float32", on_step)


def export_folder(
    source: str | Path | None, to: Path, family: str | None, dtype: str, on_step: OnTensor
) -> ConversionReport:
    """Write a model as a folder for transformers."""
    from transom.files.atomic_files import atomic_folder, write_file
    from transom.models import to_hugging_face

    check_new_folder(to)
    loaded, name = load_source(source)
    on_step(1, STEPS)
    model, tokenizer = loaded.model, loaded.tokenizer
    theirs = to_hugging_face(model, family)
    on_step(2, STEPS)
    files, notes = tokenizer_files(loaded), model_notes(model) + converter_notes(loaded, theirs.config.model_type)
    with atomic_folder(to) as new:
        save_theirs(theirs, new, dtype)
        on_step(3, STEPS)
        for file, content in files.items():
            write_file(new / file, content)
        write_file(new / "README.md", README.format(name=name, kind=type(theirs).__name__).encode())
        if tokenizer.case:
            notes.append(CASE_MARKS)
        else:
            check_tokens(loaded, new)
    on_step(STEPS, STEPS)
    return ConversionReport(
        str(source or name),
        str(to),
        theirs.config.model_type,
        model.kind,
        model.count(),
        model.config.vocabulary,
        dtype,
        list(files),
        notes,
    )


def export_gguf(
    source: str | Path | None, to: Path, family: str | None, dtype: str, on_step: OnTensor
) -> ConversionReport:
    """Write a decoder as a GGUF file for llama.cpp."""
    import torch

    from transom.models.gguf import to_gguf
    from transom.text.gguf_tokenizer_fields import NONE, gguf_fields

    if family is not None:
        raise Misfit(f"a GGUF file has the first architecture that fits, but family={family!r} was given; leave it out")
    if to.exists():
        raise Misfit(f"{to} should become the exported file, but it is there already; choose a new name")
    if not to.parent.is_dir():
        raise Misfit(f"{to} should lie in a folder, but {to.parent} is none; make it first")
    loaded, name = load_source(source)
    model = loaded.model
    fields = gguf_fields(loaded.tokenizer, model.config.vocabulary)
    described = {"general.name": name, **(NONE if fields is None else fields)}
    written = to_gguf(model, to, getattr(torch, dtype), described, on_step)
    notes = ["norms and biases are in float32"] if dtype != "float32" else []
    if fields is None:
        notes.append(NO_TOKENIZER)
    return ConversionReport(
        str(source or name),
        str(to),
        written,
        model.kind,
        model.count(),
        model.config.vocabulary,
        dtype,
        [] if fields is None else ["in the file"],
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


def converter_notes(loaded: "LoadedModel", family: str) -> list[str]:
    """Where CTranslate2's converter takes a translator for another one, and the way out."""
    model: Any = loaded.model
    if family not in STARTS_IN_CTRANSLATE2:
        return []
    start, padding = model.generation.decoder_start_token_id, model.config.padding
    if family == "marian":
        starts_from_zeros = start == padding and not bool(model.target_embedding.vectors[padding].any())
        return [] if starts_from_zeros and padding == model.config.vocabulary - 1 else [ZERO_START]
    return [] if start == padding else [PAD_START.format(token=loaded.tokenizer.tokens[start])]


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
