"""A flipped bit in the metadata of a model folder is reported, or has no effect."""

import shutil
from pathlib import Path

import msgspec
import pytest
import torch

from transom.files.atomic_files import MANIFEST
from transom.models import Decoder, DecoderConfig, from_pretrained
from transom.models.folder import match_tensors
from transom.models.safetensors_files import load_tensors
from transom.names import Misfit
from transom.text.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("own_errors")
TOKENS = torch.tensor([[1, 3, 2]])


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A small model with everything that a folder may hold."""
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("models") / "model"
    tokenizer = Tokenizer.train("words", ["a b"], 6)
    config = DecoderConfig(vocabulary=tokenizer.size, d_model=2, heads=1, d_hidden=3, layers=1, longest=5)
    Decoder(config).save_pretrained(folder, tokenizer)
    return folder


def load_content(folder: Path) -> object:
    """What the model in a folder is and computes."""
    model = from_pretrained(folder)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    with torch.no_grad():
        numbers = model(TOKENS).tolist()
    return msgspec.structs.asdict(model.config), model.generation.to_dict(), numbers, tokenizer.engine.to_str()


def flips(path: Path, length: int, every: int = 1):
    """The file with each bit of its first bytes flipped in turn; restored at the end."""
    content = path.read_bytes()
    for bit in range(0, 8 * length, every):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        yield bit
    path.write_bytes(content)


def header_length(path: Path) -> int:
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


def outcomes(folder: Path, path: Path, length: int, every: int = 1) -> dict[str, int]:
    """How many flips were reported, and how many changed nothing; any other flip fails."""
    undamaged, counts = load_content(folder), {"reported": 0, "harmless": 0}
    for bit in flips(path, length, every):
        try:
            damaged = load_content(folder)
        except Misfit:
            counts["reported"] += 1
        else:
            assert damaged == undamaged, f"bit {bit} of {path.name} changed the model, and no error was raised"
            counts["harmless"] += 1
    return counts


@pytest.mark.parametrize(
    "name", [MANIFEST, "config.json", "generation_config.json", "tokenizer.json", "model.safetensors"]
)
def test_some_bits(sample, tmp_path, name):
    folder = shutil.copytree(sample, tmp_path / "model")
    path = folder / name
    length = header_length(path) if name.endswith("safetensors") else path.stat().st_size
    assert outcomes(folder, path, length, every=8 * length // 13)["reported"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [MANIFEST, "config.json", "generation_config.json", "model.safetensors"])
def test_every_bit_beside_a_manifest(sample, tmp_path, name):
    folder = shutil.copytree(sample, tmp_path / "model")
    path = folder / name
    length = header_length(path) if name.endswith("safetensors") else path.stat().st_size
    counts = outcomes(folder, path, length)
    assert sum(counts.values()) == 8 * length
    if name != MANIFEST:
        assert counts["harmless"] == 0, "the manifest has the checksum of every file"


@pytest.mark.slow
def test_every_bit_of_a_header_without_a_manifest(sample, tmp_path):
    """The header is compared with the shapes of the config and the size of the file."""
    folder = shutil.copytree(sample, tmp_path / "model")
    (folder / MANIFEST).unlink()
    path = folder / "model.safetensors"
    shapes = {name: parameter.shape for name, parameter in from_pretrained(folder).named_parameters()}

    def load_numbers():
        files = match_tensors(folder, shapes, None)
        return {name: x.tolist() for file, names in files.items() for name, x in load_tensors(folder / file, names)}

    undamaged, reported, length = load_numbers(), 0, header_length(path)
    for bit in flips(path, length):
        try:
            damaged = load_numbers()
        except Misfit:
            reported += 1
        else:
            assert damaged == undamaged, f"bit {bit} changed the parameters, and no error was raised"
    assert 4 * length < reported < 8 * length
