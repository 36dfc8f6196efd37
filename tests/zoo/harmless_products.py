"""More harmless layers: softmaxes of a classification, products that mix no values, mixing without scores."""

import torch
import torch.nn.functional as F
from zoo.harmless import WIDTH, layer

# Classification, losses and sampling.


@layer(19)
def classification_softmax(x, head):
    return head(x.mean(1)).softmax(-1)


@layer(19)
def softmax_over_a_vocabulary(x, head):
    return head(x).softmax(-1)


@layer(19)
def log_softmax_and_loss(x, head):
    return F.nll_loss(head(x).log_softmax(-1).flatten(0, 1), torch.arange(33) % 19)


@layer(19)
def smoothed_cross_entropy(x, head):
    return F.cross_entropy(head(x).flatten(0, 1), torch.arange(33) % 19, label_smoothing=0.1)


@layer(19)
def sampling_by_temperature(x, head):
    return torch.multinomial((head(x[:, -1]) / 0.7).softmax(-1), 3).float()


@layer(19)
def nucleus_sampling(x, head):
    ranked, order = head(x[:, -1]).softmax(-1).sort(-1, descending=True)
    kept = ranked * (ranked.cumsum(-1) - ranked < 0.9)
    return order.gather(-1, torch.multinomial(kept, 1)).float()


@layer(19)
def gumbel_softmax(x, head):
    return F.gumbel_softmax(head(x), hard=True)


@layer(19)
def expected_embedding(x, head):
    return head(x).softmax(-1) @ head.weight


@layer(19)
def distillation_loss(x, head):
    teacher = (head(x).detach() / 2).softmax(-1)
    return F.kl_div((head(x) / 2).log_softmax(-1), teacher, reduction="batchmean")


@layer(7)
def connectionist_temporal_loss(x, head):
    steps = head(x).log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(steps, torch.ones(3, 4, dtype=torch.long), torch.full((3,), 11), torch.full((3,), 4))


@layer(5)
def conditional_random_field(x, head):
    """The forward algorithm: a log-sum-exp over tags at each step."""
    steps, transition = head(x), torch.linspace(-1, 1, 25).view(5, 5)
    alpha = steps[:, 0]
    for step in steps.unbind(1)[1:]:
        alpha = (alpha[:, :, None] + transition + step[:, None]).logsumexp(1)
    return alpha.logsumexp(-1)


# Products of activations that mix no values.


@layer(14, 14)
def contrastive_loss(x, one, other):
    a, b = F.normalize(one(x.mean(1)), dim=-1), F.normalize(other(x.mean(1)), dim=-1)
    return F.cross_entropy(a @ b.T / 0.07, torch.arange(3))


@layer()
def similarity_of_all_tokens(x):
    unit = F.normalize(x, dim=-1)
    return unit @ unit.mT


@layer(noted="a softmax of queries by keys, whose values come later or never")
def softmax_of_similarities(x):
    return (x @ x.mT).softmax(-1)


@layer()
def gram_matrix(x):
    return x.mT @ x / x.shape[1]


@layer()
def covariance_loss(x):
    centred = x - x.mean(1, keepdim=True)
    return (centred.mT @ centred / 10 - torch.eye(WIDTH)).square().sum()


@layer(14, 14)
def bilinear_pooling(x, one, other):
    return (one(x).mT @ other(x)).flatten(1)


@layer()
def nearest_neighbours(x):
    return torch.cdist(x, x).topk(3, -1, largest=False).values


@layer()
def mean_of_nearest_neighbours(x):
    near = torch.cdist(x, x).topk(3, -1, largest=False).indices
    return x.gather(1, near.flatten(1)[..., None].expand(-1, -1, WIDTH)).unflatten(1, (-1, 3)).mean(2)


@layer()
def vector_quantisation(x):
    codes = torch.linspace(-1, 1, 5 * WIDTH).view(5, WIDTH)
    return codes[torch.cdist(x, codes.expand(3, -1, -1)).argmin(-1)]


@layer(49, noted="a product with a matrix that the input gives")
def learned_alignment_of_points(x, make):
    """PointNet: the input gives a matrix, and is multiplied with it."""
    return x[..., :7] @ make(x.amax(1)).view(3, 7, 7)


@layer(49, 49, noted="two products with matrices that the input gives")
def generated_weights(x, first, second):
    """A small network whose matrices come from the input."""
    hidden = x[..., :7] @ first(x.mean(1)).view(3, 7, 7)
    return hidden.relu() @ second(x.mean(1)).view(3, 7, 7)


@layer()
def neighbours_of_a_given_graph(x):
    edges = torch.ones(11, 11).tril().triu(-2)
    return edges / edges.sum(-1, keepdim=True) @ x


# Mixing without scores.


@layer()
def fourier_mixing(x):
    return torch.fft.fft2(x).real


@layer()
def causal_mean(x):
    return x.cumsum(1) / torch.arange(1, 12)[:, None]


@layer()
def convolution_over_tokens(x):
    return F.conv1d(x.mT, torch.ones(WIDTH, 1, 3) / 3, padding=1, groups=WIDTH).mT


@layer()
def normalised_kernel_convolution(x):
    kernel = torch.linspace(-1, 1, 3).softmax(0).expand(WIDTH, 1, 3)
    return F.conv1d(x.mT, kernel, padding=1, groups=WIDTH).mT


@layer(3)
def convolution_with_a_kernel_from_each_token(x, make):
    windows = F.pad(x, (0, 0, 1, 1)).unfold(1, 3, 1)
    return (windows * make(x).softmax(-1)[:, :, None]).sum(-1)


@layer()
def mixture_of_layers(x):
    weights = torch.linspace(-1, 1, 3).softmax(0)
    return sum(weight * layer for weight, layer in zip(weights, (x, 2 * x, x.relu()), strict=True))


@layer(14)
def exponential_moving_average(x, map_):
    out, rate = [x[:, 0]], map_(x).sigmoid()
    for step, gate in zip(x.unbind(1)[1:], rate.unbind(1)[1:], strict=True):
        out.append(gate * out[-1] + (1 - gate) * step)
    return torch.stack(out, 1)
