"""Checks of the rows about nanoGPT: its settings, its generation, its attention and its training."""

import tomllib
from functools import partial
from typing import Any

import torch
from coming_from.model_checks import GPT2, GPT2_SIZES, RECIPES, gpt2_count, our_count
from coming_from.page_rows import check
from coming_from.small_models import TOKENS, decoder, looking, watched
from torch import Tensor, nn
from torch.nn import functional as F

import transom

nanogpt = partial(check, "nanoGPT", names=looking)


@nanogpt('python sample.py --start="To be"')
def check_sample(command: list[str]) -> None:
    assert command == ["generate", "--model", "FOLDER", "To be"]


@nanogpt("GPTConfig(…)")
def check_gpt_config(config: Any) -> None:
    assert transom.models.Decoder(config).count() == gpt2_count()
    preset = transom.models.PRESETS["shakespeare_char"](65)
    assert all(getattr(preset, name) == value for name, value in GPT2.items())


@nanogpt("n_layer", "n_head", "n_embd", "4 × n_embd inside MLP", "block_size", "vocab_size")
def check_gpt_setting(setting: dict[str, Any]) -> None:
    """The setting of the row is one of the small GPT-2's, and with all of them the number of parameters is its."""
    assert setting.items() <= GPT2_SIZES.items()
    assert our_count(**GPT2, **GPT2_SIZES) == gpt2_count()


@nanogpt("dropout")
def check_dropout(setting: dict[str, float]) -> None:
    model = decoder(**setting)
    assert [part.attention.dropout for part in model.stack.blocks] == [0.2, 0.2]
    model.train()
    torch.manual_seed(1)
    assert not torch.equal(model(TOKENS), model(TOKENS))
    model.eval()


@nanogpt("bias")
def check_bias(setting: dict[str, bool]) -> None:
    assert not [name for name, _ in decoder(**setting).named_parameters() if "bias" in name]
    assert [name for name, _ in decoder().named_parameters() if "bias" in name]


@nanogpt("logits, loss = model(idx, targets)")
def check_logits(logits: Tensor) -> None:
    assert logits.shape == (1, 7, 61)


@nanogpt("model.generate(idx, max_new_tokens, temperature, top_k)")
def check_top_k(sequences: Tensor) -> None:
    assert sequences.shape == (1, 12)
    with torch.no_grad():
        best = decoder()(sequences[:, :-1])[0, 6:].topk(7).indices
    assert all(token in row for token, row in zip(sequences[0, 7:], best, strict=True))


def learned() -> dict[str, Any]:
    return looking() | {"own": decoder(**GPT2, **{"longest": 29})}


@nanogpt("idx[:, -block_size:]", names=learned)
def check_cropping(sequences: Tensor) -> None:
    """As the loop does it that crops and reads anew."""
    own, expected = learned()["own"], TOKENS
    with torch.no_grad():
        for _ in range(31):
            expected = torch.cat([expected, own(expected[:, -29:])[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(sequences, expected)


@nanogpt("get_num_params()", names=learned)
def check_count(count: int) -> None:
    own = learned()["own"]
    assert count == sum(one.numel() for one in own.parameters())
    assert count - our_count(**GPT2 | {"positions": "none"}, **small(own)) == 29 * 12


def small(own: Any) -> dict[str, Any]:
    return {name: getattr(own.config, name) for name in GPT2_SIZES}


class CausalAttention(nn.Module):
    """One attention written twice: with the fused call, and with a softmax by hand."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.fused, self.joint = fused, nn.Linear(12, 36)

    def forward(self, x: Tensor) -> Tensor:
        Q, K, V = (part.unflatten(-1, (3, 4)).transpose(1, 2) for part in self.joint(x).chunk(3, dim=-1))
        if self.fused:
            return F.scaled_dot_product_attention(Q, K, V, is_causal=True).transpose(1, 2).flatten(2)
        scores = (Q @ K.mT / 2).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
        return (scores.softmax(-1) @ V).transpose(1, 2).flatten(2)


def by_hand() -> dict[str, Any]:
    x = torch.randn(1, 7, 12, generator=torch.Generator().manual_seed(13))
    model = nn.Sequential(CausalAttention(fused=False))
    return {"trace": watched(model, x), "x": x}


@nanogpt("att in the slow path, self.flash", names=by_hand)
def check_both_paths(weights: Tensor) -> None:
    (fused,) = watched(nn.Sequential(CausalAttention(fused=True)), by_hand()["x"])
    torch.testing.assert_close(fused.weights(), weights, atol=1e-6, rtol=1e-5)
    assert fused.receipt().holds
    (sight,) = by_hand()["trace"]
    assert sight.receipt().holds


@nanogpt(
    "max_iters",
    "batch_size",
    "block_size of the data",
    "gradient_accumulation_steps",
    "learning_rate, min_lr",
    "warmup_iters",
    "beta1, beta2, weight_decay",
    "grad_clip",
    "eval_interval",
    "dtype, compile",
    "wandb_log=True",
)
def check_recipe_settings(*settings: dict[str, dict[str, Any]]) -> None:
    """The values of the recipe that follows nanoGPT; what it leaves out stands in the reference recipe."""
    recipes = [tomllib.loads((RECIPES / name).read_text()) for name in ("shakespeare_char.toml", "reference.toml")]
    for one in settings:
        ((section, (name, value)),) = ((section, *table.items()) for section, table in one.items())
        found = next(recipe[section][name] for recipe in recipes if name in recipe[section])
        assert found == value
