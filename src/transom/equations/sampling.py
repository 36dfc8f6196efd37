"""From logits to the next token: each function takes logits (batch, vocabulary) and gives them changed.

What is ruled out gets −∞. Names, order and edges are those of Hugging Face's logits processors, so that the same
settings mean the same; they are meant to be applied in the order in which they stand here.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Logits = Float[Tensor, "batch vocabulary"]
Tokens = Int[Tensor, "batch token"]
Real = Bool[Tensor, "batch token"]


def repetition_penalty(logits: Logits, tokens: Tokens, penalty: float, real: Real | None = None) -> Logits:
    """Logits of tokens that are there already, made smaller: divided by the penalty above 0, multiplied below.

    (Keskar et al. 2019, section 4.1.) Tokens that are not `real` count for nothing.
    """
    seen = torch.zeros_like(logits, dtype=torch.bool)
    # Every place writes; one of padding writes where a real one does too.
    seen.scatter_(1, tokens if real is None else stood_in(tokens, real), True)
    if real is not None:
        seen &= real.any(dim=1, keepdim=True)
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def stood_in(tokens: Tokens, real: Real) -> Tokens:
    """The tokens with a real one of the same row in place of each that is not."""
    first = real.int().argmax(dim=1, keepdim=True)
    return torch.where(real, tokens, tokens.gather(1, first))


def no_repeat_ngram(logits: Logits, tokens: Tokens, size: int, real: Real | None = None) -> Logits:
    """No run of `size` tokens comes twice: rules out each token that would complete one (Paulus et al. 2017, 2.5)."""
    if tokens.shape[1] < size:
        return logits
    runs = tokens.unfold(1, size, 1)
    last = tokens[:, tokens.shape[1] + 1 - size :]
    again = (runs[..., :-1] == last[:, None]).all(dim=-1)
    if real is not None:
        again &= real.unfold(1, size, 1).all(dim=-1)
    counts = torch.zeros_like(logits).scatter_add_(1, runs[..., -1], again.to(logits.dtype))
    return logits.masked_fill(counts > 0, -torch.inf)


def temperature(logits: Logits, degree: float) -> Logits:
    """logits / temperature: below 1 the likely becomes likelier, above 1 all become more alike."""
    return logits / degree


def top_k(logits: Logits, k: int) -> Logits:
    """Only the k largest (Fan et al. 2018, section 5.2); all that equal the k-th stay."""
    smallest = logits.topk(min(k, logits.shape[1])).values[:, -1:]
    return logits.masked_fill(logits < smallest, -torch.inf)


def top_p(logits: Logits, p: float) -> Logits:
    """Only the likeliest that together reach probability p (Holtzman et al. 2020, section 3.1), and at least one."""
    ascending, order = logits.sort(dim=1)
    tail = ascending.softmax(dim=1).cumsum(dim=1) <= 1.0 - p
    tail[:, -1] = False
    return logits.masked_fill(torch.zeros_like(tail).scatter_(1, order, tail), -torch.inf)


def min_p(logits: Logits, share: float) -> Logits:
    """Only those at least `share` times as likely as the likeliest (Nguyen et al. 2024, section 3)."""
    probabilities = logits.softmax(dim=1)
    return logits.masked_fill(probabilities < share * probabilities.amax(dim=1, keepdim=True), -torch.inf)


def drawn(logits: Logits, uniform: Float[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """A token of each row by its probability: the first at which the sum of probabilities goes beyond `uniform`."""
    # In float64, where the steps of 50,000 small probabilities do not get lost in their sum.
    sums = logits.double().softmax(dim=1).cumsum(dim=1)
    reached = uniform.double()[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, reached, right=True)[:, 0]
