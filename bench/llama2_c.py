"""The writers of llama2.c (stories260K, stories15M, …) as folders of Transom's: start models, and golden tests.

    python -m bench.llama2_c stories15M.bin tokenizer.bin FOLDER

A model file holds seven sizes, then each tensor of all layers together, in float32. A tokenizer file holds a length,
then a score, a length and the bytes of each piece; it is SentencePiece's, so it is built as that of a GGUF file.
"""

import argparse
import struct
from pathlib import Path

import torch

from bench.measuring.instruments import note
from transom.models import Decoder, DecoderConfig
from transom.names import Misfit
from transom.text.gguf_tokenizer import load_gguf_tokenizer
from transom.text.tokenizer import Tokenizer

# The order of the tensors of the layers, by their names in Transom.
TENSORS = (
    "norm_attention.weight",
    "attention.W_Q.weight",
    "attention.W_K.weight",
    "attention.W_V.weight",
    "attention.W_O.weight",
    "norm_feed_forward.weight",
    "feed_forward.W_gate.weight",
    "feed_forward.W_down.weight",
    "feed_forward.W_up.weight",
)
UNKNOWN, START, END = 0, 1, 2
NORMAL, UNKNOWN_TYPE, CONTROL, BYTE = 1, 2, 3, 6  # types of pieces in a GGUF file


def read_model(path: Path) -> Decoder:
    """The model in a file of llama2.c."""
    content = path.read_bytes()
    d_model, d_hidden, layers, heads, kv_heads, vocabulary, longest = struct.unpack("7i", content[:28])
    config = DecoderConfig(
        vocabulary=vocabulary,
        d_model=d_model,
        d_hidden=d_hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        longest=longest,
        positions="rotary",
        norm="rms",
        arrangement="pre_norm",
        feed_forward="swiglu",
        bias=False,
        scaled=False,
        padding=None,
    )
    model = Decoder(config).eval()
    numbers, parameters = torch.frombuffer(bytearray(content[28:]), dtype=torch.float32), dict(model.named_parameters())
    names = [f"stack.blocks.{layer}.{name}" for name in TENSORS for layer in range(layers)]
    with torch.no_grad():
        for name in ["embedding.vectors", *names, "stack.closing.weight"]:
            count = parameters[name].numel()
            parameters.pop(name).view(-1).copy_(numbers[:count])
            numbers = numbers[count:]
    if parameters or len(numbers) != 2 * (longest * d_model // heads // 2):  # its angles come last
        raise Misfit(f"{path} should be a model of llama2.c, but its size does not fit its header; take another copy")
    return model


def read_pieces(path: Path) -> tuple[list[str], list[float]]:
    """The pieces of a tokenizer file as SentencePiece has them, and their scores."""
    content, at = path.read_bytes(), 4
    pieces, scores = list[str](), list[float]()
    while at < len(content):
        score, length = struct.unpack("fi", content[at : at + 8])
        pieces.append(content[at + 8 : at + 8 + length].decode("utf-8").replace(" ", "▁"))
        scores.append(score)
        at += 8 + length
    # The first pieces are the same for all, and older files write them otherwise.
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces[: len(first)] = first
    return pieces, scores


def read_tokenizer(path: Path) -> Tokenizer:
    pieces, scores = read_pieces(path)
    types = [UNKNOWN_TYPE, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * (len(pieces) - 259)]
    fields = {
        "model": "llama",
        "tokens": pieces,
        "scores": scores,
        "token_type": types,
        "unknown_token_id": UNKNOWN,
        "bos_token_id": START,
        "eos_token_id": END,
    }
    return load_gguf_tokenizer({f"tokenizer.ggml.{name}": value for name, value in fields.items()}, path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.llama2_c")
    parser.add_argument("model", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    model = read_model(options.model)
    model.save_pretrained(options.folder, read_tokenizer(options.tokenizer))
    note(f"{options.folder}: {model.count():,} parameters")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
