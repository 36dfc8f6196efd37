"""Where the steps of Hugging Face models begin and end: all that can be proved by its numbers, and nothing else."""

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

from architectures import BY_HAND, SDPA

import transom
from transom.lens.asking.origin import ONLY_WEIGHTS, origin
from transom.lessons import steps_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
PROVED = {  # which of Q, K and V are X W + b
    "GPT-2": "QKV",
    "BERT": "QKV",
    "ViT": "QKV",
    "DistilBERT": "QKV",
    "T5, relative bias": "QKV",
    "BART": "QKV",
    "Llama, grouped": "V",
    "Qwen3": "V",
    "GPT-NeoX": "V",
}


def watched(one, attention):
    model = one.built(attention)

    def run():
        with torch.no_grad():
            return model(**one.inputs)

    with transom.watch(model) as trace:
        run()
    return model, run, trace


@pytest.mark.parametrize("name", PROVED)
def test_every_attention_of_a_model_is_proved_as_far_as_it_is_linear(name):
    model, run, trace = watched(SDPA[name], "sdpa")
    letters = PROVED[name]
    for path in trace.names:
        sight = trace[path]
        found = origin(model, run, path, sight, head=3)
        assert "".join(letter for letter in "QKV" if f"W_{letter}" in found.parameters) == letters
        assert found.output is not None
        steps = steps_of(sight, 0, 3, origin=found)
        size = float(found.output.abs().max())
        assert np.allclose(steps["output"].values, found.output.numpy(), rtol=1e-4, atol=1e-5 * size)
        assert any("shown as the model used" in note for note in steps.notes) is (letters != "QKV")


def test_where_only_a_softmax_was_seen_that_is_said():
    model, run, trace = watched(BY_HAND["BLOOM, ALiBi"], "eager")
    found = origin(model, run, trace.names[0], trace[0])
    assert found.notes == (ONLY_WEIGHTS,)
