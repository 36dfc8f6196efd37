"""Checks of the rows about looking at a model: the words, TransformerLens, Hugging Face and nnsight."""

import inspect
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
import transformers
from coming_from.page_rows import check
from coming_from.small_models import (
    D_HEAD,
    HEADS,
    KV_HEADS,
    NAME,
    TOKENS,
    WORDS,
    bart,
    generated,
    generating,
    head_outputs,
    llama,
    llama_trace,
    logits,
    looking,
    masked_score,
    own_weights,
    pre_hook,
    run_watched,
    two_sides,
    watched,
)
from torch import Tensor

import transom

words = partial(check, "The words", names=looking)
lens = partial(check, "TransformerLens", names=looking)
hugging_face = partial(check, "Hugging Face transformers", names=looking)
nnsight = partial(check, "nnsight", names=looking)

close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)


def by_heads(joined: Tensor) -> Tensor:
    """(batch, token, heads · d_head) as (batch, heads, token, d_head)."""
    return joined.unflatten(-1, (HEADS, D_HEAD)).transpose(1, 2)


@words("pattern, attention probabilities, attention matrix, attn_weights")
@lens('cache["pattern", 1], hook_pattern')
@hugging_face("model(tokens, output_attentions=True).attentions[1]")
@nnsight("model.model.layers[1].self_attn.output[1].save()")
def check_weights(weights: Tensor) -> None:
    close(weights, own_weights()[1])
    assert weights.std() > 0.1


@hugging_face('attn_implementation="eager"')
@lens("HookedTransformer.from_pretrained, TransformerBridge.boot_transformers")
@nnsight("NNsight(model), LanguageModel(name)")
def check_model_unchanged() -> None:
    """Watched on its own kernel: the same bits, and nothing left behind."""
    before = {name: tensor.clone() for name, tensor in llama().state_dict().items()}
    plain = logits(llama())
    with transom.watch(llama()) as trace:
        assert torch.equal(logits(llama()), plain)
    assert llama().config._attn_implementation == "sdpa"
    assert all(torch.equal(tensor, before[name]) for name, tensor in llama().state_dict().items())
    assert not [1 for module in llama().modules() if module._forward_hooks or module._forward_pre_hooks]
    assert len(trace) == 2


@words("attention logits, raw attention")
@lens("hook_attn_scores")
def check_scores(scores: Tensor) -> None:
    close(scores.softmax(-1), own_weights()[1])
    assert (scores == -torch.inf).sum() == HEADS * 7 * 6 / 2
    close(scores.logsumexp(-1), llama_trace()[1].lse)


@words("weights of the model")
def check_parameters(parameters: Any) -> None:
    assert all(isinstance(one, torch.nn.Parameter) for one in parameters)


@words("z, head output, mixed values")
@lens("hook_z")
@nnsight("model.model.layers[1].self_attn.o_proj.input")
def check_output(output: Tensor) -> None:
    close(output, by_heads(head_outputs()))


@words("LSE, logsumexp, softmax normaliser")
def check_lse(lse: Tensor) -> None:
    sight = llama_trace()[1]
    K = sight.K.repeat_interleave(HEADS // KV_HEADS, dim=1)
    scores = (sight.Q @ K.mT / D_HEAD**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    close(lse, scores.logsumexp(-1))
    close((sight.scores() - lse[..., None]).exp(), sight.weights())


@words("destination and source position, query and key position")
def check_axes(weights: Tensor) -> None:
    close(weights, own_weights()[1][:, :, -1, 0])


def knocked_out(block: AbstractContextManager[None]) -> Tensor:
    """What the model gives within a block; behind it, it gives what it gave before."""
    before = logits(llama())
    with block:
        found = logits(llama())
    assert torch.equal(logits(llama()), before)
    assert not torch.allclose(found, before, atol=1e-4)
    return found


@words("ablation, knockout, intervention")
@lens("zero ablation of a head: hook_z set to 0")
@hugging_face("head_mask, prune_heads (both gone in transformers 5)")
@nnsight("o_proj.input[…] = 0 for the slice of one head")
def check_head_knocked_out(block: AbstractContextManager[None]) -> None:
    def without(joined: Tensor) -> Tensor:
        joined[..., 2 * D_HEAD : 3 * D_HEAD] = 0
        return joined

    with pre_hook(without):
        expected = logits(llama("eager"))
    close(knocked_out(block), expected)
    for model in (transformers.GPT2LMHeadModel, transformers.BertModel):
        assert "head_mask" not in inspect.signature(model.forward).parameters
        assert not hasattr(model, "prune_heads")


@lens("run_with_hooks that sets one score to −∞")
@nnsight(".source inside eager attention, a score set to −∞")
def check_edge_knocked_out_before(block: AbstractContextManager[None]) -> None:
    with masked_score(head=2, query=-1, key=3):
        expected = logits(llama("eager"))
    close(knocked_out(block), expected)


@lens("run_with_hooks that sets one entry of the pattern to 0")
def check_edge_knocked_out_after(block: AbstractContextManager[None]) -> None:
    value = llama_trace()[1].V[0, 2 // (HEADS // KV_HEADS), 3]

    def without(joined: Tensor) -> Tensor:
        joined[0, -1, 2 * D_HEAD : 3 * D_HEAD] -= own_weights()[1][0, 2, -1, 3] * value
        return joined

    with pre_hook(without):
        expected = logits(llama("eager"))
    close(knocked_out(block), expected)


@words("attention edge")
def check_edge(edge: tuple[int, int, int, int]) -> None:
    with transom.knock_out(llama(), edges=[edge]):
        trace = watched(llama(), TOKENS)
    assert trace[1].weights(batch=0, head=2, rows=-1, keys=0) == 0


@words("BOS attention, attention sink")
def check_sink(table: Any) -> None:
    for head in range(HEADS):
        close(torch.tensor(table[NAME, head]["sink"]), own_weights()[1][0, head, :, 0].mean())


@words("MQA, GQA, n_kv_heads")
def check_kv_heads(settings: dict[str, int]) -> None:
    sight = llama_trace()[1]
    assert settings["kv_heads"] == sight.K.shape[1] == sight.V.shape[1] == llama().config.num_key_value_heads
    assert sight.weights().shape[1] == HEADS


@lens("model.run_with_cache(tokens)")
@nnsight("with model.trace(tokens): … .save()")
def check_watched(trace: transom.Trace) -> None:
    assert trace.names == ["model.layers.0.self_attn", NAME]
    close(trace[1].weights(), own_weights()[1])


@lens("names_filter=")
def check_first_layer_alone(block: AbstractContextManager[transom.Trace]) -> None:
    assert run_watched(block).names == ["model.layers.0.self_attn"]


@lens('cache.to("cpu"), device=')
def check_device(block: AbstractContextManager[transom.Trace]) -> None:
    assert run_watched(block)[1].Q.device.type == "cpu"


@lens("to_str_tokens")
@hugging_face("tokenizer.convert_ids_to_tokens(ids)")
def check_labels(block: AbstractContextManager[transom.Trace]) -> None:
    labels = run_watched(block).labels(NAME)
    assert labels.reads == labels.at == WORDS


@hugging_face("outputs.cross_attentions, encoder_attentions, decoder_attentions", names=two_sides)
def check_cross_attention(weights: Tensor) -> None:
    asked = {"input_ids": TOKENS, "decoder_input_ids": TOKENS[:, :5], "output_attentions": True}
    with torch.no_grad():
        theirs = bart("eager")(**asked)
    close(weights, theirs.cross_attentions[0])
    trace = two_sides()["trace"]
    close(trace["model.encoder.layers.0.self_attn"].weights(), theirs.encoder_attentions[0])
    close(trace["model.decoder.layers.0.self_attn"].weights(), theirs.decoder_attentions[0])


@lens("hook_q, hook_k, hook_v")
@nnsight("self_attn.source, inputs of attention_interface")
def check_projections(Q: Tensor, K: Tensor, V: Tensor) -> None:
    """As the layer projects them, in the heads that it has; positions turn all queries and keys but the first."""
    attention, found = llama().model.layers[1].self_attn, {}
    handles = [
        module.register_forward_hook(lambda _, given, came, name=name: found.update({name: came}))
        for name, module in (("Q", attention.q_proj), ("K", attention.k_proj), ("V", attention.v_proj))
    ]
    logits(llama())
    for handle in handles:
        handle.remove()
    plain = {name: came.unflatten(-1, (-1, D_HEAD)).transpose(1, 2) for name, came in found.items()}
    close(V, plain["V"])
    for turned, name in ((Q, "Q"), (K, "K")):
        close(turned[:, :, 0], plain[name][:, :, 0])
        close(turned.norm(dim=-1), plain[name].norm(dim=-1))
        assert not torch.allclose(turned[:, :, 1:], plain[name][:, :, 1:], atol=0.1)
    assert (Q.shape[1], K.shape[1], V.shape[1]) == (HEADS, KV_HEADS, KV_HEADS)


@hugging_face("repeat_kv")
def check_grouped_keys(K: Tensor, weights: Tensor) -> None:
    assert K.shape[1] == llama().config.num_key_value_heads
    assert weights.shape == own_weights()[1].shape


@lens("remove_batch_dim()")
@nnsight("tracer.invoke(…), several prompts")
def check_one_of_a_batch(weights: Tensor) -> None:
    close(weights, own_weights()[1][0])


@lens("logit difference with and without an edge")
def check_effect(table: transom.EffectTable) -> None:
    before = logits(llama("eager"))[0, -1]
    with masked_score(head=2, query=-1, key=3):
        after = logits(llama("eager"))[0, -1]
    (row,) = table.rows
    target = before.argmax()
    close(torch.tensor(row.weight), own_weights()[1][0, 2, -1, 3])
    close(torch.tensor(row.change), after[target] - before[target], atol=1e-4, rtol=1e-4)
    close(torch.tensor(row.probability_change), (after.softmax(-1) - before.softmax(-1))[target], atol=1e-4, rtol=1e-4)


@lens('detect_head(model, text, "previous_token_head"); duplicate, induction')
def check_heads(table: Any) -> None:
    """The tokens 7 and 11 come twice, at 1 and 4, at 2 and 5."""
    for head in range(HEADS):
        weights, row = own_weights()[1][0, head], table[NAME, head]
        close(torch.tensor(row["previous"]), weights.diagonal(-1).mean())
        close(torch.tensor(row["duplicate"]), (weights[4, 1] + weights[5, 2]) / 2)
        close(torch.tensor(row["induction"]), (weights[4, 2] + weights[5, 3]) / 2)


@lens("reset_hooks()")
def check_nothing_to_reset() -> None:
    before = logits(llama())
    try:
        with transom.knock_out(llama(), layer=1, head=2):
            logits(llama())
            raise KeyError("the user's own")
    except KeyError:
        assert torch.equal(logits(llama()), before)


@lens("past_kv_cache and the pattern of a whole generation", names=generating)
def check_stitched(trace: transom.Trace) -> None:
    assert trace[1].weights().shape == (1, HEADS, 10, 10)
    assert len(trace) == 2


@hugging_face("generate(…, return_dict_in_generate=True, output_attentions=True)", names=generating)
def check_stitched_weights(weights: Tensor) -> None:
    trace, theirs = generated()
    assert [step[1].shape[2] for step in theirs.attentions] == [7, 1, 1, 1]
    steps = [step[1] for step in theirs.attentions]
    close(weights, torch.cat([torch.nn.functional.pad(one, (0, 10 - one.shape[-1])) for one in steps], dim=2))
    for sight, one in zip(trace.all(NAME), steps, strict=True):
        close(sight.weights(), one)


@nnsight("tracer.iter[:] in model.generate(…)", names=generating)
def check_steps(steps: list[transom.Sight]) -> None:
    assert [sight.weights().shape[2:] for sight in steps] == [(7, 7), (1, 8), (1, 9), (1, 10)]


@nnsight("tracer.cache()")
def check_items(found: dict[str, transom.Sight]) -> None:
    assert list(found) == llama_trace().names
    close(found[NAME].weights(), own_weights()[1])


@nnsight("model.session(), a value of one trace used in another")
def check_difference(change: Any) -> None:
    after = watched(llama(), TOKENS.flip(1))
    close(change.weights(NAME, head=0, batch=0), (after[1].weights() - llama_trace()[1].weights())[0, 0])
