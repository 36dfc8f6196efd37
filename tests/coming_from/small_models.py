"""The names that the rows of docs/coming-from.md use: a small Llama with grouped heads, its eager twin, and traces."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import torch
import transformers
from torch import Tensor

import transom

SIZES = {"vocab_size": 61, "hidden_size": 30, "intermediate_size": 41, "num_hidden_layers": 2}
HEADS, KV_HEADS, D_HEAD = 6, 2, 10
TOKENS = torch.tensor([[5, 7, 11, 13, 7, 11, 17]])
WORDS = ["the", "old", "cat", "sees", "old", "cat", "run"]
NAME = "model.layers.1.self_attn"


@cache
def llama(attention: str = "sdpa") -> Any:
    """Larger parameters than usual: weights that all are alike would prove little."""
    torch.manual_seed(3)
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": D_HEAD}
    config = transformers.LlamaConfig(**SIZES, **heads, initializer_range=0.3, attn_implementation=attention)
    return transformers.LlamaForCausalLM(config).eval()


@cache
def bart(attention: str = "sdpa") -> Any:
    torch.manual_seed(5)
    sides = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 1), ("ffn_dim", 17))}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "d_model": 12, "vocab_size": 61}
    config = transformers.BartConfig(**sides, **heads, init_std=0.5, attn_implementation=attention)
    return transformers.BartForConditionalGeneration(config).eval()


@cache
def decoder(**changes: Any) -> transom.models.Decoder:
    torch.manual_seed(7)
    sizes = {"vocabulary": 61, "layers": 2, "d_model": 12, "heads": 3, "d_hidden": 17}
    return transom.models.Decoder(transom.models.DecoderConfig(**sizes | changes)).eval()


def watched(model: Any, *given: Any, **named: Any) -> transom.Trace:
    with torch.no_grad(), transom.watch(model) as trace:
        model(*given, **named)
    return trace


@cache
def llama_trace() -> transom.Trace:
    return watched(llama(), TOKENS)


@cache
def own_weights() -> tuple[Tensor, ...]:
    """What the eager twin gives with `output_attentions=True`."""
    with torch.no_grad():
        return llama("eager")(TOKENS, output_attentions=True).attentions


def generated() -> tuple[transom.Trace, Any]:
    """A watched generation, and what the eager twin gives of the same one."""
    asked = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad(), transom.watch(llama()) as trace:
        llama().generate(TOKENS, **asked)
    theirs = llama("eager").generate(TOKENS, **asked, return_dict_in_generate=True, output_attentions=True)
    return trace, theirs


def looking() -> dict[str, Any]:
    """The names of the page's first block, with its model."""
    trace = llama_trace()
    return {
        "torch": torch,
        "transom": transom,
        "model": llama(),
        "tokens": TOKENS,
        "words": WORDS,
        "trace": trace,
        "sight": trace[1],
        "own": decoder(),
        "before": trace,
        "after": watched(llama(), TOKENS.flip(1)),
    }


def generating() -> dict[str, Any]:
    return looking() | {"trace": generated()[0]}


def two_sides() -> dict[str, Any]:
    """BART in place of Llama."""
    trace = watched(bart(), input_ids=TOKENS, decoder_input_ids=TOKENS[:, :5])
    return {"transom": transom, "words": WORDS, "model": bart(), "trace": trace}


@contextmanager
def pre_hook(change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change what goes into W_O of the eager twin's second layer: all heads side by side."""
    module = llama("eager").model.layers[1].self_attn.o_proj
    handle = module.register_forward_pre_hook(lambda _, given: (change(given[0].clone()),))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def masked_score(head: int, query: int, key: int) -> Iterator[None]:
    """Mask one score of the eager twin's second layer, in its own attention mask."""

    def mask(_: Any, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        wide = named["attention_mask"].expand(1, HEADS, -1, -1).clone()
        wide[:, head, query, key] = torch.finfo(wide.dtype).min
        return given, named | {"attention_mask": wide}

    handle = llama("eager").model.layers[1].self_attn.register_forward_pre_hook(mask, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        return model(TOKENS).logits


def run_watched(block: AbstractContextManager[transom.Trace]) -> transom.Trace:
    with block as trace:
        logits(llama())
    return trace


def head_outputs() -> Tensor:
    """What goes into W_O of the second layer, as (batch, token, heads · d_head)."""
    found: list[Tensor] = []
    with pre_hook(lambda joined: found.append(joined) or joined):
        logits(llama("eager"))
    return found[0]
