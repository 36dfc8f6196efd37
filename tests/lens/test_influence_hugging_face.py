"""`influence` of Hugging Face's models: eager and sdpa agree, estimates are near true knock-outs of small steps."""

import pytest
import torch

import transom
from transom import Misfit

pytest.importorskip("transformers")
from architectures import INTERFACE, SDPA

BOTH = ["GPT-2", "Llama, grouped", "Gemma 3, sliding window", "T5, relative bias", "Marian", "BERT"]


def one_sequence(architecture):
    return {name: x[:1] for name, x in architecture.inputs.items()}


def explain(architecture, attention, scale=1.0, how="before"):
    """Its influence, with everything behind attention made small by a scale."""
    model = architecture.build(attention)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o_proj.weight", "attn.c_proj.weight", "attention.output.dense.weight")):
                parameter.mul_(scale)
    hidden = lambda result: result.last_hidden_state[:, -1, :5].sum(dim=-1)  # noqa: E731
    gives_logits = architecture.model.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "MTModel"))
    return transom.influence(model, one_sequence(architecture), None if gives_logits else hidden, how=how)


@pytest.mark.parametrize("name", [BOTH[0], *(pytest.param(name, marks=pytest.mark.slow) for name in BOTH[1:])])
def test_eager_and_sdpa_give_the_same(name):
    eager, sdpa = (explain(SDPA[name], attention) for attention in ("eager", "sdpa"))
    assert eager.names == sdpa.names
    assert eager.value == pytest.approx(sdpa.value, rel=1e-3)
    largest = max(float(attention.edges().abs().max()) for attention in sdpa)
    assert largest > 1e-3
    for one in sdpa.names:
        assert torch.allclose(eager[one].edges(), sdpa[one].edges(), rtol=1e-2, atol=2e-3 * largest), one


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("name", ["Gemma 2, soft-capped", "GPT-OSS, with sinks", "Llama, grouped", "GPT-2"])
def test_estimates_are_near_knock_outs_where_steps_are_small(name, how):
    architecture, attention = (SDPA[name], "sdpa") if name in SDPA else (INTERFACE[name], "eager")
    found = explain(architecture, attention, scale=0.002, how=how)
    agreement = found.agreement(samples=24, seed=2)
    assert agreement.pearson > 0.99, agreement.summary()


def test_layers_that_share_one_module_are_refused(own_errors):
    architecture = SDPA["ALBERT, shared layers"]
    with pytest.raises(Misfit) as error:
        transom.influence(architecture.build("sdpa"), one_sequence(architecture), lambda result: result[0][:, 0, 0])
    assert str(error.value) == (
        "'encoder.albert_layer_groups.0.albert_layers.0.attention' ran more than once, so an edge there is not one edge"
        " of the run; use knock_out, which takes it out of every run"
    )
