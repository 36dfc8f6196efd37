"""GGUF files: bytes of a small one damaged, and headers with other counts, sizes and offsets; what loads is run."""

import random
import struct
from pathlib import Path

import torch

from fuzz.mutations import damage_bytes
from transom.training.inference import load_gguf

TOKENS = ["<unk>", "<s>", "</s>", "a", "b", "c", "d", "ab"]
NUMBERS = (0, 1, 7, 2**16, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1)
SIZES = {
    "llama.embedding_length": 6,
    "llama.feed_forward_length": 4,
    "llama.block_count": 1,
    "llama.attention.head_count": 1,
    "llama.context_length": 13,
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def prepare(folder: Path) -> tuple[Path, bytes]:
    path = folder / "model.gguf"
    content = small_file()
    path.write_bytes(content)
    load_gguf(path)  # what is imported for it counts for no input
    return path, content


def small_file() -> bytes:
    """A whole model, written by hand: a header, its tensors in float32."""
    values = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5),
        *(text(name) + struct.pack("<II", 4, size) for name, size in SIZES.items()),
        text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("llama"),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, len(TOKENS)) + b"".join(map(text, TOKENS)),
        text("tokenizer.ggml.scores") + struct.pack(f"<IIQ{len(TOKENS)}f", 9, 6, len(TOKENS), *range(len(TOKENS))),
        text("tokenizer.ggml.bos_token_id") + struct.pack("<II", 4, 1),
        text("tokenizer.ggml.eos_token_id") + struct.pack("<II", 4, 2),
    ]
    shapes = {"token_embd": (6, 8), "output_norm": (6,), "blk.0.attn_norm": (6,), "blk.0.ffn_norm": (6,)}
    shapes |= {f"blk.0.attn_{name}": (6, 6) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (6, 4), "blk.0.ffn_up": (6, 4), "blk.0.ffn_down": (4, 6)}
    infos, numbers, rng = b"", b"", random.Random(1)
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        infos += text(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(numbers))
        numbers += struct.pack(f"<{count}f", *(rng.gauss(0, 1) for _ in range(count)))
        numbers += b"\0" * (-len(numbers) % 32)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values)) + b"".join(values) + infos
    return header + b"\0" * (-len(header) % 32) + numbers


def try_input(state: tuple[Path, bytes], rng: random.Random) -> str:
    path, content = state
    damaged = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(damaged) - 8)
        kind = rng.choice(["<I", "<Q"])
        number = rng.choice(NUMBERS) % 2 ** (8 * struct.calcsize(kind))
        struct.pack_into(kind, damaged, place, number)
    path.write_bytes(bytes(damaged) if rng.random() < 0.7 else damage_bytes(content, rng))
    loaded = load_gguf(path)
    with torch.no_grad():
        loaded.model(torch.tensor([[1, 2, 3]]))
    loaded.tokenizer.decode(loaded.tokenizer.encode("a cab"))
    return "loaded"
