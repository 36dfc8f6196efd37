"""What each peer can do, for docs/compare.md: probes on small models with random parameters.

A probe returns its result in words. Each peer is imported only in its own function, so its probes run in any
interpreter that has it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bench.peers.watching_contender import build_gpt2, gpt2_config, random_tokens

SIZES = {"tokens": 37, "layers": 2, "d_model": 48, "heads": 3}
Probe = Callable[[], str]


def build_encoder() -> nn.Module:
    """A user's own model: PyTorch's encoder in evaluation mode, where it takes its fast path."""
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(48, 3, 96, batch_first=True), 2).eval()


def random_vectors() -> torch.Tensor:
    return torch.randn(1, 37, 48, generator=torch.Generator().manual_seed(1))


def compare_outputs(actual: torch.Tensor, expected: torch.Tensor) -> str:
    off = (actual - expected).abs().max().item()
    return "the same bits" if torch.equal(actual, expected) else f"differs by up to {off:.1e}"


def build_t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 61, "d_model": 48, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 3}
    config = T5Config(**sizes)
    config.decoder_start_token_id = 0
    return T5ForConditionalGeneration(config).eval()


def pytorch_probes() -> dict[str, Probe]:
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(48, 3, batch_first=True).eval(), random_vectors()

    def weights() -> str:
        mean, each = layer(x, x, x)[1], layer(x, x, x, average_attn_weights=False)[1]
        return f"mean over heads {tuple(mean.shape)}; each head {tuple(each.shape)} when asked"

    def same() -> str:
        return compare_outputs(layer(x, x, x)[0], layer(x, x, x, need_weights=False)[0])

    def encoder() -> str:
        found = []
        model: Any = build_encoder()
        model.layers[0].self_attn.register_forward_hook(lambda module, given, came: found.append(came))
        model(x)
        return f"a hook on self_attn sees weights {found[0][1]}"

    return {
        "nn.MultiheadAttention, weights": weights,
        "its output with and without them": same,
        "nn.TransformerEncoder, weights": encoder,
    }


def hugging_face_probes() -> dict[str, Probe]:
    tokens = random_tokens(SIZES)

    def weights(attention: str) -> str:
        found = build_gpt2(SIZES, attention)(tokens, output_attentions=True).attentions
        there = [one for one in found or [] if one is not None]
        return f"{len(there)} layers of weights, {tuple(there[0].shape)}" if there else f"{found}"

    def same() -> str:
        return compare_outputs(
            *(build_gpt2(SIZES, attention)(tokens).last_hidden_state for attention in ("eager", "sdpa"))
        )

    return {
        "output_attentions, sdpa": lambda: weights("sdpa"),
        "output_attentions, eager": lambda: weights("eager"),
        "eager beside sdpa": same,
    }


def transformer_lens_probes() -> dict[str, Probe]:
    import transformers
    from transformer_lens.model_bridge.sources._bridge_builder import (  # pyright: ignore[reportMissingImports]
        build_bridge_from_module as build_bridge,
    )

    def pair() -> tuple[Any, torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        model = transformers.GPT2LMHeadModel(gpt2_config(SIZES)).eval()
        tokens = random_tokens(SIZES)
        true = model(tokens).logits
        return build_bridge(model, "GPT2LMHeadModel", hf_config=model.config, device="cpu"), tokens, true

    def points() -> str:
        bridge, tokens, _ = pair()
        cached = bridge.run_with_cache(tokens)[1]
        return f"{len(bridge.hook_dict)} hook points, {len(cached)} values in the cache of one run"

    def same() -> str:
        bridge, tokens, true = pair()
        return f"beside the model's own sdpa: {compare_outputs(bridge(tokens), true)}"

    def cut_edge() -> str:
        bridge, tokens, _ = pair()

        def hook(scores: torch.Tensor, hook: Any) -> torch.Tensor:
            scores[:, 1, -1, 3] = -torch.inf
            return scores

        before = bridge(tokens)
        after = bridge.run_with_hooks(tokens, fwd_hooks=[("blocks.0.attn.hook_attn_scores", hook)])
        return f"an arrow cut before the softmax changes the last logits by {(after - before)[0, -1].abs().max():.1e}"

    def cross() -> str:
        model = build_t5()
        model.set_attn_implementation("eager")
        bridge = build_bridge(model, "T5ForConditionalGeneration", hf_config=model.config, device="cpu")
        given, written = torch.randint(61, (1, 7)), torch.randint(61, (1, 5))
        names = bridge.run_with_cache(given, decoder_input=written)[1].keys()
        return ", ".join(name for name in names if "cross_attn" in name and "pattern" in name) or "no patterns"

    def other() -> str:
        build_bridge(build_encoder(), "TransformerEncoder", hf_config=gpt2_config(SIZES))
        return "bridged"

    return {
        "every activation by name": points,
        "its output": same,
        "an edge cut": cut_edge,
        "encoder–decoder (T5)": cross,
        "a model of one's own": other,
    }


def nnsight_probes() -> dict[str, Probe]:
    from nnsight import NNsight  # pyright: ignore[reportMissingImports]

    tokens = random_tokens(SIZES)

    def read_activation() -> str:
        model = build_gpt2(SIZES, "sdpa")
        true, wrapped = model(tokens).last_hidden_state, NNsight(model)
        with wrapped.trace(tokens):
            hidden = wrapped.h[0].output.save()
            came = wrapped.output.last_hidden_state.save()
        return f"a layer's output {tuple(hidden.shape)} read; the model's: {compare_outputs(came, true)}"

    def weights() -> str:
        found = []
        for attention in ("sdpa", "eager"):
            wrapped = NNsight(build_gpt2(SIZES, attention))
            with wrapped.trace(tokens):
                one = wrapped.h[0].attn.output[1].save()
            found.append(f"{attention}: {one if one is None else tuple(one.shape)}")
        return ", ".join(found)

    def edit() -> str:
        wrapped = NNsight(build_encoder())
        x = random_vectors()
        with wrapped.trace(x):
            before = wrapped.output.save()
        with wrapped.trace(x):
            wrapped.layers[0].output[:] = 0
            after = wrapped.output.save()
        return f"a layer's output set to 0 changes the model's by {(after - before).abs().max():.1e}"

    def cut_edge() -> str:
        wrapped = NNsight(build_gpt2(SIZES, "eager"))
        with wrapped.trace(tokens):
            before = wrapped.output.last_hidden_state.save()
        with wrapped.trace(tokens):
            scores = wrapped.h[0].attn.source.attention_interface_1.source.attn_weights_1.output
            scores[:, 1, -1, 3] = -torch.inf
            after = wrapped.output.last_hidden_state.save()
        return f"an arrow cut before the softmax changes the last output by {(after - before)[0, -1].abs().max():.1e}"

    def gradient() -> str:
        wrapped = NNsight(build_gpt2(SIZES, "sdpa"))
        with torch.enable_grad(), wrapped.trace(tokens):
            hidden = wrapped.h[0].output
            with wrapped.output.last_hidden_state[0, -1, 0].backward():
                found = hidden.grad.save()
        return f"of a layer's output, {tuple(found.shape)}"

    def inside() -> str:
        wrapped = NNsight(build_encoder())
        with wrapped.trace(random_vectors()):
            one = wrapped.layers[0].self_attn.output.save()
        return f"an output {tuple(one[0].shape)}, weights {one[1]}"

    return {
        "any activation": read_activation,
        "attention weights": weights,
        "any activation changed": edit,
        "an edge cut, eager, by `.source`": cut_edge,
        "a gradient": gradient,
        "attention of a model of one's own": inside,
    }


def bertviz_probes() -> dict[str, Probe]:
    import re

    from bertviz import head_view, model_view  # pyright: ignore[reportMissingImports]

    weights = [torch.randn(1, 3, 7, 7).softmax(-1) for _ in range(2)]

    def draw(view: Callable[..., Any]) -> str:
        page = view(weights, list("abcdefg"), html_action="return").data
        hosts = sorted(set(re.findall(r"(?:src=|: )['\"](?:https?:)?//([\w.-]+)", page)))
        return f"{len(page):,} characters for 2 × 3 heads of 7 tokens; fetches from {', '.join(hosts)}"

    return {
        "head view of any tensors": lambda: draw(head_view),
        "model view of any tensors": lambda: draw(model_view),
    }


def captum_probes() -> dict[str, Probe]:
    from captum.attr import LayerActivation, LayerIntegratedGradients  # pyright: ignore[reportMissingImports]

    model, tokens = build_gpt2(SIZES, "sdpa"), random_tokens(SIZES)

    def answer(ids: torch.Tensor) -> torch.Tensor:
        return model(ids).last_hidden_state[:, -1].sum(-1)

    def attribute() -> str:
        with torch.enable_grad():
            found = LayerIntegratedGradients(answer, model.wte).attribute(tokens, n_steps=5)
        return f"integrated gradients of each token's vector, {tuple(found.shape)}"

    def activation(attention: str) -> str:
        other = build_gpt2(SIZES, attention)
        found = LayerActivation(lambda ids: other(ids).last_hidden_state[:, -1].sum(-1), other.h[0].attn)
        return f"{[tuple(one.shape) for one in found.attribute(tokens)]}"

    return {
        "attribution": attribute,
        "activation of an attention, sdpa": lambda: activation("sdpa"),
        "activation of an attention, eager": lambda: activation("eager"),
    }


def transom_probes() -> dict[str, Probe]:
    import transom as ours

    tokens = random_tokens(SIZES)

    def watch() -> str:
        model = build_gpt2(SIZES, "sdpa")
        true = model(tokens).last_hidden_state
        eager = build_gpt2(SIZES, "eager")(tokens, output_attentions=True).attentions
        with ours.watch(model) as trace:
            came = model(tokens).last_hidden_state
        off = max((sight.weights() - one).abs().max().item() for sight, one in zip(trace, eager, strict=True))
        return f"weights within {off:.0e} of eager's; the model's output: {compare_outputs(came, true)}"

    def inside() -> str:
        model, x = build_encoder(), random_vectors()
        true = model(x)
        with ours.watch(model) as trace:
            came = model(x)
        return f"{', '.join(trace.names)}; the model's output: {compare_outputs(came, true)}"

    def cut_edge() -> str:
        model, x = build_encoder(), random_vectors()
        true = model(x)
        with ours.knock_out(model, layer=0, head=1, query=-1, key=3):
            found = model(x)
        return f"an arrow cut before the softmax changes the last output by {(found - true)[0, -1].abs().max():.1e}"

    def cross() -> str:
        given, written, model = torch.randint(61, (1, 7)), torch.randint(61, (1, 5)), build_t5()
        with ours.watch(model) as trace:
            model(input_ids=given, decoder_input_ids=written)
        return ", ".join(name for name in trace.names if "EncDec" in name)

    return {
        "attention of GPT-2, sdpa": watch,
        "attention of a model of one's own": inside,
        "an edge cut": cut_edge,
        "encoder–decoder (T5)": cross,
    }


PEERS: dict[str, tuple[str, Callable[[], dict[str, Probe]]]] = {
    "PyTorch": ("SDPA", pytorch_probes),
    "Hugging Face": ("Hugging Face", hugging_face_probes),
    "TransformerLens": ("TransformerLens", transformer_lens_probes),
    "nnsight": ("nnsight", nnsight_probes),
    "BertViz": ("BertViz", bertviz_probes),
    "captum": ("captum", captum_probes),
    "Transom": ("", transom_probes),
}
