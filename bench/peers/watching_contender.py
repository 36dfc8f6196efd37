"""One contender of `bench watching`, in a process of its own: a forward pass that also gives its attention.

    python -m bench.peers.watching_contender '"nnsight"' '{"tokens": 512, "layers": 12, …, "threads": 2}'

then answers requests (see `contender_loop`). It imports nothing that the peers' interpreter lacks.
"""

import json
import sys
from typing import Any

import torch

from bench.peers.contender_loop import Work, answer_requests

VOCABULARY = 1000


def random_tokens(sizes: dict[str, Any]) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randint(VOCABULARY, (1, sizes["tokens"]))


def build_gpt2(sizes: dict[str, Any], attention: str) -> Any:
    """Hugging Face's GPT-2 of these sizes with random parameters, without the output layer: no logits are needed."""
    import transformers

    torch.manual_seed(0)
    return transformers.GPT2Model._from_config(gpt2_config(sizes), attn_implementation=attention).eval()


def gpt2_config(sizes: dict[str, Any]) -> Any:
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


def prepare_unwatched(sizes: dict[str, Any]) -> Work:
    model, tokens = build_gpt2(sizes, "sdpa"), random_tokens(sizes)
    return lambda: model(tokens)


def prepare_watched(sizes: dict[str, Any]) -> Work:
    import transom

    model, tokens = build_gpt2(sizes, "sdpa"), random_tokens(sizes)

    def work() -> object:
        with transom.watch(model) as trace:
            model(tokens)
        return trace

    return work


def prepare_with_statistics(sizes: dict[str, Any]) -> Work:
    """Watch, then compute every statistic of every head."""
    watch = prepare_watched(sizes)

    def work() -> object:
        trace = watch()
        return trace, [sight.statistics for sight in trace]  # pyright: ignore[reportGeneralTypeIssues]

    return work


def prepare_eager(sizes: dict[str, Any]) -> Work:
    model, tokens = build_gpt2(sizes, "eager"), random_tokens(sizes)
    return lambda: model(tokens, output_attentions=True).attentions


def prepare_transformer_lens(sizes: dict[str, Any]) -> Work:
    """A bridge around the same GPT-2, which it switches to eager attention; only the patterns are cached."""
    import transformers
    from transformer_lens.model_bridge.sources._bridge_builder import (  # pyright: ignore[reportMissingImports]
        build_bridge_from_module,
    )

    model = transformers.GPT2LMHeadModel(gpt2_config(sizes)).eval()
    bridge = build_bridge_from_module(model, "GPT2LMHeadModel", hf_config=model.config, device="cpu")
    tokens = random_tokens(sizes)
    patterns = lambda name: name.endswith("hook_pattern")  # noqa: E731

    def work() -> object:
        found = bridge.run_with_cache(tokens, names_filter=patterns, return_type=None)[1]
        if len(found) != sizes["layers"]:
            raise RuntimeError(f"{sizes['layers']} patterns were asked for, and {len(found)} came")
        return found

    return work


def prepare_nnsight(sizes: dict[str, Any]) -> Work:
    from nnsight import NNsight  # pyright: ignore[reportMissingImports]

    model, tokens = NNsight(build_gpt2(sizes, "eager")), random_tokens(sizes)

    def work() -> object:
        found: Any = []
        with model.trace(tokens, output_attentions=True):
            found = [layer.attn.output[1].save() for layer in model.h]
        return found

    return work


def build_longformer(sizes: dict[str, Any]) -> Any:
    """Hugging Face's Longformer of these sizes with random parameters: attention in windows, kept as a sparse Sight."""
    import transformers

    torch.manual_seed(0)
    config = transformers.LongformerConfig(
        vocab_size=VOCABULARY,
        hidden_size=sizes["d_model"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        intermediate_size=2 * sizes["d_model"],
        attention_window=sizes["window"],
        max_position_embeddings=sizes["tokens"] + 4,
    )
    return transformers.LongformerModel(config).eval()


def prepare_sparse_unwatched(sizes: dict[str, Any]) -> Work:
    model, tokens = build_longformer(sizes), random_tokens(sizes)
    return lambda: without_gradients(lambda: model(tokens))


def prepare_sparse_watched(sizes: dict[str, Any]) -> Work:
    """A watched run; the Sights are read, as they may be made only then."""
    import transom

    model, tokens = build_longformer(sizes), random_tokens(sizes)

    def work() -> object:
        with transom.watch(model) as trace:
            model(tokens)
        return trace, trace.entries

    return lambda: without_gradients(work)


def without_gradients(work: Work) -> object:
    with torch.no_grad():
        return work()


CONTENDERS = {
    "unwatched": prepare_unwatched,
    "Transom": prepare_watched,
    "Transom, with statistics": prepare_with_statistics,
    "Hugging Face eager": prepare_eager,
    "TransformerLens": prepare_transformer_lens,
    "nnsight": prepare_nnsight,
}


def main(contender: str, sizes: dict[str, Any]) -> None:
    torch.set_num_threads(sizes["threads"])
    with torch.no_grad():
        answer_requests(CONTENDERS[contender](sizes), plain=False)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
