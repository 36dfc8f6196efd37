"""GGUF files: written by the package gguf, read by Transom; hostile ones are refused in a line."""

import struct

import numpy as np
import pytest
import torch
from models.hugging_face.families import DECODERS, build
from models.small import assert_misfit

import transom
from transom import models
from transom.models.gguf import from_gguf
from transom.models.gguf.architectures import ARCHITECTURES
from transom.models.gguf.header import TENSOR_TYPES, read_header
from transom.models.gguf.load import dequantize
from transom.runner.import_model import import_model

gguf = pytest.importorskip("gguf")
TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abc", "▁a", "ab", "▁ab"]
FIELDS = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 32,
}
SIZES = FIELDS | {"vocab_size": len(TOKENS), "num_hidden_layers": 2, "max_position_embeddings": 37}


def llama(name="llama"):
    class_name, fields = DECODERS[name]
    return build(class_name, fields | SIZES)


def pair_neighbours(tensor, heads):
    """llama.cpp's order of the rows of W_Q and W_K, row by row."""
    d_head = len(tensor) // heads
    order = [head * d_head + row // 2 + (row % 2) * (d_head // 2) for head in range(heads) for row in range(d_head)]
    return tensor[order]


def write(path, model, architecture="llama", quantization="F32", **changes):
    """A model of transformers as a GGUF file, by the package's own writer."""
    config, writer = model.config, gguf.GGUFWriter(str(path), architecture)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(16)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([-float(len(TOKENS) - number) for number in range(len(TOKENS))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (len(TOKENS) - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, value in changes.items():
        writer.add_uint32(name.replace("__", "."), value)
    ours = {theirs: mine for mine, theirs in ARCHITECTURES[architecture].names.items()}
    for name, tensor in model.state_dict().items():
        stem, ending = name.rsplit(".", 1)
        layer = next((part for part in name.split(".") if part.isdigit()), "")
        stored = ours[stem.replace(f".{layer}.", ".{i}.") if layer else stem].replace("{i}", layer)
        if architecture == "llama" and stored.endswith(("attn_q", "attn_k")):
            heads = config.num_attention_heads if stored.endswith("q") else config.num_key_value_heads
            tensor = pair_neighbours(tensor, heads)
        kind = gguf.GGMLQuantizationType[quantization if tensor.dim() == 2 else "F32"]
        writer.add_tensor(f"{stored}.{ending}", gguf.quants.quantize(tensor.numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
@torch.no_grad()
def test_logits_are_those_of_transformers(name, tmp_path):
    theirs = llama(name)
    ours = from_gguf(write(tmp_path / "model.gguf", theirs, name))
    tokens = torch.randint(3, len(TOKENS), (2, 11))
    torch.testing.assert_close(
        ours(tokens), theirs(tokens).logits, rtol=0, atol=1e-4 * float(theirs(tokens).logits.abs().max())
    )


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
def test_numbers_are_as_the_package_reads_them(kind, tmp_path):
    path = write(tmp_path / "model.gguf", llama(), quantization=kind)
    header, reader = read_header(path), gguf.GGUFReader(path)
    assert header.metadata == {
        name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF")
    }
    assert list(header.tensors) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        found = header.tensors[tensor.name]
        assert (found.offset, list(found.shape)) == (tensor.data_offset, [int(size) for size in reversed(tensor.shape)])
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(dequantize(path, tensor.name, found).numpy(), expected)
    assert kind in {tensor.type.name for tensor in header.tensors.values()}
    from_gguf(path)


@pytest.mark.parametrize("kind", TENSOR_TYPES.values(), ids=lambda kind: kind.name)
def test_sizes_of_blocks_are_the_packages(kind):
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind.name]] == (kind.block, kind.size)


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K"])
def test_blocks_of_256_are_multiplied_out_by_their_formula(kind, tmp_path):
    """One block, written by hand with scales of 1 and no smallest value but 0, whose numbers are then whole."""
    size = next(known.size for known in TENSOR_TYPES.values() if known.name == kind)
    block, half = bytearray(size), struct.pack("<e", 1.0)
    if kind == "Q4_K":  # scale, smallest, 12 bytes of 6-bit scales, 128 bytes of two numbers each
        block[0:2], block[4:8], block[12:16] = half, b"\x01" * 4, b"\x01" * 4
        block[16:] = bytes(range(128))
        numbers = [block[16 + 32 * (i // 64) + i % 32] >> 4 * (i % 64 // 32) & 15 for i in range(256)]
    else:  # 128 bytes of low bits, 64 of high bits, 16 scales, one scale for all
        block[:128], block[192:208], block[208:] = bytes(range(128)), b"\x01" * 16, half
        numbers = [(block[64 * (i // 128) + i % 64] >> 4 * (i % 128 // 64) & 15) - 32 for i in range(256)]
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    rows = np.frombuffer(bytes(block), dtype=np.uint8).reshape(1, -1)
    writer.add_tensor("x", rows, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert dequantize(path, "x", read_header(path).tensors["x"]).flatten().tolist() == numbers


def test_a_file_is_a_model_for_text_and_can_be_imported(tmp_path):
    path = write(tmp_path / "model.gguf", llama())
    ours = transom.load(path)
    assert ours.tokenizer.pieces(ours.encode_fitting("ab c")) == ["<s>", "▁ab", "▁", "c"]
    assert ours.decode(ours.encode_fitting("ab c é")) == "ab c é"
    report = import_model(path, tmp_path / "folder")
    assert (report.family, report.dtype, report.notes) == ("llama", "float32", [])
    again = transom.load(tmp_path / "folder")
    assert again.generate(["ab"], max_new_tokens=7) == ours.generate(["ab"], max_new_tokens=7)
    assert all(map(torch.equal, again.model.parameters(), ours.model.parameters()))
    assert isinstance(again.model, models.Decoder)


def test_unknown_settings_are_named(tmp_path):
    path = write(tmp_path / "model.gguf", llama(), llama__expert_count=8)
    assert_misfit(
        f"{path} has a setting 'llama.expert_count' (8) that Transom does not know, and it might change the result;"
        " take another model",
        from_gguf,
        path,
    )


def damage(path, place, kind, number):
    content = bytearray(path.read_bytes())
    struct.pack_into(kind, content, place, number)
    path.write_bytes(content)
    return path


def test_hostile_headers_are_refused_in_words(tmp_path):
    def whole():
        return write(tmp_path / "model.gguf", llama())

    should = f"{tmp_path / 'model.gguf'} should be a GGUF file, but "
    refused = {
        (4, "<I", 9): "it has version 9, and Transom reads 2 and 3",
        (8, "<Q", 2**60): "it says 1152921504606846976 tensors, and at most 65536 are read",
        (16, "<Q", 2**60): "it says 1152921504606846976 keys, and at most 4096 are read",
        (24, "<Q", 2**60): "it says 1152921504606846976 bytes of text, and at most 256 are read",
    }
    for change, reason in refused.items():
        assert_misfit(f"{should}{reason}; take another copy", read_header, damage(whole(), *change))
    path = whole()
    last = list(read_header(path).tensors)[-1]
    path.write_bytes(path.read_bytes()[:-200])
    assert_misfit(f"{should}{last!r} does not lie in the file; take another copy", read_header, path)
    path.write_bytes(b"GGUF")
    assert_misfit(f"{should}its header goes beyond 4 bytes; take another copy", read_header, path)
