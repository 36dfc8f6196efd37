"""How models come to their logits: what is added to the residual stream, through which norms, up to W_U.

Knowledge of model families; the arithmetic is in `lens/attribution/logit_attribution.py`.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import nn

    from transom.lens.attribution.logit_attribution import LogitAttribution, LogitLens, Spell
    from transom.lens.attribution.residual_stream import ResidualLayout


class PreNormFamily(NamedTuple):
    """A family whose blocks add to a stream that no norm touches until the end: the paths of its modules."""

    blocks: str
    attention: str
    feed_forward: str
    closing: str


LLAMA = PreNormFamily("model.layers", "self_attn", "mlp", "model.norm")
PRE_NORM = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "smollm3", "phi3", "starcoder2", "olmo"), LLAMA),
    "stablelm": LLAMA,
    "phi": PreNormFamily("model.layers", "self_attn", "mlp", "model.final_layernorm"),
    "gpt2": PreNormFamily("transformer.h", "attn", "mlp", "transformer.ln_f"),
    "gpt_neox": PreNormFamily("gpt_neox.layers", "attention", "mlp", "gpt_neox.final_layer_norm"),
    "opt": PreNormFamily("model.decoder.layers", "self_attn", "fc2", "model.decoder.final_layer_norm"),
}
# Encoder–decoders as in the paper: each part of the decoder, and the norm after it.
POST_NORM = {
    name: (
        ("self_attn", "self_attn_layer_norm"),
        ("encoder_attn", "encoder_attn_layer_norm"),
        ("fc2", "final_layer_norm"),
    )
    for name in ("bart", "marian")
}


def residual_layout(model: "nn.Module") -> "ResidualLayout":
    """How a model comes to its logits; an error that names the known ones if it is not known."""
    from transom.models.generation.generate import GenerativeModel

    if isinstance(model, GenerativeModel):
        return transom_layout(model)
    config: Any = getattr(model, "config", None)
    kind = str(getattr(config, "model_type", type(model).__name__))
    read_head: Any = getattr(model, "get_output_embeddings", None)
    has_logits = callable(read_head) and read_head() is not None
    builder = (pre_norm_layout if kind in PRE_NORM else post_norm_layout) if kind in {*PRE_NORM, *POST_NORM} else None
    if builder is None or not has_logits:
        known = ", ".join(sorted({*PRE_NORM, *POST_NORM}))
        raise Misfit(
            f"parts of a logit are known for Transom's decoders and for Hugging Face's {known} with their language"
            f" heads, but this is {kind} ({type(model).__name__}); give a ResidualLayout of it"
        )
    return builder(model, kind)


def transom_layout(model: Any) -> "ResidualLayout":
    """Transom's decoder, alone or beside an encoder, post-norm or pre-norm."""
    from transom.layers.blocks import PostNorm, PreNorm
    from transom.lens.attribution.residual_stream import Added, Normed, ResidualLayout

    stack = "decoder" if model.kind == "encoder_decoder" else "stack"
    blocks = []
    for layer, block in enumerate(model.stack.blocks):
        if type(block) not in (PostNorm, PreNorm):
            raise Misfit(
                f"parts of a logit need blocks that add to their input, but these are {type(block).__name__}; train"
                ' with arrangement = "pre_norm" or "post_norm"'
            )
        path, steps = f"{stack}.blocks.{layer}", []
        for part in ("attention", "cross", "feed_forward"):
            if getattr(block, part) is not None:
                steps.append(Added(f"{path}.{part}", layer, part != "feed_forward"))
                steps += [Normed(f"{path}.norm_{part}")] if type(block) is PostNorm else []
        blocks.append(tuple(steps))
    closing = (Normed(f"{stack}.closing"),)
    start = f"{stack}.blocks.0"
    return ResidualLayout(start, tuple(blocks), closing, model.unembedding, model.logits_bias, model.logits_scale)


def pre_norm_layout(model: Any, kind: str) -> "ResidualLayout":
    from transom.lens.attribution.residual_stream import Added, Normed, ResidualLayout

    family = PRE_NORM[kind]
    if kind == "opt" and not model.config.do_layer_norm_before:
        raise Misfit("parts of a logit are known for OPT with its norms before each part, but this one has them after")
    paths = [f"{family.blocks}.{layer}" for layer in range(len(model.get_submodule(family.blocks)))]
    blocks = tuple(
        (Added(f"{path}.{family.attention}", layer, True), Added(f"{path}.{family.feed_forward}", layer))
        for layer, path in enumerate(paths)
    )
    head = model.get_output_embeddings()
    return ResidualLayout(paths[0], blocks, (Normed(family.closing),), head.weight, getattr(head, "bias", None))


def post_norm_layout(model: Any, kind: str) -> "ResidualLayout":
    from transom.lens.attribution.residual_stream import Added, Normed, ResidualLayout

    stack = "model.decoder.layers"
    blocks = []
    for layer in range(len(model.get_submodule(stack))):
        steps = []
        for part, norm in POST_NORM[kind]:
            path = f"{stack}.{layer}"
            steps += [Added(f"{path}.{part}", layer, part != "fc2"), Normed(f"{path}.{norm}")]
        blocks.append(tuple(steps))
    bias = getattr(model, "final_logits_bias", None)
    return ResidualLayout(f"{stack}.0", tuple(blocks), (), model.lm_head.weight, None if bias is None else bias[0])


def attribute_logit(
    model: "nn.Module",
    inputs: object,
    target: int | None = None,
    against: int | None = None,
    row: int = -1,
    *,
    layout: "ResidualLayout | None" = None,
    spell: "Spell | None" = None,
) -> "LogitAttribution":
    """What the embedding, each head and each feed-forward part added to a logit; they sum to it under a receipt.

    inputs     what the model is called with, for one sequence, as in `effect`
    target     the token whose logit is taken apart; by default the most likely one
    against    another token: the difference of the two logits is taken apart instead
    row        the position whose prediction it is; by default the last
    layout     a `ResidualLayout`, for a model that is not known
    spell      turns ids into text, for the table
    """
    from transom.lens.attribution import logit_attribution

    layout = residual_layout(model) if layout is None else layout
    return logit_attribution.attribute_logit(model, inputs, layout, target, against, row, spell)


def logit_lens(
    model: "nn.Module",
    inputs: object,
    target: int | None = None,
    row: int = -1,
    k: int = 3,
    *,
    layout: "ResidualLayout | None" = None,
    spell: "Spell | None" = None,
) -> "LogitLens":
    """What the model would say after each block, if its last norm and W_U followed at once: k tokens of each.

    The other arguments are those of `attribute_logit`.
    """
    from transom.lens.attribution import logit_attribution

    layout = residual_layout(model) if layout is None else layout
    return logit_attribution.logit_lens(model, inputs, layout, target, row, k, spell)
