"""One contender of `bench watching`, in a process of its own: a forward pass that also gives its attention.

    python -m bench.peers.watching_contender '"nnsight"' '{"tokens": 512, "layers": 12, …, "threads": 2}'

then answers requests (see `contender_loop`). It imports nothing that the peers' interpreter lacks.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

from bench.peers.contender_loop import wait

Work = Callable[[], object]
VOCABULARY = 1000


def text(sizes: dict[str, Any]) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randint(VOCABULARY, (1, sizes["tokens"]))


def gpt2(sizes: dict[str, Any], attention: str) -> Any:
    """Hugging Face's GPT-2 of these sizes with random parameters, without its head: logits are not the question."""
    import transformers

    torch.manual_seed(0)
    return transformers.GPT2Model._from_config(configured(sizes), attn_implementation=attention).eval()


def configured(sizes: dict[str, Any]) -> Any:
    import transformers

    return transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=sizes["tokens"],
        n_embd=sizes["d_model"],
        n_layer=sizes["layers"],
        n_head=sizes["heads"],
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )


def unwatched(sizes: dict[str, Any]) -> Work:
    model, tokens = gpt2(sizes, "sdpa"), text(sizes)
    return lambda: model(tokens)


def watched(sizes: dict[str, Any]) -> Work:
    import transom

    model, tokens = gpt2(sizes, "sdpa"), text(sizes)

    def work() -> object:
        with transom.watch(model) as trace:
            model(tokens)
        return trace

    return work


def with_statistics(sizes: dict[str, Any]) -> Work:
    """Watched, and every statistic of every head taken afterwards."""
    look = watched(sizes)

    def work() -> object:
        trace = look()
        return trace, [sight.statistics for sight in trace]  # pyright: ignore[reportGeneralTypeIssues]

    return work


def eager(sizes: dict[str, Any]) -> Work:
    model, tokens = gpt2(sizes, "eager"), text(sizes)
    return lambda: model(tokens, output_attentions=True).attentions


def transformer_lens(sizes: dict[str, Any]) -> Work:
    """A bridge around the same GPT-2, which it switches to eager attention; of all it can keep, the patterns alone."""
    import transformers
    from transformer_lens.model_bridge.sources._bridge_builder import (  # pyright: ignore[reportMissingImports]
        build_bridge_from_module,
    )

    model = transformers.GPT2LMHeadModel(configured(sizes)).eval()
    bridge = build_bridge_from_module(model, "GPT2LMHeadModel", hf_config=model.config, device="cpu")
    tokens = text(sizes)
    patterns = lambda name: name.endswith("hook_pattern")  # noqa: E731

    def work() -> object:
        found = bridge.run_with_cache(tokens, names_filter=patterns, return_type=None)[1]
        if len(found) != sizes["layers"]:
            raise RuntimeError(f"{sizes['layers']} patterns were asked for, and {len(found)} came")
        return found

    return work


def nnsight(sizes: dict[str, Any]) -> Work:
    from nnsight import NNsight  # pyright: ignore[reportMissingImports]

    model, tokens = NNsight(gpt2(sizes, "eager")), text(sizes)

    def work() -> object:
        found: Any = []
        with model.trace(tokens, output_attentions=True):
            found = [layer.attn.output[1].save() for layer in model.h]
        return found

    return work


CONTENDERS = {
    "unwatched": unwatched,
    "Transom": watched,
    "Transom, with statistics": with_statistics,
    "Hugging Face eager": eager,
    "TransformerLens": transformer_lens,
    "nnsight": nnsight,
}


def main(contender: str, sizes: dict[str, Any]) -> None:
    torch.set_num_threads(sizes["threads"])
    with torch.no_grad():
        wait(CONTENDERS[contender](sizes), plain=False)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
