"""Where the matrices of a lesson come from: literals, CSV files, a seed, a name or a trained model."""

from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transom.files.strict_settings import suggest
from transom.files.untrusted_files import Limits, read_numbered_lines
from transom.lessons.lesson_setup import WIDEST, LessonLayer
from transom.lessons.steps import Labels, Matrix
from transom.lessons.toml_source import LARGEST, TomlTable, parse_number, quote
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.text import Tokenizer
    from transom.training.inference import LoadedModel

LIMITS = Limits(line=2**16, document=2**20)
MOST = 2**22  # numbers of a matrix
NAMED = {"identity": np.eye, "zeros": lambda rows, columns: np.zeros((rows, columns))}
WAYS = 'give rows of numbers, "identity", { random = 1 } or { csv = "file.csv" }'


def parse_matrix(table: TomlTable, name: str, rows: int | None, columns: int | None) -> Matrix:
    """The matrix of a setting; `rows` or `columns` is None if any number will do."""
    value = table.settings[name]
    if rows is not None and columns is not None and rows * columns > MOST:
        raise table.error(name, f"{name} may have {MOST} numbers, but {rows} × {columns} are more; take a smaller one")
    if isinstance(value, str):
        matrix = named_matrix(table, name, value, rows, columns)
    elif isinstance(value, dict):
        matrix = generated_matrix(table, name, rows, columns)
    else:
        matrix = literal_matrix(table, name, value)
    for axis, expected, size in zip(("rows", "columns"), (rows, columns), matrix.shape, strict=True):
        if expected is not None and size != expected:
            shape = f"{matrix.shape[0]} × {matrix.shape[1]}"
            fits = rows in (None, matrix.shape[1]) and columns in (None, matrix.shape[0])
            hint = "; transposed it would fit" if fits else ""
            raise table.error(name, f"{name} must have {expected} {axis}, but it has {size}; it is {shape}{hint}")
    return matrix


def parse_vector(table: TomlTable, name: str, width: int) -> Matrix:
    """One row of numbers."""
    value = table.settings[name]
    if isinstance(value, list) and value and not isinstance(value[0], list):
        vector = literal_matrix(table, name, [value])[0]
        if len(vector) != width:
            raise table.error(name, f"{name} must have {width} numbers, but it has {len(vector)}")
        return vector
    return parse_matrix(table, name, 1, width)[0]


def named_matrix(table: TomlTable, name: str, value: str, rows: int | None, columns: int | None) -> Matrix:
    if value not in NAMED:
        raise table.error(name, f"{name} has no matrix {value!r}; {suggest(value, NAMED)} or {WAYS}")
    if rows is None or columns is None:
        raise table.error(name, f"{name} = {value!r} has no size here; {WAYS.replace('give ', 'give d_model, or ')}")
    if value == "identity" and rows != columns:
        raise table.error(name, f"{name} is {rows} × {columns} here, and only a square matrix has an identity; {WAYS}")
    return NAMED[value](rows, columns)


def generated_matrix(table: TomlTable, name: str, rows: int | None, columns: int | None) -> Matrix:
    """Random numbers by a seed, or numbers from a file."""
    source = inline_table(table, name).check_keys(("random", "spread", "csv"))
    if ("random" in source) == ("csv" in source):
        raise table.error(name, f"{name} must come from a seed or from a file; {WAYS}")
    if "csv" in source:
        return load_csv(sibling_path(source, "csv"))
    seed = source.integer("random", 0, 0, 2**31)
    spread = source.number("spread", 1.0, 0.0, 1e6)
    if rows is None or columns is None:
        raise table.error(name, f"{name} has no size here; give d_model")
    return np.random.default_rng(seed).standard_normal((rows, columns)) * spread


def inline_table(table: TomlTable, name: str) -> TomlTable:
    """The table { … } of a setting alone: a case that gives a matrix replaces all of it."""
    holder = table.holder(name)
    return TomlTable(holder.own[name], (*holder.path, name), table.source)


def literal_matrix(table: TomlTable, name: str, value: Any) -> Matrix:
    """Rows of numbers, all of one length and all finite."""
    if not isinstance(value, list) or not value or not all(isinstance(row, list) and row for row in value):
        raise table.error(name, f"{name} must be a matrix, but got {quote(value)}; {WAYS}")
    width = len(value[0])
    for number, row in enumerate(value, start=1):
        if len(row) != width:
            raise table.error(name, f"{name} has {width} numbers in row 1, but {len(row)} in row {number}")
        for cell in row:
            if parse_number(cell) is None:
                complaint = f"must hold finite numbers up to {LARGEST:g}, but row {number} holds {quote(cell)}"
                raise table.error(name, f"{name} {complaint}")
    return np.array([[float(cell) for cell in row] for row in value], dtype=np.float64)


def load_csv(path: Path) -> Matrix:
    """Numbers with commas between, a row in each line."""
    rows: list[list[float]] = []
    for number, line in read_numbered_lines(path, LIMITS):
        if not line.strip():
            continue
        row = [parse_cell(path, number, cell.strip()) for cell in line.split(",")]
        if rows and len(row) != len(rows[0]):
            raise Misfit(f"{path}, line {number}: a row must have {len(rows[0])} numbers, but this has {len(row)}")
        rows.append(row)
        if len(rows) * len(row) > MOST:
            raise Misfit(
                f"{path}, line {number}: a matrix may have {MOST} numbers, but this has more; take a smaller one"
            )
    if not rows:
        raise Misfit(f"{path} should hold a matrix, but it is empty; write numbers with commas between")
    return np.array(rows, dtype=np.float64)


def parse_cell(path: Path, line: int, cell: str) -> float:
    try:
        value = parse_number(Decimal(cell))
    except ArithmeticError:
        value = None
    if value is None:
        complaint = f"a cell must be a finite number up to {LARGEST:g}, but it is {quote(cell)}"
        raise Misfit(f"{path}, line {line}: {complaint}")
    return float(value)


def sibling_path(table: TomlTable, name: str) -> Path:
    """The path of a file or folder inside the folder of the lesson."""
    text = table.text(name, longest=500)
    if not table.source.reads_files:
        hint = "write the numbers out, or save the lesson and use transom check"
        raise table.error(name, f"{name} names a file, but a lesson that is edited on the page reads none; {hint}")
    folder = Path(table.source.name).resolve().parent
    try:
        path = (folder / text).resolve()
    except (OSError, ValueError) as error:
        raise table.error(name, f"{name} must be a path, but {quote(text)} is none ({error})") from error
    if not path.is_relative_to(folder) or path == folder:
        raise table.error(
            name, f"{name} must stay in the folder of the lesson, but {quote(text)} leaves it; copy it there"
        )
    return path


EMBEDDED = "embedded/"  # embedded/en-fr is the translator that comes with Transom


def model_folder(table: TomlTable) -> Path:
    """The folder that `model` names."""
    from transom.models.embedded import embedded_folder

    name = table.text("model", longest=500)
    if not name.startswith(EMBEDDED):
        return sibling_path(table, "model")
    try:
        return embedded_folder(name.removeprefix(EMBEDDED))
    except Misfit as error:
        raise table.error("model", str(error)) from error


@lru_cache(maxsize=2)
def load_lesson_model(folder: Path) -> "LoadedModel":
    """The model in a folder, and its tokenizer."""
    from transom.training.inference import load_for_task

    return load_for_task(folder)


def model_embeddings(table: TomlTable, name: str, tokens: Labels) -> Matrix:
    """The vector of each token in a model: as learned, before positions."""
    import torch

    loaded = load_lesson_model(model_folder(inline_table(table, name).check_keys(("model",))))
    ids = [token_id(table, loaded.tokenizer, token) for token in tokens]
    embedding: Any = getattr(loaded.model, "source_embedding", None) or loaded.model.embedding
    with torch.no_grad():
        return embedding.lookup(torch.tensor([ids]))[0].double().numpy()


def token_id(table: TomlTable, tokenizer: "Tokenizer", token: str) -> int:
    """The id of a token: by its name in the vocabulary, or of a text that is one token."""
    if token in tokenizer.tokens:
        return tokenizer.tokens.index(token)
    if tokenizer.case and token in (pieces := tokenizer.pieces(range(tokenizer.size))):
        return pieces.index(token)  # a text by itself would get a mark for its case
    ids = tokenizer.encode(token)
    if len(ids) != 1 or ids[0] == tokenizer.unknown:
        pieces = ", ".join(repr(tokenizer.tokens[index]) for index in ids)
        raise table.error("tokens", f"each token must be one of the model's, but {token!r} is {pieces}; give those")
    return ids[0]


def load_model_layer(table: TomlTable, settings: TomlTable, layer: LessonLayer, widths: tuple[int, ...]) -> LessonLayer:
    """A layer with the parameters of one attention of a model; `widths` are those of X for Q, K and V."""
    modules: dict[str, Any] = dict(load_lesson_model(model_folder(table)).model.named_modules())
    names = [name for name, module in modules.items() if hasattr(module, "W_Q") and hasattr(module, "W_O")]
    name = table.text("layer", longest=200)
    if name not in names:
        raise table.error("layer", f"the model has no attention {name!r}; {suggest(name, names)}")
    module = modules[name]
    if any(getattr(getattr(module, f"W_{letter}"), "weight", np.empty(0)).ndim != 2 for letter in "QKV"):
        raise table.error("layer", f"{name} has narrow heads or a waist, which a lesson cannot take; choose another")
    if layer.attention.similarity == "additive":
        raise settings.error("similarity", "a model has no w for additive similarity; leave similarity out")
    parameters = model_parameters(module)
    for letter, width in zip("QKV", widths, strict=True):
        rows = parameters[f"W_{letter}"].shape[1]
        if rows != width:
            raise table.error("layer", f"W_{letter} of {name} takes {rows} numbers, but the vectors have {width}")
    check_given_size(settings, "heads", module.heads, f"as many as {name} has")
    check_given_size(settings, "kv_heads", module.kv_heads, f"as many as {name} has for keys and values")
    check_given_size(settings, "d_head", module.d_head, f"the width of a head of {name}")
    check_given_size(settings, "d_value", parameters["W_V"].shape[2], f"the width of a value of {name}")
    attention = replace(
        layer.attention, heads=module.heads, kv_heads=module.kv_heads, d_head=module.d_head, narrow=False
    )
    return replace(layer, attention=attention, parameters=parameters)


def model_parameters(module: Any) -> dict[str, Matrix]:
    """The matrices and biases of an attention of Transom's; W_Q, W_K and W_V as (heads, in, out)."""
    parameters: dict[str, Matrix] = {}
    for letter in "QKVO":
        linear = getattr(module, f"W_{letter}")
        W = linear.weight.detach().double().numpy().T
        heads = module.kv_heads if letter in "KV" else module.heads
        parameters[f"W_{letter}"] = W if letter == "O" else W.reshape(len(W), heads, -1).transpose(1, 0, 2)
        if linear.bias is not None:
            b = linear.bias.detach().double().numpy()
            parameters[f"b_{letter}"] = b if letter == "O" else b.reshape(heads, -1)
    return {name: np.ascontiguousarray(values) for name, values in parameters.items()}


def check_given_size(table: TomlTable, name: str, size: int, source: str) -> None:
    """Complain if a size is given that is not the one that follows from something else."""
    if name in table and table.integer(name, size, 1, WIDEST) != size:
        raise table.error(name, f"{name} must be {size}, {source}, but {table.settings[name]} came; leave it out")
