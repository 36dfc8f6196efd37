"""Spellings that need no softmax operator, and often no matrix product either."""

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor
from zoo.other_spellings import top_scores
from zoo.spellings import BATCH, HEADS, LOWER, TOKENS, causal_weights, scores, softmax_weights, spelling


@spelling("exact")
def einsum_with_an_ellipsis(Q, K, V):
    w = torch.einsum("...id,...jd->...ij", Q / 2, K).softmax(-1)
    return torch.einsum("...ij,...jd->...id", w, V)


@spelling("exact")
def division_by_the_absolute_sum(Q, K, V):
    return F.normalize(scores(Q, K).exp(), p=1.0, dim=-1) @ V


@spelling("raises", lambda Q, K: scores(Q.double(), K.double()).flatten(2).softmax(-1).unflatten(2, (TOKENS, TOKENS)))
def softmax_over_a_flattened_axis(Q, K, V):
    return scores(Q, K).flatten(2).softmax(-1).unflatten(2, (TOKENS, TOKENS)) @ V


@spelling("exact")
def scores_by_baddbmm(Q, K, V):
    q, k, v = (x.flatten(0, 1) for x in (Q, K, V))
    s = torch.baddbmm(torch.zeros(len(q), TOKENS, TOKENS), q, k.mT, beta=0, alpha=0.5)
    return torch.bmm(s.softmax(-1), v).unflatten(0, (BATCH, HEADS))


@spelling("listed")
def values_by_baddbmm(Q, K, V):
    q, k, v = (x.flatten(0, 1) for x in (Q, K, V))
    return torch.baddbmm(torch.zeros_like(v), scores(q, k).softmax(-1), v).unflatten(0, (BATCH, HEADS))


@spelling("exact", lambda Q, K: softmax_weights(Q, K[:, :1]))
def one_head_of_keys_expanded(Q, K, V):
    k, v = (x[:, :1].expand(-1, HEADS, -1, -1) for x in (K, V))
    return torch.matmul(torch.matmul(Q / 2, k.mT).softmax(-1), v)


@spelling("exact")
def mapped_over_the_heads(Q, K, V):
    one = lambda q, k, v: (q @ k.mT / 2).softmax(-1) @ v  # noqa: E731
    return torch.func.vmap(torch.func.vmap(one), in_dims=0)(Q, K, V)


@spelling("exact")
def mapped_over_batch_heads_and_queries(Q, K, V):
    one = lambda q, k, v: (k @ q / 2).softmax(-1) @ v  # noqa: E731
    each = torch.func.vmap(one, in_dims=(0, None, None))
    return torch.func.vmap(torch.func.vmap(each))(Q, K, V)


@spelling("listed")
def sums_in_the_log_domain(Q, K, V):
    """Positive values, accumulated as logarithms key by key."""
    low = V.amin() - 1
    out = torch.full_like(V, -math.inf)
    for j in range(TOKENS):
        weight = scores(Q, K).log_softmax(-1)[..., j, None]
        out = torch.logaddexp(out, weight + (V[:, :, j, None] - low).log())
    return out.exp() + low


@spelling("listed")
def log_sum_exp_of_log_values(Q, K, V):
    low = V.amin() - 1
    return (scores(Q, K).log_softmax(-1)[..., None] + (V - low).log()[:, :, None]).logsumexp(-2).exp() + low


@spelling("listed")
def key_by_key(Q, K, V):
    """The online softmax with blocks of one key, without any matrix product."""
    top, total, out = torch.full((*Q.shape[:3], 1), -math.inf), 0.0, 0.0
    for j in range(TOKENS):
        s = (Q * K[:, :, j, None]).sum(-1, keepdim=True) / 2
        new = torch.maximum(top, s)
        e, scale = torch.exp(s - new), torch.exp(top - new)
        top, total, out = new, total * scale + e, out * scale + e * V[:, :, j, None]
    return out / total


@spelling("listed")
def all_elements_without_a_product(Q, K, V):
    e = ((Q[:, :, :, None] * K[:, :, None]).sum(-1) / 2).exp()
    return ((e / e.sum(-1, keepdim=True))[..., None] * V[:, :, None]).sum(-2)


@spelling("exact")
def softmax_without_a_product(Q, K, V):
    w = ((Q[:, :, :, None] * K[:, :, None]).sum(-1) / 2).softmax(-1)
    return (w[..., None] * V[:, :, None]).sum(-2)


@spelling("exact")
def powers_of_two(Q, K, V):
    e = torch.exp2(scores(Q, K) / math.log(2))
    return (e / e.sum(-1, keepdim=True)) @ V


@spelling("listed")
def powers_of_e_without_a_product(Q, K, V):
    e = torch.pow(math.e, (Q[:, :, :, None] * K[:, :, None]).sum(-1) / 2)
    return ((e / e.sum(-1, keepdim=True))[..., None] * V[:, :, None]).sum(-2)


@spelling("exact")
def odds_of_sigmoids(Q, K, V):
    p = torch.sigmoid(scores(Q, K))
    e = p / (1 - p)
    return (e / e.sum(-1, keepdim=True)) @ V


@spelling("exact", lambda Q, K: F.normalize(scores(Q.double(), K.double()).relu() + 1e-3, p=1.0, dim=-1))
def normalised_relu(Q, K, V):
    return F.normalize(scores(Q, K).relu() + 1e-3, p=1.0, dim=-1) @ V


@spelling("exact", lambda Q, K: F.normalize(torch.sigmoid(scores(Q.double(), K.double())), p=1.0, dim=-1))
def normalised_sigmoids(Q, K, V):
    p = torch.sigmoid(scores(Q, K))
    return p / p.sum(-1, keepdim=True) @ V


def two_softmaxes(Q: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
    (q, p), (k, m) = Q.chunk(2, -1), K.chunk(2, -1)
    return scores(q, k).softmax(-1), scores(p, m).softmax(-1)


@spelling("exact", lambda Q, K: torch.cat(two_softmaxes(Q.double(), K.double())[::-1], 2))
def difference_of_two_softmaxes(Q, K, V):
    """Both softmaxes are shown, the second one first; their difference, which weighs the values, is not."""
    first, second = two_softmaxes(Q, K)
    return (first - 0.3 * second) @ V


@spelling("listed", lambda Q, K: top_scores(scores(Q.double(), K.double())).softmax(-1))
def three_keys_gathered(Q, K, V):
    top = scores(Q, K).topk(3, -1)
    chosen = V[:, :, None].expand(-1, -1, TOKENS, -1, -1).gather(3, top.indices[..., None].expand(-1, -1, -1, -1, 4))
    return (top.values.softmax(-1)[..., None, :] @ chosen)[..., 0, :]


@spelling("exact", lambda Q, K: top_scores(scores(Q.double(), K.double())).softmax(-1))
def three_weights_kept_and_divided(Q, K, V):
    w = scores(Q, K).softmax(-1)
    w = w * (w >= w.topk(3, -1).values[..., -1:])
    return w / w.sum(-1, keepdim=True) @ V


@spelling("raises")
def edges_of_a_graph_by_scatter(Q, K, V):
    query, key = torch.ones(TOKENS, TOKENS).nonzero().T
    s = (Q[:, :, query] * K[:, :, key]).sum(-1) / 2.0
    where = query.expand_as(s)
    top = torch.full((BATCH, HEADS, TOKENS), -math.inf).scatter_reduce(2, where, s, "amax")
    e = (s - top.gather(2, where)).exp()
    total = torch.zeros(BATCH, HEADS, TOKENS).scatter_add(2, where, e)
    w = (e / total.gather(2, where))[..., None]
    return torch.zeros_like(V).scatter_add(2, query[:, None].expand(*s.shape, 4), w * V[:, :, key])


@spelling("raises", causal_weights)
def edges_of_a_graph_divided_last(Q, K, V):
    query, key = LOWER.nonzero().T
    e = ((Q[:, :, query] * K[:, :, key]).sum(-1) / 2.0).exp()[..., None]
    out = torch.zeros_like(V).index_put((*whole(), query), e * V[:, :, key], accumulate=True)
    return out / torch.zeros_like(V[..., :1]).index_put((*whole(), query), e, accumulate=True)


def whole() -> tuple[Tensor, Tensor]:
    """Indices of all sequences and heads, to be broadcast against a list of edges."""
    return torch.arange(BATCH)[:, None, None], torch.arange(HEADS)[None, :, None]


@spelling("raises")
def edges_of_a_graph_by_a_sparse_matrix(Q, K, V):
    edges = torch.ones(TOKENS, TOKENS).nonzero().T
    out = []
    for q, k, v in zip(Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1), strict=True):
        e = ((q[edges[0]] * k[edges[1]]).sum(-1) / 2.0).exp()
        weights = torch.sparse_coo_tensor(edges, e, (TOKENS, TOKENS))
        out.append((weights @ v) / (weights @ torch.ones(TOKENS, 1)))
    return torch.stack(out).unflatten(0, (BATCH, HEADS))


@spelling("raises")
def segments_of_a_graph(Q, K, V):
    query, key = torch.ones(TOKENS, TOKENS).nonzero().T
    e = ((Q[:, :, query] * K[:, :, key]).sum(-1) / 2.0).exp().movedim(-1, 0)
    lengths = torch.full((TOKENS,), TOKENS)
    total = torch.segment_reduce(e, "sum", lengths=lengths)
    messages = e[..., None] * V[:, :, key].movedim(2, 0)
    return (torch.segment_reduce(messages, "sum", lengths=lengths) / total[..., None]).movedim(0, 2)


def block_diagonal(Q: Tensor, K: Tensor) -> Tensor:
    """All heads of a sequence as one matrix of queries by keys."""
    mask = torch.block_diag(*[torch.ones(TOKENS, TOKENS)] * HEADS).bool()
    return scores(Q.flatten(1, 2), K.flatten(1, 2)).masked_fill(~mask, -math.inf).softmax(-1)


@spelling("exact", lambda Q, K: block_diagonal(Q.double(), K.double()))
def block_diagonal_heads(Q, K, V):
    return (block_diagonal(Q, K) @ V.flatten(1, 2)).unflatten(1, (HEADS, TOKENS))


@spelling("exact")
def weights_times_values_as_convolution(Q, K, V):
    w = scores(Q, K).softmax(-1).flatten(0, 1)
    rows = [F.conv1d(v[None], one[:, :, None])[0] for one, v in zip(w, V.flatten(0, 1), strict=True)]
    return torch.stack(rows).unflatten(0, (BATCH, HEADS))


@spelling("exact")
def tensordot_per_head(Q, K, V):
    heads = zip(Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1), strict=True)
    rows = [torch.tensordot((torch.tensordot(q, k, ([1], [1])) / 2).softmax(-1), v, 1) for q, k, v in heads]
    return torch.stack(rows).unflatten(0, (BATCH, HEADS))


def attention_to_script(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return torch.matmul(torch.softmax(torch.matmul(Q, K.transpose(-2, -1)) / 2.0, -1), V)


@spelling("exact")
def scripted(Q, K, V):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated, and still used
        return torch.jit.script(attention_to_script)(Q, K, V)


@spelling("listed")
def cumulative_log_sum_exp(Q, K, V):
    """The last of the cumulative sums in the log domain divides the weights."""
    s = (Q[:, :, :, None] * K[:, :, None]).sum(-1) / 2
    return ((s - s.logcumsumexp(-1)[..., -1:]).exp()[..., None] * V[:, :, None]).sum(-2)


@spelling("exact")
def in_double_precision(Q, K, V):
    return (scores(Q.double(), K.double()).softmax(-1) @ V.double()).float()


@spelling("exact")
def addcmul_of_scores(Q, K, V):
    s = torch.addcmul(torch.zeros(BATCH, HEADS, TOKENS, TOKENS), Q @ K.mT, torch.tensor(0.5))
    return s.softmax(-1) @ V


@spelling("raises")
def mean_instead_of_a_sum(Q, K, V):
    e = scores(Q, K).exp()
    return (e @ V / TOKENS) / e.mean(-1, keepdim=True)
