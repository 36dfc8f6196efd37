"""What moved between two models: lengths and ranks beside numpy's."""

import json

import numpy as np
import pytest
import torch

from transom.cli import main
from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig
from transom.models.parameter_changes import parameter_changes
from transom.names import Misfit
from transom.text import Tokenizer


def writer(seed=1, **changes):
    torch.manual_seed(seed)
    return Decoder(DecoderConfig(vocabulary=9, d_model=6, heads=2, d_hidden=7, layers=2, **changes))


def moved_copy(model):
    """A copy with one matrix changed by rank 2, and one vector."""
    other = writer()
    other.load_state_dict(model.state_dict())
    torch.manual_seed(5)
    with torch.no_grad():
        other.stack.blocks[1].attention.W_V.weight += torch.randn(6, 2) @ torch.randn(2, 6)
        other.stack.blocks[0].norm_attention.bias[3] = 0.5
    return other


def test_what_did_not_move_is_zero_and_the_rest_as_numpy_has_it():
    old = writer()
    new = moved_copy(old)
    changes = {change.name: change for change in parameter_changes(old, new)}
    assert len(changes) == len(dict(old.named_parameters()))
    assert {name for name, change in changes.items() if change.change} == {
        "stack.blocks.1.attention.W_V.weight",
        "stack.blocks.0.norm_attention.bias",
    }
    change = changes["stack.blocks.1.attention.W_V.weight"]
    a, b = (model.stack.blocks[1].attention.W_V.weight.detach().double().numpy() for model in (old, new))
    assert change.change == pytest.approx(np.linalg.norm(b - a))
    assert change.share == pytest.approx(np.linalg.norm(b - a) / np.linalg.norm(a))
    assert change.largest == pytest.approx(np.abs(b - a).max())
    assert change.rank == 2
    assert changes["stack.blocks.0.norm_attention.bias"].share == 1.0
    assert changes["stack.blocks.0.norm_attention.bias"].rank is None


def test_models_without_a_common_parameter_are_an_error():
    other = Encoder(EncoderConfig(vocabulary=11, d_model=8, heads=2, d_hidden=9, layers=1))
    with pytest.raises(Misfit, match="these have none in common; name others"):
        parameter_changes(writer(), other)


def test_the_command(tmp_path, capsys):
    tokenizer = Tokenizer.train("words", ["a b c d e"], 9)
    old = writer()
    assert tokenizer.size == 9
    for name, model in (("old", old), ("new", moved_copy(old))):
        model.save_pretrained(tmp_path / name, tokenizer=tokenizer)
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("2 of ")
    assert printed[3].endswith("  stack.blocks.0.norm_attention.bias") or printed[3].split()[2] == "2"
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "new"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(change["change"] > 0 for change in found["changes"]) == 2
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "nowhere")]) == 2
