"""Where the steps of Hugging Face models begin and end: all that can be proved by its numbers, and nothing else."""

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

from architectures import BY_HAND, SDPA

import transom
from transom.lens.capture.head_origin import ONLY_WEIGHTS, find_origin
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


def watch_model(architecture, attention):
    model = architecture.build(attention)

    def run():
        with torch.no_grad():
            return model(**architecture.inputs)

    with transom.watch(model) as trace:
        run()
    return model, run, trace


@pytest.mark.parametrize("name", PROVED)
def test_every_attention_of_a_model_is_proved_as_far_as_it_is_linear(name):
    model, run, trace = watch_model(SDPA[name], "sdpa")
    letters = PROVED[name]
    for path in trace.names:
        sight = trace[path]
        origin = find_origin(model, run, path, sight, head=3)
        assert "".join(letter for letter in "QKV" if f"W_{letter}" in origin.parameters) == letters
        assert origin.output is not None
        steps = steps_of(sight, 0, 3, origin=origin)
        size = float(origin.output.abs().max())
        assert np.allclose(steps["output"].values, origin.output.numpy(), rtol=1e-4, atol=1e-5 * size)
        assert any("shown as the model used" in note for note in steps.notes) is (letters != "QKV")


def test_if_only_a_softmax_was_seen_a_note_says_so():
    model, run, trace = watch_model(BY_HAND["BLOOM, ALiBi"], "eager")
    origin = find_origin(model, run, trace.names[0], trace[0])
    assert origin.notes == (ONLY_WEIGHTS,)
