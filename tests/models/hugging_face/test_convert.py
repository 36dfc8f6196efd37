"""What a conversion refuses, in words; Hugging Face's defaults; and models of Transom's own as Hugging Face's."""

import json

import pytest
import torch
from models.hugging_face.families import DECODERS, build, transformers
from models.small import assert_misfit, decoder, rows
from safetensors.torch import load_file, save_file

from transom import models
from transom.models.hugging_face import FAMILIES

DERIVED = {"rope_theta", "head_dim", "sliding_window"}  # configs hold them elsewhere, or work them out from others


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(71)


@pytest.fixture
def folder(tmp_path):
    build(*DECODERS["llama"]).save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_defaults_are_those_of_transformers(family):
    config = getattr(transformers, family.class_name(DUMMIES[family.kind])).config_class()
    for name, value in family.defaults.items():
        if hasattr(config, name) and name not in DERIVED:
            assert getattr(config, name) == value, name


class NoHead:
    labels, masked_tokens = (), False


DUMMIES = dict.fromkeys(("decoder", "encoder_decoder", "encoder"), NoHead)

FIELDS = {
    "an unknown architecture": (
        {"model_type": "lama"},
        "the model_type of {folder} must be one of " + ", ".join(FAMILIES) + ", but got 'lama'; did you mean 'llama'?",
    ),
    "an unknown class": (
        {"architectures": ["LlamaForTokenClassification"]},
        "{folder} is a 'LlamaForTokenClassification', but of llama Transom has LlamaForCausalLM, LlamaModel; load it as"
        " one of these first",
    ),
    "an unknown field": (
        {"final_softcap": 30.0},
        "{folder} has a field 'final_softcap' (30.0) that Transom does not know, and it might change the result; leave"
        " it out if it does not",
    ),
    "a value that changes the result": (
        {"hidden_act": "gelu"},
        "{folder} has hidden_act='gelu', but Transom's model computes what hidden_act='silu' does; take another model",
    ),
    "an unknown scaling": (
        {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}},
        "{folder} has rope_type='longrope', but Transom knows default, linear, llama3, yarn; take another model",
    ),
    "an unknown setting of a scaling": (
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0, "fast": 3}},
        "{folder} has 'fast' in rope_parameters, which Transom does not know; leave it out if it changes nothing",
    ),
    "a scaling without its number": (
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4}},
        "{folder} has rope_parameters of 'linear' in which a number is missing or none ('factor'); correct them",
    ),
    "a scaling that is no object": (
        {"rope_parameters": "linear"},
        "{folder} has rope_parameters='linear', but they must be an object; correct them",
    ),
    "two scalings": (
        {"rope_scaling": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
        "{folder} has rope_parameters and another rope_scaling, and only one of them can hold; leave one out",
    ),
    "no number where one must be": (
        {"rms_norm_eps": None},
        "{folder} has rms_norm_eps=None, but it must be a number; correct its config.json",
    ),
    "a part of a rotation": (
        {"partial_rotary_factor": 0.5},
        "{folder} has a partial_rotary_factor, but Transom rotates whole heads; take another model",
    ),
    "sizes of another model": (
        {"intermediate_size": 19},
        "{folder} holds 'model.layers.0.mlp.gate_proj.weight' as (17, 12), which does not fit"
        " stack.blocks.0.feed_forward.W_gate.weight of (19, 12); does its config.json belong to it?",
    ),
    "more layers than there are": (
        {"num_hidden_layers": 5},
        "{folder} should hold 'model.layers.3.self_attn.q_proj.weight', but it does not; is the copy complete?",
    ),
    "fewer layers than there are": (
        {"num_hidden_layers": 2},
        "{folder} holds 'model.layers.2.input_layernorm.weight', which Transom's model has no place for; leave it out",
    ),
    "ties that are not there": (
        {"tie_word_embeddings": True},
        "{folder} holds 'lm_head.weight', which its config ties to 'model.embed_tokens.weight', but the two differ;"
        " set tie_word_embeddings to false",
    ),
    "a size that no model has": (
        {"num_attention_heads": 10**9},
        "heads must be a whole number from 1 to 4096, but got 1000000000; give another size",
    ),
}


@pytest.mark.parametrize("case", FIELDS)
def test_a_folder_that_cannot_be_the_same_is_refused_in_words(case, folder):
    change, message = FIELDS[case]
    change_config(folder, **change)
    assert_misfit(message.replace("{folder}", str(folder)), models.from_hugging_face, folder)


def test_pickled_parameters_are_refused_in_words(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    message = (
        f"{folder} should hold model.safetensors, but its parameters are in 'pytorch_model.bin', pickled objects, which"
        " can run code when they are read, so Transom never does; save the model with save_pretrained of transformers,"
        " which writes safetensors"
    )
    assert_misfit(message, models.from_hugging_face, folder)


def test_missing_tensors_and_other_dtypes_are_refused_in_words(folder):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    lost = tensors.pop("model.norm.weight")
    save_file(tensors, file)
    message = f"{folder} should hold 'model.norm.weight', but it does not; is the copy complete?"
    assert_misfit(message, models.from_hugging_face, folder)
    save_file(tensors | {"model.norm.weight": lost.to(torch.float8_e4m3fn)}, file)
    message = (
        f"{file} holds 'model.norm.weight' in F8_E4M3, but Transom reads F64, F32, F16, BF16, I8; convert it"
        if "I8" in models.safetensors_files.DTYPES
        else f"{file} holds 'model.norm.weight' in F8_E4M3, but Transom reads F64, F32, F16, BF16; convert it"
    )
    assert_misfit(message, models.from_hugging_face, folder)


def test_generation_settings_come_with_the_model(folder):
    path = folder / "generation_config.json"
    path.write_text(json.dumps({"do_sample": True, "temperature": 0.6, "eos_token_id": [5, 7], "pad_token_id": None}))
    generation = models.from_hugging_face(folder).generation
    assert (generation.ends, generation.pad_token_id, generation.temperature) == ((5, 7), 5, 0.6)
    assert (generation.do_sample, generation.top_k) == (True, 50)  # transformers' default, when it samples
    path.write_text(json.dumps({"typical_p": 0.5}))
    assert_misfit(
        f"{folder} generates with typical_p=0.5, which Transom does not know, and which changes what it writes; take it"
        " out of generation_config.json",
        models.from_hugging_face,
        folder,
    )


def test_something_else_is_no_model():
    assert_misfit(
        "from_hugging_face takes a model of transformers, or a folder, but got Linear; give one of its models",
        models.from_hugging_face,
        torch.nn.Linear(2, 3),
    )


def test_narrow_numbers_are_widened(tmp_path):
    theirs = build(*DECODERS["gpt2"]).to(torch.bfloat16)
    theirs.save_pretrained(tmp_path)
    ours = models.from_hugging_face(tmp_path)
    assert ours.unembedding.dtype == torch.float32
    assert torch.equal(ours.unembedding, theirs.lm_head.weight.float())
    assert models.from_hugging_face(tmp_path, dtype=torch.bfloat16).unembedding.dtype == torch.bfloat16


def test_a_class_without_a_head_has_the_same_vectors(tmp_path):
    theirs = build("GPT2Model", DECODERS["gpt2"][1])
    theirs.save_pretrained(tmp_path)
    tokens = torch.stack(rows(11, 11, vocabulary=41))
    with torch.no_grad():
        expected = theirs(tokens).last_hidden_state
        for source in (theirs, tmp_path):
            torch.testing.assert_close(models.from_hugging_face(source).hidden(tokens), expected, rtol=0, atol=1e-4)


LLAMA_PARTS = {"positions": "rotary", "norm": "rms", "feed_forward": "swiglu", "bias": False, "scaled": False}
OWN = {
    "gpt2": {"positions": "learned", "feed_forward": "gelu", "scaled": False},
    "gpt2 without biases": {"positions": "learned", "bias": False, "scaled": False, "padding": None},
    "llama, scaled": LLAMA_PARTS | {"scaled": True},
    "llama, neighbours": LLAMA_PARTS | {"heads": 6, "kv_heads": 2, "d_head": 4},
    "qwen2, neighbours": LLAMA_PARTS | {"qkv_bias": True},
    "qwen3, neighbours": LLAMA_PARTS | {"qk_norm": True, "sliding_window": 3, "sliding_layers": (1,)},
    "mistral, halves": LLAMA_PARTS | {"position_halves": True, "sliding_window": 3},
}


@pytest.mark.parametrize("name", OWN)
@torch.no_grad()
def test_a_decoder_of_our_own_is_one_of_transformers(name):
    ours = decoder(arrangement="pre_norm", **OWN[name])
    theirs = models.to_hugging_face(ours)
    assert theirs.config.model_type == name.split(",")[0].split(" ")[0]
    tokens = torch.stack(rows(11, 11))
    torch.testing.assert_close(theirs(tokens).logits, ours(tokens), rtol=0, atol=1e-4)


def test_parts_that_no_family_has_are_named():
    assert_misfit(
        "no model of Hugging Face's has all parts of this one; llama comes nearest, but there arrangement would be"
        " 'pre_norm' instead of 'post_norm'; build the model with what it has",
        models.to_hugging_face,
        decoder(**LLAMA_PARTS),
    )
    message = (
        "no model of Hugging Face's has all parts of this one; gpt2 comes nearest, but there positions would be"
        " 'learned' instead of 'alibi'; build the model with what it has"
    )
    model = decoder(arrangement="pre_norm", positions="alibi", feed_forward="gelu", scaled=False)
    assert_misfit(message, models.to_hugging_face, model, "gpt2")
    assert_misfit(
        "family must be one of " + ", ".join(FAMILIES) + ", but got 'gpt'; did you mean 'gpt2'?",
        models.to_hugging_face,
        model,
        "gpt",
    )
