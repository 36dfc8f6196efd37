"""Where the tokens stand, and who sees whom, in padded and packed batches."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transom.equations.masks import Mask, padding, same_document
from transom.names import Misfit, spelled


def places(
    tokens: Int[Tensor, "batch token"],
    real: Bool[Tensor, "batch keys"] | None,
    documents: Int[Tensor, "batch token"] | None = None,
) -> Int[Tensor, "batch token"] | None:
    """The position of each token, counting real tokens only and, in a packed row, each document from 0.

    So a padded row is the same to the model wherever its padding stands. `real` covers cached tokens too. None where
    positions simply count on.
    """
    if real is not None:
        before = real.cumsum(dim=1) - real.long()
        before = before[:, before.shape[1] - tokens.shape[1] :]
    elif documents is not None:
        before = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
    else:
        return None
    return before if documents is None else before - starts(before, documents)


def starts(before: Int[Tensor, "batch token"], documents: Int[Tensor, "batch token"]) -> Int[Tensor, "batch token"]:
    """For each token, the position of the first of its document; a document is a run of equal ids."""
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return torch.where(begins, before, 0).cummax(dim=1).values


def allowed(
    real: Bool[Tensor, "batch keys"] | None, documents: Int[Tensor, "batch token"] | None = None
) -> Mask | None:
    """No looking at padding, nor into another document."""
    if documents is None:
        return None if real is None else padding(real)
    return same_document(documents) if real is None else same_document(documents) & padding(real)


def check_real(tokens: Tensor, real: Tensor | None, cached: int = 0, words: str = "tokens real") -> None:
    """Complain unless `real` says True or False for each token, cached ones included."""
    if real is None:
        return
    of, name = words.split()
    batch, token = tokens.shape
    if real.dtype != torch.bool:
        raise Misfit(f"{name} must be bool, True for real tokens, but it is {real.dtype}; use {name}.bool()")
    if tuple(real.shape) != (batch, cached + token):
        held = f" behind {cached} cached ones" if cached else ""
        raise Misfit(
            f"{name} must be {spelled((batch, cached + token), 'batch token')}, as {of} are"
            f" {spelled(tokens, 'batch token')}{held}, but it is {spelled(real, 'batch token')};"
            f" give one entry per token, cached ones included"
        )


def check_documents(tokens: Tensor, documents: Tensor | None, cached: bool) -> None:
    """Complain unless `documents` gives each token's document."""
    if documents is None:
        return
    if cached:
        raise Misfit("documents are packed for training, but a cache came too; leave one of the two out")
    if documents.shape != tokens.shape or documents.is_floating_point():
        raise Misfit(
            f"documents must give a whole number per token, but tokens are {spelled(tokens, 'batch token')} and"
            f" documents {spelled(documents, 'batch token')} of {documents.dtype}; give ids of the same shape"
        )
