"""`attn_implementation="transom"`: the attention of Hugging Face models run by Transom's own engine."""

import sys
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import Tensor, nn

NAME = "transom"
# What a call may say of attention that Transom computes in another way, or not at all.
UNSUPPORTED = {
    "cache": "a paged cache",
    "s_aux": "sinks",
    "cu_seq_lens_q": "packed sequences without a mask",
    "block_mask": "a block mask",
}
# Models of transformers that choose their attention's class from a table of their own.
OWN_CLASSES = (
    "falcon.modeling_falcon",
    "gptj.modeling_gptj",
    "gpt_neo.modeling_gpt_neo",
    "git.modeling_git",
    "bark.modeling_bark",
    "sam.modeling_sam",
    "sam_hq.modeling_sam_hq",
    "data2vec.modeling_data2vec_vision",
    "superglue.modeling_superglue",
)


def register_hugging_face_attention() -> None:
    """Make `attn_implementation="transom"` known to transformers, for every model whose attention can be exchanged."""
    from transom.runner.pretrained import import_transformers

    library = import_transformers('attn_implementation="transom"')
    library.AttentionInterface.register(NAME, attend_for_hugging_face)
    library.AttentionMaskInterface.register(NAME, make_mask)
    for path in OWN_CLASSES:
        folder, _, file = path.partition(".")
        family = getattr(library.models, folder, None)
        refuse_own_classes(folder, getattr(family, file, None))


def refuse_own_classes(model_type: str, code: object) -> None:
    """Make the tables of attention classes in a model's code answer to the name with an error that says what to do."""

    def refuse(*arguments: object, **settings: object) -> None:
        raise Misfit(
            f'attn_implementation="transom" exchanges the attention of a model, but {model_type} has classes of its own'
            ' for it; load the model with attn_implementation="eager", which transom.watch sees too'
        )

    for name, table in vars(code).items() if code is not None else ():
        if name.endswith("_ATTENTION_CLASSES") and isinstance(table, dict):
            table.setdefault(NAME, refuse)


def make_mask(*sizes: Any, config: Any = None, **settings: Any) -> "Tensor | None":
    """The boolean mask that PyTorch's function would get, and None where causal says it all.

    A model that computes its attention itself would add such a mask to its scores, and be wrong: it is refused here.
    """
    from transom.runner.pretrained import import_transformers

    library = import_transformers('attn_implementation="transom"')
    module = type(config).__module__
    code = sys.modules.get(module.replace(".configuration_", ".modeling_"))
    if module.startswith("transformers.") and code is not None and not hasattr(code, "ALL_ATTENTION_FUNCTIONS"):
        raise Misfit(
            f'attn_implementation="transom" exchanges the attention of a model, but {config.model_type} computes its'
            ' own; load the model with attn_implementation="eager"'
        )
    return library.masking_utils.sdpa_mask(*sizes, config=config, **settings)


def attend_for_hugging_face(
    module: "nn.Module",
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    attention_mask: "Tensor | None",
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    position_bias: "Tensor | None" = None,
    **settings: Any,
) -> "tuple[Tensor, None]":
    """The attention that transformers asks for; its arguments and its result, (batch, queries, heads, d_value)."""
    from transom.kernels import attend

    check_settings(module, settings)
    causal = getattr(module, "is_causal", True) if is_causal is None else bool(is_causal)
    causal = causal and attention_mask is None and query.shape[2] > 1
    if causal and query.shape[2] != key.shape[2]:
        raise Misfit(
            f"causal attention without a mask needs as many keys as queries, but queries={query.shape[2]} and"
            f' keys={key.shape[2]}; give an attention_mask, or attn_implementation="sdpa"'
        )
    allowed, bias = split_mask(attention_mask, key.shape[2])
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    output = attend(
        query, key, value, allowed, bias, causal=causal, scale=scaling, softcap=softcap, dropout=float(dropout)
    )
    return output.transpose(1, 2).contiguous(), None


def check_settings(module: "nn.Module", settings: dict[str, Any]) -> None:
    """Complain of what this attention cannot do, instead of leaving it out."""
    if settings.get("output_attentions"):
        raise Misfit(
            'attn_implementation="transom" returns no weights, but output_attentions is set; leave it out and look with'
            " transom.watch(model)"
        )
    for name, what in UNSUPPORTED.items():
        if settings.get(name) is not None:
            raise Misfit(
                f'{type(module).__name__} asks for {what} ({name}), which attn_implementation="transom" does not do;'
                ' load the model with attn_implementation="eager"'
            )


def split_mask(mask: "Tensor | None", keys: int) -> "tuple[Tensor | None, Tensor | None]":
    """A mask as transformers gives it: which keys are allowed, and what is added to the scores.

    A float mask holds the lowest number of its dtype where a key is masked.
    """
    import torch

    if mask is None:
        return None, None
    mask = mask[..., :keys]
    if mask.dtype == torch.bool:
        return mask, None
    allowed = mask > torch.finfo(mask.dtype).min / 2
    return allowed, mask.masked_fill(~allowed, 0.0)
