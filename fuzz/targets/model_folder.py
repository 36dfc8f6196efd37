"""Model folders: each of their files damaged, with the manifest made to agree and without; what loads is run."""

import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import torch

from fuzz.mutations import damage_bytes, damage_data, damage_json, damage_text, join_tensors, split_tensors
from transom.files.atomic_files import MANIFEST, Manifest, ManifestEntry, sha256_of
from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig, from_pretrained
from transom.text.tokenizer import Tokenizer


def prepare(folder: Path) -> tuple[Path, list[dict[str, bytes]]]:
    torch.manual_seed(1)
    tokenizer = Tokenizer.train("words", ["the cat sat", "a dog saw the cat"], 20)
    sizes: dict[str, Any] = {
        "vocabulary": tokenizer.size,
        "d_model": 6,
        "heads": 3,
        "d_hidden": 7,
        "layers": 1,
        "longest": 11,
    }
    found = []
    Decoder(DecoderConfig(**sizes)).save_pretrained(folder / "whole", tokenizer)
    Encoder(EncoderConfig(**sizes, labels=("no", "yes"))).save_pretrained(folder / "labels", tokenizer)
    Decoder(DecoderConfig(**sizes)).save_pretrained(folder / "shards", tokenizer, shard_bytes=400)
    for name in ("whole", "labels", "shards"):
        from_pretrained(folder / name)  # what torch imports for it counts for no input
        found.append({path.name: path.read_bytes() for path in sorted((folder / name).iterdir())})
        shutil.rmtree(folder / name)
    return folder / "model", found


def try_input(state: tuple[Path, list[dict[str, bytes]]], rng: random.Random) -> str:
    folder, samples = state
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    files = dict(rng.choice(samples))
    for name in rng.sample(sorted(files), rng.choice([1, 1, 1, 2])):
        files[name] = damage_file(name, files[name], rng)
    if rng.random() < 0.05:
        del files[rng.choice(sorted(files))]
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if rng.random() < 0.7:
        (folder / MANIFEST).unlink(missing_ok=True)
        if rng.random() < 0.5:
            files = {path.name: ManifestEntry(path.stat().st_size, sha256_of(path)) for path in folder.iterdir()}
            (folder / MANIFEST).write_bytes(msgspec.json.encode(Manifest(files)))
    model = from_pretrained(folder)
    with torch.no_grad():
        model(torch.tensor([[1, 2, 3]]))
    if (folder / "tokenizer.json").exists():
        Tokenizer.load(folder / "tokenizer.json").encode("the cat")
    return "loaded"


def damage_file(name: str, content: bytes, rng: random.Random) -> bytes:
    if name.endswith(".json"):
        return damage_json(content, rng)
    if name.endswith(".safetensors") and rng.random() < 0.7:
        header, numbers = split_tensors(content)
        return join_tensors(damage_data(header, rng), numbers)
    return damage_bytes(content, rng) if rng.random() < 0.5 else damage_text("x", rng).encode("utf-8", "replace")
