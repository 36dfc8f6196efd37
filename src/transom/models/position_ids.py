"""Positions and masks of padded and packed batches."""

import torch
from jaxtyping import Bool
from torch import Tensor

from transom.equations.masks import Mask, padding, same_document
from transom.layers.embedding import Tokens
from transom.names import Misfit, format_shape

Real = Bool[Tensor, "batch token"]
RealKeys = Bool[Tensor, "batch keys"]  # cached tokens included


def position_ids(tokens: Tokens, real: RealKeys | None, documents: Tokens | None = None) -> Tokens | None:
    """The position of each token, counting real tokens only and, in a packed row, each document from 0.

    So padding changes nothing, on whichever side it stands. `real` covers cached tokens too. None if positions simply
    count on.
    """
    if real is not None:
        positions = real.cumsum(dim=1) - real.long()
        positions = positions[:, positions.shape[1] - tokens.shape[1] :]
    elif documents is not None:
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
    else:
        return None
    return positions if documents is None else positions - document_starts(positions, documents)


def document_starts(positions: Tokens, documents: Tokens) -> Tokens:
    """For each token, the position of the first token of its document; a document is a run of equal ids."""
    is_first = torch.ones_like(documents, dtype=torch.bool)
    is_first[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return torch.where(is_first, positions, 0).cummax(dim=1).values


def attention_mask(real: RealKeys | None, documents: Tokens | None = None) -> Mask | None:
    """A mask that hides padding and other documents; None if there is nothing to hide."""
    if documents is None:
        return None if real is None else padding(real)
    return same_document(documents) if real is None else same_document(documents) & padding(real)


def check_real_mask(
    tokens: Tensor, real: Tensor | None, cached: int = 0, tokens_name: str = "tokens", name: str = "real"
) -> None:
    """Raise an error unless `real` is True or False for each token, cached ones included."""
    if real is None:
        return
    batch, token = tokens.shape
    if real.dtype != torch.bool:
        raise Misfit(f"{name} must be bool, True for real tokens, but it is {real.dtype}; use {name}.bool()")
    if tuple(real.shape) != (batch, cached + token):
        behind = f" behind {cached} cached ones" if cached else ""
        raise Misfit(
            f"{name} must be {format_shape((batch, cached + token), 'batch token')}, as {tokens_name} are"
            f" {format_shape(tokens, 'batch token')}{behind}, but it is {format_shape(real, 'batch token')};"
            f" give one entry per token, cached ones included"
        )


def check_documents(tokens: Tensor, documents: Tensor | None, cached: bool) -> None:
    """Raise an error unless `documents` has the document of each token."""
    if documents is None:
        return
    if cached:
        raise Misfit("documents are packed for training, but a cache came too; leave one of the two out")
    if documents.shape != tokens.shape or documents.is_floating_point():
        raise Misfit(
            f"documents must hold a whole number per token, but tokens are {format_shape(tokens, 'batch token')} and"
            f" documents {format_shape(documents, 'batch token')} of {documents.dtype}; give ids of the same shape"
        )
