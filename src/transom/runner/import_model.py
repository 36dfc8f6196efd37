"""Models of other libraries as folders of Transom's, with their tokenizers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.files.model_paths import is_gguf
from transom.files.strict_settings import check_choice
from transom.files.tokenizer_files import read_chat_template
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.models import Model
    from transom.text.tokenizer import Tokenizer
    from transom.training.inference import LoadedModel

    Source = tuple[LoadedModel, str, str, list[str]]

DTYPES = ("float32", "float16", "bfloat16", "int8")  # of numbers in a file
OnTensor = Callable[[int, int], object]  # called with the number of tensors read, and of all


@dataclass(frozen=True)
class ConversionReport:
    """What was converted: for people as lines, for programs as a dict.

    family       the model_type of the other library
    dtype        of the numbers in the new files
    files        of the tokenizer, as they are in the new folder
    notes        what is otherwise than in the source
    """

    source: str
    target: str
    family: str
    kind: str
    parameters: int
    vocabulary: int
    dtype: str
    files: list[str]
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def describe(self) -> str:
        """A few lines for people."""
        size = f"{self.parameters:,} parameters in {self.dtype}, {self.vocabulary:,} tokens"
        lines = [f"{self.source} → {self.target}", f"{self.family}, {self.kind.replace('_', '–')}: {size}"]
        lines.append(f"tokenizer: {', '.join(self.files) or 'none'}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def import_model(
    source: str | Path, to: str | Path, dtype: str | None = None, on_tensor: OnTensor | None = None
) -> ConversionReport:
    """Write a Hugging Face folder or a GGUF file as a folder of Transom's, which appears whole or not at all.

    dtype   of the numbers in the file; by default the one that the source has, and float32 for GGUF
    """
    from transom.models.folder import check_replaceable

    source, to = Path(source), Path(to)
    check_replaceable(to)
    if dtype is not None:
        check_choice("dtype", dtype, dict.fromkeys(DTYPES))
    loaded, family, stored, notes = read_gguf(source, on_tensor) if is_gguf(source) else read_folder(source, on_tensor)
    save_model(loaded.model, loaded.tokenizer, to, dtype or stored, source)
    model, files = loaded.model, list(loaded.tokenizer.files)
    sizes = (model.kind, model.count(), model.config.vocabulary)
    notes = [*notes, *chat_notes(loaded.tokenizer)]
    return ConversionReport(str(source), str(to), family, *sizes, dtype or stored, files, notes)


def read_folder(source: Path, on_tensor: OnTensor | None) -> "Source":
    """A Hugging Face folder: model and tokenizer, its family, the dtype of its numbers, and notes."""
    from transom.models import from_hugging_face
    from transom.runner.import_tokenizer import import_tokenizer
    from transom.training.inference import LoadedModel, match_tokenizer

    check_is_theirs(source)
    imported = import_tokenizer(source)
    model = from_hugging_face(source, on_tensor=on_tensor)
    loaded = LoadedModel(model, match_tokenizer(model, imported.tokenizer, source))
    return loaded, read_family(source), stored_dtype(source), imported.notes


def read_gguf(source: Path, on_tensor: OnTensor | None) -> "Source":
    """The same of a GGUF file; its numbers are multiplied out."""
    from transom.models.gguf.architectures import find_architecture
    from transom.models.gguf.header import read_header
    from transom.training.inference import load_gguf

    header = read_header(source)
    types = sorted({tensor.type.name for tensor in header.tensors.values()})
    note = [] if types == ["F32"] else [f"the numbers of {', '.join(types)} are multiplied out"]
    return load_gguf(source, on_tensor=on_tensor), find_architecture(header, str(source)), "float32", note


def check_is_theirs(source: Path) -> None:
    from transom.models.hugging_face.sources import is_hugging_face_folder

    if not is_hugging_face_folder(source):
        raise Misfit(
            f"{source} should be a model of Hugging Face's, but it is one of Transom's; it can be used as it is"
        )


def read_family(source: Path) -> str:
    from transom.models.safetensors_files import read_json

    return str(read_json(source / "config.json")["model_type"])


def stored_dtype(source: Path) -> str:
    """The dtype of all tensors of a folder; float32, which holds any of them, if they have several."""
    from transom.models.hugging_face.sources import FolderTensors

    found = set(FolderTensors(source).dtypes.values())
    return found.pop() if len(found) == 1 and found <= set(DTYPES) else "float32"


def chat_notes(tokenizer: "Tokenizer") -> list[str]:
    """Whether there is a chat template: it is kept, and Transom itself does not use it."""
    kept = "the chat template is kept, and goes out again by transom export; Transom itself does not apply it"
    return [kept] if read_chat_template(tokenizer.settings, tokenizer.files) else []


def save_model(model: "Model", tokenizer: "Tokenizer | None", to: Path, dtype: str, source: Path) -> None:
    import torch

    torch_dtype: torch.dtype = getattr(torch, dtype)
    readme = model.default_readme() + f"\nImported from {source.name} by `transom import`.\n"
    model.save_pretrained(to, tokenizer, readme=readme, dtype=torch_dtype)
