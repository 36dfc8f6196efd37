"""Patching and direct logit attribution by TransformerLens, for a small GPT-2 with random parameters.

    python -m bench.peers.patching '{"layers": 3, "heads": 5, "d_head": 4, "vocabulary": 31, "seed": 7}'

prints JSON: the logits of each kind of patching, and what each part adds to a logit. It imports nothing that the peers'
interpreter lacks; `build_gpt2` and `two_texts` are Transom's side too.
"""

import json
import sys
from typing import Any

import torch
from torch import Tensor

LAYER, HEAD, ROW, TOKEN = 1, 2, 4, 11  # what is patched, and the logit that is taken apart


def build_gpt2(sizes: dict[str, int]) -> Any:
    """Hugging Face's GPT-2 in float64, with parameters large enough that every head does something."""
    import transformers

    torch.manual_seed(sizes["seed"])
    config = transformers.GPT2Config(
        vocab_size=sizes["vocabulary"],
        n_positions=16,
        n_embd=sizes["heads"] * sizes["d_head"],
        n_layer=sizes["layers"],
        n_head=sizes["heads"],
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="eager").double().eval()
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return model


def two_texts(sizes: dict[str, int]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(sizes["seed"])
    clean, other = torch.randint(sizes["vocabulary"], (2, 1, 7), generator=generator)
    return clean, other


def patch_with_transformer_lens(sizes: dict[str, int]) -> dict[str, Any]:
    from transformer_lens.model_bridge.sources._bridge_builder import (  # pyright: ignore[reportMissingImports]
        build_bridge_from_module,
    )

    model, (clean, other) = build_gpt2(sizes), two_texts(sizes)
    bridge = build_bridge_from_module(
        model, "GPT2LMHeadModel", hf_config=model.config, device="cpu", dtype=torch.float64
    )
    name = f"blocks.{LAYER}.attn.hook_z"
    shape = (1, clean.shape[1], sizes["heads"], sizes["d_head"])
    z_other, z_clean = (bridge.run_with_cache(one)[1][name].reshape(shape) for one in (other, clean))
    mean = (z_other + z_clean) / 2

    def logits_with(change: Any) -> list[Any]:
        def hook(z: Tensor, hook: object) -> Tensor:
            del hook
            changed = z.clone().reshape(shape)
            change(changed)
            return changed.reshape(z.shape)

        return bridge.run_with_hooks(clean, fwd_hooks=[(name, hook)])[0].tolist()

    def whole(z: Tensor) -> None:
        z[:] = z_other

    def one_head(z: Tensor) -> None:
        z[:, :, HEAD] = z_other[:, :, HEAD]

    def one_row(z: Tensor) -> None:
        z[:, ROW, HEAD] = z_other[:, ROW, HEAD]

    def mean_head(z: Tensor) -> None:
        z[:, :, HEAD] = mean[:, :, HEAD]

    return {
        "clean": bridge(clean)[0].tolist(),
        "attention": logits_with(whole),
        "head": logits_with(one_head),
        "row": logits_with(one_row),
        "mean": logits_with(mean_head),
        "parts": attribute_logit(bridge, clean),
    }


def attribute_logit(bridge: Any, clean: Tensor) -> dict[str, float]:
    """What the embedding, each head and each feed-forward add to a logit, with the final norm's own scale."""
    cache = bridge.run_with_cache(clean)[1]
    layers = bridge.cfg.n_layers
    norm, W_U = bridge.original_model.transformer.ln_f, bridge.original_model.lm_head.weight
    final = cache[f"blocks.{layers - 1}.hook_resid_post"][0, -1]
    scale = ((final - final.mean()).square().mean() + norm.eps).sqrt()
    direction = norm.weight * W_U[TOKEN]

    def added(part: Tensor) -> float:
        return float(((part - part.mean()) / scale) @ direction)

    parts = {"embedding": added(cache["blocks.0.hook_resid_pre"][0, -1])}
    for layer in range(layers):
        z = cache[f"blocks.{layer}.attn.hook_z"][0, -1].reshape(bridge.cfg.n_heads, -1)
        W_O = bridge.original_model.transformer.h[layer].attn.c_proj.weight.reshape(*z.shape, -1)
        parts |= {f"{layer} head {head}": added(z[head] @ W_O[head]) for head in range(len(z))}
        parts[f"{layer} feed-forward"] = added(cache[f"blocks.{layer}.hook_mlp_out"][0, -1])
    return parts


if __name__ == "__main__":
    with torch.no_grad():
        answer = patch_with_transformer_lens(json.loads(sys.argv[1]))
    print(json.dumps(answer))
