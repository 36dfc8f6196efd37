"""Matrices as int8 in a file: within half a step of each row's scale, loaded as checked, hostile files refused."""

import pytest
import torch
from models.small import assert_misfit, decoder, encoder_decoder
from safetensors.torch import load_file, save_file

from transom.models import Decoder, EncoderDecoder
from transom.models.quantization import dequantize_rows, quantize_rows
from transom.models.safetensors_files import SCALE

FILE = "model.safetensors"
W_Q = "stack.blocks.0.attention.W_Q.weight"


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(43)


@pytest.fixture
def folder(tmp_path):
    """A decoder saved in int8, without its manifest, to be tampered with."""
    decoder().save_pretrained(tmp_path / "model", dtype=torch.int8)
    (tmp_path / "model" / "manifest.json").unlink()
    return tmp_path / "model"


def tamper(folder, **changes):
    """Rewrite the file with other tensors; None removes one."""
    tensors = {**load_file(folder / FILE), **changes}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, folder / FILE)


def test_every_number_is_within_half_a_step():
    matrix = torch.randn(11, 17) * torch.logspace(-6, 4, 11)[:, None]
    matrix[5] = 0
    numbers, scale = quantize_rows(matrix)
    assert numbers.dtype == torch.int8
    for i in range(11):
        largest = max(abs(float(x)) for x in matrix[i])
        assert float(scale[i]) == pytest.approx(largest / 127)
        for j in range(17):
            assert abs(float(numbers[i, j]) * float(scale[i]) - float(matrix[i, j])) <= largest / 254 * 1.0001
    assert torch.equal(dequantize_rows(numbers, scale)[5], torch.zeros(17))
    assert numbers.abs().amax() == 127


def test_a_saved_model_loads_in_float32_or_bfloat16(tmp_path):
    model = encoder_decoder()
    model.save_pretrained(tmp_path / "model", dtype=torch.int8)
    tensors = load_file(tmp_path / "model" / FILE)
    for dtype in (torch.float32, torch.bfloat16):
        loaded = EncoderDecoder.from_pretrained(tmp_path / "model", dtype=dtype)
        read = dict(loaded.named_parameters())
        for name, parameter in model.named_parameters():
            expected = parameter.detach()
            if parameter.ndim == 2:
                assert tensors[name].dtype == torch.int8
                expected = dequantize_rows(*quantize_rows(expected))
            assert torch.equal(read[name].detach(), expected.to(dtype))
        assert loaded.source_embedding.vectors is loaded.unembedding
    # What is in the file stays as it is when it is saved once more.
    EncoderDecoder.from_pretrained(tmp_path / "model", dtype=torch.float32).save_pretrained(
        tmp_path / "again", dtype=torch.int8
    )
    again = load_file(tmp_path / "again" / FILE)
    assert all(torch.equal(again[name], tensors[name]) for name in tensors if not name.endswith(SCALE))


def test_shards_keep_a_matrix_and_its_scales_together(tmp_path):
    model = decoder()
    model.save_pretrained(tmp_path / "model", dtype=torch.int8, shard_bytes=1)
    assert len(list((tmp_path / "model").glob("model-*"))) > 3
    Decoder.from_pretrained(tmp_path / "model", dtype=torch.float32)


def test_by_default_all_numbers_must_be_float32(folder):
    assert_misfit(
        f"{folder / FILE} holds 'embedding.vectors' in torch.int8, but the parameters are torch.float32;"
        " give dtype=torch.float32 to load it so",
        Decoder.from_pretrained,
        folder,
    )


@pytest.mark.parametrize("scale", [None, torch.ones(3), torch.ones(12, 1), torch.ones(12, dtype=torch.float64)])
def test_a_matrix_without_its_scales_is_refused(folder, scale):
    tamper(folder, **{W_Q + SCALE: scale})
    assert_misfit(
        f"{folder / FILE} holds {W_Q!r} in int8, so {W_Q + SCALE!r} should have one float32 number for each row of a"
        " matrix, but it does not; take another copy",
        Decoder.from_pretrained,
        folder,
        dtype=torch.float32,
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0])
def test_a_scale_must_be_finite_and_not_negative(folder, number):
    scale = load_file(folder / FILE)[W_Q + SCALE]
    scale[2] = number
    tamper(folder, **{W_Q + SCALE: scale})
    assert_misfit(
        f"{folder / FILE} holds {W_Q!r} with a scale that is negative or not finite; take another copy",
        Decoder.from_pretrained,
        folder,
        dtype=torch.float32,
    )


def test_a_scale_belongs_to_a_matrix_in_int8(folder):
    matrix = load_file(folder / FILE)[W_Q]
    tamper(folder, **{W_Q: matrix.float()})
    assert_misfit(
        f"{folder / FILE} holds {W_Q + SCALE!r}, but no int8 matrix that it belongs to; take another copy",
        Decoder.from_pretrained,
        folder,
        dtype=torch.float32,
    )


def test_numbers_that_are_not_finite_are_not_saved_as_int8(tmp_path):
    model = decoder()
    with torch.no_grad():
        dict(model.named_parameters())[W_Q][1, 1] = float("inf")
    assert_misfit(
        f"int8 holds finite numbers, but {W_Q!r} has others; save it in float32 to look at it",
        model.save_pretrained,
        tmp_path / "model",
        dtype=torch.int8,
    )
