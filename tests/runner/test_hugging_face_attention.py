"""attn_implementation="transom" beside transformers' own eager attention and PyTorch's function."""

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

from architectures import BY_HAND, IDS, INTERFACE, MASK, SDPA  # noqa: E402

import transom  # noqa: E402
from transom import Misfit  # noqa: E402
from transom.kernels import dispatch  # noqa: E402
from transom.runner.hugging_face_attention import OWN_CLASSES, attend_for_hugging_face, split_mask  # noqa: E402

OWN_DISPATCH = {"Falcon"}  # its classes are listed by name, and the library refuses any other
EXCHANGED = {
    name: one for name, one in {**SDPA, **INTERFACE}.items() if name not in OWN_DISPATCH | {"GPT-OSS, with sinks"}
}
QUICK = {"GPT-2", "Llama, grouped", "Mistral, sliding window", "BERT", "T5, relative bias", "Gemma 2, soft-capped"}


@pytest.fixture(autouse=True)
def registered():
    transom.register_hugging_face_attention()


@pytest.fixture
def problems(monkeypatch):
    """Every attention that `transom.attend` is asked for."""
    found, solve = [], dispatch.solve
    monkeypatch.setattr(dispatch, "solve", lambda problem: found.append(problem) or solve(problem))
    return found


def real_rows(output):
    return output[MASK.bool()] if output.shape[:2] == MASK.shape else output


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EXCHANGED]
)
def test_it_gives_what_eager_and_sdpa_give_and_is_watched_as_transoms_own(name, problems):
    architecture = EXCHANGED[name]
    with torch.no_grad():
        expected = [real_rows(architecture.build("eager")(**architecture.inputs)[0])]
        if name in SDPA:
            expected.append(real_rows(architecture.build("sdpa")(**architecture.inputs)[0]))
        model = architecture.build("transom")
        plain = model(**architecture.inputs)[0]
        assert len(problems) == architecture.attentions, "each attention was transom.attend's"
        with transom.watch(model) as trace:
            watched = model(**architecture.inputs)[0]
    for other in expected:
        torch.testing.assert_close(real_rows(plain), other, rtol=1e-4, atol=2e-5)
    assert torch.equal(plain, watched)
    assert len(trace) == architecture.attentions
    assert all(sight.receipt().holds for sight in trace)


def test_generation_and_gradients_are_those_of_sdpa():
    models = [SDPA["Llama, grouped"].build(kind) for kind in ("transom", "sdpa")]
    settings = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    texts = [model.generate(IDS, attention_mask=MASK, **settings) for model in models]
    assert torch.equal(*texts)
    for model in models:
        model(input_ids=IDS, labels=IDS).loss.backward()
    for ours, theirs in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)


def test_a_text_without_padding_needs_no_mask_tensor(problems):
    with torch.no_grad():
        SDPA["Llama, grouped"].build("transom")(input_ids=IDS)
    assert [type(problem.mask).__name__ for problem in problems] == ["Causal"] * 2


def test_an_edge_is_knocked_out_of_it_and_its_influence_is_known():
    model = SDPA["GPT-2"].build("transom")
    inputs = {"input_ids": IDS[:1]}
    found = transom.influence(model, inputs)
    assert len(found) == 2
    name = found.names[0]
    with torch.no_grad():
        before = model(**inputs).logits[0, -1, found.target]
        with transom.knock_out(model, layer=name, head=1, query=10, key=3):
            after = model(**inputs).logits[0, -1, found.target]
    estimate = float(found[name].edges(batch=0, head=1, rows=10, keys=3))
    assert estimate == pytest.approx(float(after - before), rel=0.3, abs=1e-3)


@pytest.mark.parametrize("name", ["CodeGen", "BLOOM, ALiBi", "MPNet"])
def test_a_model_that_computes_its_own_attention_is_refused(name):
    architecture = BY_HAND[name]
    with pytest.raises(
        Misfit, match=r"exchanges the attention of a model, but \w+ computes its own; load the model with"
    ):
        architecture.build("transom")(**architecture.inputs)


OWN = {
    "Falcon": {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3},
    "GPTJ": {"n_embd": 24, "n_layer": 1, "n_head": 3, "rotary_dim": 4},
    "GPTNeo": {"hidden_size": 24, "num_layers": 1, "num_heads": 3, "attention_types": [[["global"], 1]]},
}


@pytest.mark.parametrize("family", OWN)
def test_a_model_with_classes_of_its_own_is_refused_in_words(family):
    import transformers

    transom.register_hugging_face_attention()
    config = getattr(transformers, f"{family}Config")(
        vocab_size=31, bos_token_id=None, eos_token_id=None, **OWN[family]
    )
    build = getattr(transformers, f"{family}ForCausalLM")._from_config
    with pytest.raises(
        Misfit, match=r"but \w+ has classes of its own for it; load the model with attn_implementation=\"e"
    ):
        build(config, attn_implementation="transom")
    with torch.no_grad():
        assert build(config, attn_implementation="eager").eval()(torch.arange(5)[None]).logits.isfinite().all()


@pytest.mark.parametrize("path", OWN_CLASSES)
def test_every_table_of_classes_is_found(path):
    import importlib

    transom.register_hugging_face_attention()
    code = importlib.import_module(f"transformers.models.{path}")
    tables = [table for name, table in vars(code).items() if name.endswith("_ATTENTION_CLASSES")]
    assert tables
    assert all("transom" in table for table in tables)


def test_what_it_cannot_do_is_an_error():
    with pytest.raises(
        Misfit, match=r"GptOssAttention asks for sinks \(s_aux\), which attn_implementation=\"transom\" do"
    ):
        INTERFACE["GPT-OSS, with sinks"].build("transom")(input_ids=IDS)
    Q = torch.randn(1, 2, 3, 4)
    K = torch.randn(1, 2, 5, 4)
    module = torch.nn.Module()
    with pytest.raises(Misfit, match=r"returns no weights, but output_attentions is set; leave it out and look with"):
        attend_for_hugging_face(module, Q, Q, Q, None, output_attentions=True)
    with pytest.raises(
        Misfit, match=r"needs as many keys as queries, but queries=3 and keys=5; give an attention_mask"
    ):
        attend_for_hugging_face(module, Q, K, K, None)


def test_a_float_mask_is_split_into_masked_keys_and_a_bias():
    lowest = torch.finfo(torch.float32).min
    allowed, bias = split_mask(torch.tensor([[[[0.5, lowest, 0.0, 9.0]]]]), 3)
    assert allowed.tolist() == [[[[True, False, True]]]]
    assert bias.tolist() == [[[[0.5, 0.0, 0.0]]]]
