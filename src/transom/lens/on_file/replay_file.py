"""A replay as one safetensors file: weights as float32 tensors, words, heads and updates as JSON in its header."""

from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from transom.files import headers
from transom.files.checksums import Checksums, add_sums
from transom.files.documents import decode_json
from transom.files.durable import write_file
from transom.lens.curve import Curve
from transom.lens.on_file.parts_on_file import of_dtype
from transom.names import Misfit

FORMAT = "transom replay 1"
HEADER_BYTES = 2**22
LOSSES, AT = "losses", "losses at"


class ReplayOnFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the header says beside the tensors."""

    tokens: list[list[str]] | None
    targets: list[list[str]] | None
    heads: dict[str, list[int]]
    updates: list[int]
    width: int = 1  # updates in each point of the loss curve


def written(path: Path, said: ReplayOnFile, weights: dict[str, Tensor], losses: Curve) -> None:
    """Write the file whole."""
    updates, means = losses.points()
    tensors = {f"weights of {name}": x for name, x in weights.items()}
    tensors |= {LOSSES: torch.tensor(means, dtype=torch.float32), AT: torch.tensor(updates, dtype=torch.int64)}
    header = msgspec.json.encode(msgspec.structs.replace(said, width=losses.width)).decode()
    arrays = {name: x.contiguous().numpy() for name, x in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, save(arrays, metadata=add_sums({"format": FORMAT, "replay": header}, arrays)))


def read(path: Path) -> tuple[ReplayOnFile, dict[str, Tensor], Curve]:
    """What is said of it, the weights under each name, and the loss; nothing of it is believed unchecked."""
    try:
        said, sums = header(path)
        with safe_open(path, framework="pt") as file:
            known = set(file.keys())
            missing = {LOSSES, AT, *(f"weights of {name}" for name in said.heads)} - known
            if missing:
                raise Misfit(f"it should hold {sorted(missing)[0]!r:.80}, but it does not")
            weights = {name: checked(said, name, sums.load(file, f"weights of {name}")) for name in said.heads}
            losses, at = (
                of_dtype(sums.load(file, LOSSES), torch.float32, 1),
                of_dtype(sums.load(file, AT), torch.int64, 1),
            )
    except OSError as error:
        raise Misfit(f"{path} cannot be read: {error.strerror or error}; is it the right path?") from error
    except (SafetensorError, msgspec.MsgspecError, Misfit) as error:
        raise Misfit(f"{path} is no replay that can be believed: {error}; record it again") from error
    if len(losses) != len(at):
        raise Misfit(f"{path} is no replay that can be believed: its losses lack their updates; record it again")
    return said, weights, Curve(at.tolist(), losses.tolist(), said.width)


def header(path: Path) -> tuple[ReplayOnFile, Checksums]:
    """What the file says of itself, before any tensor is loaded, and the sums that its tensors must have."""
    found = headers.header(path, HEADER_BYTES).get("__metadata__")
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("replay"), str):
        raise Misfit(f"its header does not say {FORMAT!r}")
    sums = Checksums.read(found)
    said = decode_json(found["replay"], ReplayOnFile, most=HEADER_BYTES)
    if sorted(set(said.updates)) != said.updates or any(update < 0 for update in said.updates):
        raise Misfit("its updates are not in order")
    if said.width < 1:
        raise Misfit(f"a point of its loss curve is the mean of {said.width} updates, but 1 is the least")
    return said, sums


def checked(said: ReplayOnFile, name: str, x: Tensor) -> Tensor:
    """The weights under one name, if they are as many as is said."""
    x = of_dtype(x, torch.float32, 4)
    if x.shape[:2] != (len(said.updates), len(said.heads[name])):
        raise Misfit(
            f"{name!r:.60} should hold {len(said.updates)} frames of {len(said.heads[name])} heads, but it holds"
            f" {tuple(x.shape)}"
        )
    return x
