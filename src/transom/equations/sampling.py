"""From logits to the next token: each function takes logits (batch, vocabulary) and returns changed ones.

A token that is ruled out gets −∞. Names, order and edge cases are those of Hugging Face's logits processors, so that
the same settings have the same effect; the functions are applied in the order of this file.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Logits = Float[Tensor, "batch vocabulary"]
Tokens = Int[Tensor, "batch token"]
Real = Bool[Tensor, "batch token"]


def repetition_penalty(logits: Logits, tokens: Tokens, penalty: float, real: Real | None = None) -> Logits:
    """Lower the logits of earlier tokens: divided by the penalty above 0, multiplied below (Keskar et al. 2019, 4.1).

    Tokens that are not `real` do not count.
    """
    repeated = torch.zeros_like(logits, dtype=torch.bool)
    repeated.scatter_(1, tokens if real is None else replace_padding(tokens, real), True)
    if real is not None:
        repeated &= real.any(dim=1, keepdim=True)
    return torch.where(repeated, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def replace_padding(tokens: Tokens, real: Real) -> Tokens:
    """The tokens, with padding replaced by a real token of the same row."""
    first_real = real.int().argmax(dim=1, keepdim=True)
    return torch.where(real, tokens, tokens.gather(1, first_real))


def no_repeat_ngram(logits: Logits, tokens: Tokens, size: int, real: Real | None = None) -> Logits:
    """Rule out each token that would repeat a run of `size` tokens (Paulus et al. 2017, section 2.5)."""
    if tokens.shape[1] < size:
        return logits
    ngrams = tokens.unfold(1, size, 1)
    prefix = tokens[:, tokens.shape[1] + 1 - size :]
    matches = (ngrams[..., :-1] == prefix[:, None]).all(dim=-1)
    if real is not None:
        matches &= real.unfold(1, size, 1).all(dim=-1)
    counts = torch.zeros_like(logits).scatter_add_(1, ngrams[..., -1], matches.to(logits.dtype))
    return logits.masked_fill(counts > 0, -torch.inf)


def bad_words(logits: Logits, tokens: Tokens, words: list[list[int]], real: Real | None = None) -> Logits:
    """Rule out each token that would complete one of the words, which are lists of tokens."""
    ruled_out = torch.zeros_like(logits, dtype=torch.bool)
    for *prefix, last in words:
        if len(prefix) > tokens.shape[1]:
            continue
        recent = slice(tokens.shape[1] - len(prefix), None)
        matches = (tokens[:, recent] == torch.tensor(prefix, dtype=tokens.dtype, device=tokens.device)).all(dim=1)
        if real is not None:
            matches &= real[:, recent].all(dim=1)
        ruled_out[:, last] |= matches
    return logits.masked_fill(ruled_out, -torch.inf)


def suppress_tokens(
    logits: Logits, suppressed: Int[Tensor, " any"], rows: Bool[Tensor, " batch"] | None = None
) -> Logits:
    """Rule out these tokens, in some rows or in all."""
    ruled_out = torch.zeros_like(logits, dtype=torch.bool)
    ruled_out[:, suppressed[suppressed < logits.shape[1]]] = True
    return logits.masked_fill(ruled_out if rows is None else ruled_out & rows[:, None], -torch.inf)


def force_tokens(logits: Logits, forced: Int[Tensor, " any"], rows: Bool[Tensor, " batch"] | None = None) -> Logits:
    """Rule out all but these tokens, which get 0, in some rows or in all."""
    alone = torch.full_like(logits, -torch.inf)
    alone[:, forced] = 0.0
    return alone if rows is None else torch.where(rows[:, None], alone, logits)


def temperature(logits: Logits, value: float) -> Logits:
    """logits / temperature: below 1 likely tokens become likelier, above 1 all become more alike."""
    return logits / value


def top_k(logits: Logits, k: int) -> Logits:
    """Keep the k largest (Fan et al. 2018, section 5.2), and all that equal the k-th."""
    smallest = logits.topk(min(k, logits.shape[1])).values[:, -1:]
    return logits.masked_fill(logits < smallest, -torch.inf)


def top_p(logits: Logits, p: float) -> Logits:
    """Keep the likeliest that together reach probability p (Holtzman et al. 2020, section 3.1), and at least one."""
    ascending, order = logits.sort(dim=1)
    tail = ascending.softmax(dim=1).cumsum(dim=1) <= 1.0 - p
    tail[:, -1] = False
    return logits.masked_fill(torch.zeros_like(tail).scatter_(1, order, tail), -torch.inf)


def min_p(logits: Logits, share: float) -> Logits:
    """Keep those at least `share` times as likely as the likeliest (Nguyen et al. 2024, section 3)."""
    probabilities = logits.softmax(dim=1)
    return logits.masked_fill(probabilities < share * probabilities.amax(dim=1, keepdim=True), -torch.inf)


def sample_token(logits: Logits, uniform: Float[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """A token of each row by its probability: the first at which the cumulative probability exceeds `uniform`."""
    # In float64: 50,000 small probabilities would lose digits in a float32 sum.
    cumulative = logits.double().softmax(dim=1).cumsum(dim=1)
    threshold = uniform.double()[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, threshold, right=True)[:, 0]
