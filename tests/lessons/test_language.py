"""Decoder blocks, positions, shared keys, fold, logits and decoding: each beside torch.nn, or in plain loops."""

import cmath
import math

import numpy as np
import pytest
import torch
from lessons.cells import check_cells
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from transom.equations.positions import alibi_slopes
from transom.lessons import parse_lesson
from transom.names import Misfit

D_MODEL, D_HIDDEN, TOKEN, SOURCE, WORDS = 6, 11, 3, 5, 7


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def toml(matrix):
    return str([[float(x) for x in row] for row in np.atleast_2d(matrix)])


def settings(**matrices):
    return "".join(f"{name} = {toml(matrix)}\n" for name, matrix in matrices.items())


def lesson_steps(text, case=""):
    return parse_lesson(f'title = "x"\n{text}', "x.toml").steps(case)


def attention_parameters(attention):
    """The matrices and biases of torch's attention as a lesson has them."""
    W_Q, W_K, W_V = attention.in_proj_weight.detach().numpy().reshape(3, D_MODEL, D_MODEL)
    b_Q, b_K, b_V = attention.in_proj_bias.detach().numpy().reshape(3, D_MODEL)
    out = attention.out_proj
    matrices = {"W_Q": W_Q.T, "W_K": W_K.T, "W_V": W_V.T, "W_O": out.weight.detach().numpy().T}
    return matrices | {"b_Q": b_Q, "b_K": b_K, "b_V": b_V, "b_O": out.bias.detach().numpy()}


def norm_parameters(norm, suffix=""):
    return {f"gain{suffix}": norm.weight.detach().numpy(), f"bias{suffix}": norm.bias.detach().numpy()}


def forward_parameters(block):
    weights = {"W_1": block.linear1.weight.T, "b_1": block.linear1.bias}
    weights |= {"W_2": block.linear2.weight.T, "b_2": block.linear2.bias}
    return {name: tensor.detach().numpy() for name, tensor in weights.items()}


def with_random_norms(module):
    torch.manual_seed(5)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.LayerNorm):
                part.weight.uniform_(0.5, 1.5)
                part.bias.uniform_(-1, 1)
    return module.double().eval()


X, Y = normal(TOKEN, D_MODEL), normal(SOURCE, D_MODEL, seed=1)
HEAD = f'tokens = ["a", "b", "c"]\nembeddings = {toml(X)}\n'
AT = f'at = ["p", "q", "r", "s", "t"]\nat_embeddings = {toml(Y)}\n'


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_decoder_block_is_that_of_torch(norm_first, activation):
    torch.manual_seed(1)
    block = nn.TransformerDecoderLayer(
        D_MODEL, 2, D_HIDDEN, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
    )
    block = with_random_norms(block)
    text = HEAD + AT + '[attention]\nheads = 2\nmask = "causal"\n[parameters]\n'
    text += settings(**attention_parameters(block.self_attn), **norm_parameters(block.norm1))
    text += settings(**forward_parameters(block), **norm_parameters(block.norm3, "_2"))
    text += "[cross.attention]\nheads = 2\n[cross.parameters]\n"
    text += settings(**attention_parameters(block.multihead_attn), **norm_parameters(block.norm2))
    text += f'[block]\nresidual = true\nnorm = "layer"\nnorm_first = {str(norm_first).lower()}\n'
    steps = lesson_steps(text + f'activation = "{activation}"\n')
    with torch.no_grad():
        mask = nn.Transformer.generate_square_subsequent_mask(TOKEN, dtype=torch.float64)
        right = block(torch.from_numpy(X)[None], torch.from_numpy(Y)[None], tgt_mask=mask)[0].numpy()
    assert np.allclose(list(steps)[-1].values, right, rtol=1e-10, atol=1e-10)
    assert steps["cross_weights", 1].values.shape == (TOKEN, SOURCE)
    assert steps["cross_weights", 1].columns == tuple("pqrst")
    check_cells(steps)


def test_an_encoder_and_a_decoder_are_the_transformer_of_torch():
    torch.manual_seed(2)
    model = nn.Transformer(D_MODEL, 2, 1, 1, D_HIDDEN, dropout=0.0, batch_first=True, norm_first=False)
    model = with_random_norms(model)
    model.encoder.norm = model.decoder.norm = None
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    block = '[{}block]\nresidual = true\nnorm = "layer"\n'
    text = HEAD + '[attention]\nheads = 2\nmask = "causal"\n[parameters]\n'
    text += settings(**attention_parameters(decoder.self_attn), **norm_parameters(decoder.norm1))
    text += settings(**forward_parameters(decoder), **norm_parameters(decoder.norm3, "_2"))
    text += "[cross.attention]\nheads = 2\n[cross.parameters]\n"
    text += settings(**attention_parameters(decoder.multihead_attn))
    text += settings(**norm_parameters(decoder.norm2)) + block.format("")
    text += f'[encoder]\ntokens = ["p", "q", "r", "s", "t"]\nembeddings = {toml(Y)}\n'
    text += "[encoder.attention]\nheads = 2\n[encoder.parameters]\n"
    text += settings(**attention_parameters(encoder.self_attn), **norm_parameters(encoder.norm1))
    text += settings(**forward_parameters(encoder), **norm_parameters(encoder.norm2, "_2")) + block.format("encoder.")
    steps = lesson_steps(text)
    with torch.no_grad():
        mask = nn.Transformer.generate_square_subsequent_mask(TOKEN, dtype=torch.float64)
        right = model(torch.from_numpy(Y)[None], torch.from_numpy(X)[None], tgt_mask=mask)[0].numpy()
    assert np.allclose(steps["norm_2"].values, right, rtol=1e-10, atol=1e-10)
    assert steps["encoder_weights"].values.shape == (SOURCE, SOURCE)


def test_the_arrangement_without_a_residual_around_attention():
    W = {name: normal(D_MODEL, D_MODEL, seed=seed) for seed, name in enumerate(("W_Q", "W_K", "W_V", "W_1", "W_2"))}
    text = HEAD + "[parameters]\n" + settings(**W)
    steps = lesson_steps(text + '[block]\nresidual = true\nnorm = "layer"\naround = "feed_forward"\n')
    Q, K, V = (torch.from_numpy(X @ W[f"W_{letter}"])[None] for letter in "QKV")
    A = scaled_dot_product_attention(Q, K, V)[0]
    forward = torch.relu(A @ torch.from_numpy(W["W_1"])) @ torch.from_numpy(W["W_2"])
    right = nn.functional.layer_norm(forward + A, (D_MODEL,))
    assert np.allclose(list(steps)[-1].values, right.numpy(), rtol=1e-10)
    assert {"residual", "norm"}.isdisjoint(steps.names)


def test_keys_and_values_from_different_sequences():
    Z = normal(SOURCE, 4, seed=9)
    W_Q, W_K, W_V = normal(D_MODEL, 2), normal(D_MODEL, 2, seed=1), normal(4, 3, seed=2)
    text = HEAD + AT + f"value_embeddings = {toml(Z)}\n[parameters]\n" + settings(W_Q=W_Q, W_K=W_K, W_V=W_V)
    steps = lesson_steps(text)
    Q, K, V = (torch.from_numpy(x)[None] for x in (X @ W_Q, Y @ W_K, Z @ W_V))
    assert np.allclose(steps["sum"].values, scaled_dot_product_attention(Q, K, V)[0].numpy(), rtol=1e-12)
    check_cells(steps)


def test_shared_key_heads_are_those_of_torch():
    W_Q, W_K, W_V = normal(D_MODEL, 8), normal(D_MODEL, 4, seed=1), normal(D_MODEL, 4, seed=2)
    text = HEAD + "[attention]\nheads = 4\nkv_heads = 2\n[parameters]\n" + settings(W_Q=W_Q, W_K=W_K, W_V=W_V)
    steps = lesson_steps(text)
    Q, K, V = (torch.from_numpy(X @ W).unflatten(1, (-1, 2)).transpose(0, 1)[None] for W in (W_Q, W_K, W_V))
    right = scaled_dot_product_attention(Q, K, V, enable_gqa=True)[0]
    for head in range(4):
        assert np.allclose(steps["sum", head].values, right[head].numpy(), rtol=1e-12)
    assert np.array_equal(steps["K", 0].values, steps["K", 1].values)
    assert not np.array_equal(steps["K", 1].values, steps["K", 2].values)


def test_fold_shows_one_wide_matrix_and_changes_nothing():
    W = {f"W_{letter}": normal(D_MODEL, D_MODEL, seed=seed) for seed, letter in enumerate("QKV")}
    text = HEAD + "[attention]\nheads = 3\n{}[parameters]\n" + settings(**W)
    plain, folded = lesson_steps(text.format("")), lesson_steps(text.format("fold = true\n"))
    wide = folded["K_wide"]
    assert wide.columns == ("0.1", "0.2", "1.1", "1.2", "2.1", "2.2")
    for head in range(3):
        assert np.allclose(folded["K", head].values, wide.values[:, 2 * head : 2 * head + 2])
    assert np.array_equal(plain["joined"].values, folded["joined"].values)
    check_cells(folded)


def test_rotary_positions_are_a_complex_product():
    W_Q, W_K = normal(D_MODEL, 4), normal(D_MODEL, 4, seed=1)
    text = HEAD + 'positions = "rotary"\n[attention]\nd_value = 6\n[parameters]\nW_V = "identity"\n'
    steps = lesson_steps(text + settings(W_Q=W_Q, W_K=W_K))
    for name in ("Q", "K"):
        for place, vector in enumerate(steps[name].values):
            for pair in range(2):
                turned = complex(*vector[2 * pair : 2 * pair + 2]) * cmath.exp(1j * place * 10_000 ** (-2 * pair / 4))
                found = steps[f"rotated_{name}"].values[place, 2 * pair : 2 * pair + 2]
                assert np.allclose(found, [turned.real, turned.imag], rtol=1e-12)
    assert np.allclose(steps["scores"].values, steps["rotated_Q"].values @ steps["rotated_K"].values.T)
    check_cells(steps)


@pytest.mark.parametrize("heads", [2, 3])
def test_alibi_takes_away_by_distance(heads):
    W = {f"W_{letter}": normal(D_MODEL, D_MODEL, seed=seed) for seed, letter in enumerate("QKV")}
    text = HEAD + f'positions = "alibi"\n[attention]\nheads = {heads}\nmask = "causal"\n[parameters]\n'
    steps = lesson_steps(text + settings(**W))
    slopes = alibi_slopes(heads).tolist()
    for head in range(heads):
        for i in range(TOKEN):
            for j in range(i + 1):
                bias = steps["biased", head].values[i, j] - steps["scaled", head].values[i, j]
                assert math.isclose(bias, -slopes[head] * (i - j), rel_tol=1e-6, abs_tol=1e-12)
    check_cells(steps)


VOCABULARY = f'[vocabulary]\ntokens = ["a", "b", "c", "d", "e", "f", "g"]\nvectors = {toml(normal(WORDS, D_MODEL))}\n'
ATTENTION = '[attention]\nmask = "causal"\n[parameters]\n' + settings(
    **{f"W_{letter}": normal(D_MODEL, D_MODEL, seed=seed) for seed, letter in enumerate("QKVO")}
)


def test_logits_probabilities_and_loss_are_those_of_torch():
    b = normal(WORDS, seed=3)
    steps = lesson_steps(HEAD + ATTENTION + VOCABULARY + f'b = {b.tolist()}\ntargets = ["b", "g", "a"]\n')
    logits = torch.from_numpy(steps["output"].values @ normal(WORDS, D_MODEL).T + b)
    assert np.allclose(steps["logits"].values, logits.numpy(), rtol=1e-12)
    assert np.allclose(steps["probabilities"].values, logits.softmax(dim=1).numpy(), rtol=1e-12)
    losses = cross_entropy(logits, torch.tensor([1, 6, 0]), reduction="none")
    assert np.allclose(steps["loss"].values[:, 0], losses.numpy(), rtol=1e-12)
    check_cells(steps)


PLACES = ["", 'positions = "sinusoidal"\n', 'positions = "rotary"\n', 'positions = "alibi"\n']


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_decoding_with_the_cache_is_the_whole_text_once_more(places, kv_heads):
    """Two layers, shared keys: each written token's numbers are the last row of a lesson on all tokens so far."""
    attention = ATTENTION.replace("[attention]", f"[attention]\nheads = 2\nkv_heads = {kv_heads}\nd_head = 4\n")
    for seed, (name, width) in enumerate({"W_Q": 8, "W_K": 4 * kv_heads, "W_V": 4 * kv_heads}.items()):
        old = settings(**{name: normal(D_MODEL, D_MODEL, seed=seed)})
        attention = attention.replace(old, settings(**{name: normal(D_MODEL, width, seed=seed)}))
    attention = attention.replace(
        settings(W_O=normal(D_MODEL, D_MODEL, seed=3)), settings(W_O=normal(8, D_MODEL, seed=3))
    )
    rest = attention + "[block]\nresidual = true\n[[layer]]\n[[layer]]\n" + VOCABULARY
    steps = lesson_steps(HEAD + places + rest + "[decoding]\nsteps = 4\n")
    words, vectors = "abcdefg", normal(WORDS, D_MODEL)
    tokens, x = ["a", "b", "c"], X
    for number in range(1, 5):
        last = steps["probabilities" if number == 1 else f"step{number - 1}_probabilities"].values[-1]
        tokens, x = [*tokens, words[int(last.argmax())]], np.vstack([x, vectors[int(last.argmax())]])
        whole = lesson_steps(f"tokens = {tokens}\nembeddings = {toml(x)}\n".replace("'", '"') + places + rest)
        for layer in (0, 1):
            weights = steps[f"step{number}_weights", 1, layer]
            assert weights.values.shape == (1, 3 + number)
            assert np.allclose(weights.values[0], whole["weights", 1, layer].values[-1], rtol=1e-10)
        found = steps[f"step{number}_probabilities"].values[-1]
        assert np.allclose(found, whole["probabilities"].values[-1], rtol=1e-10)
        assert len(steps[f"step{number}_K", 0, 1].values) == 1
        assert len(steps[f"step{number}_cached_K", 0, 1].values) == 3 + number


def test_decoding_ends_at_the_stop():
    text = HEAD + ATTENTION + VOCABULARY + "[decoding]\nsteps = 3\n"
    steps = lesson_steps(text)
    written = [steps[f"step{number}_embedding"].rows[0] for number in (1, 2, 3)]
    for stop in set(written):
        stopped = lesson_steps(f'{text}stop = "{stop}"\n')
        assert sum(name.endswith("_embedding") for name in stopped.names) == written.index(stop)


def test_a_shared_key_layer_of_a_model_can_be_taken():
    from transom.layers import MultiHeadAttention
    from transom.lessons.matrix_sources import model_parameters

    module = MultiHeadAttention(d_model=6, heads=4, kv_heads=2, d_head=5)
    parameters = model_parameters(module)
    assert parameters["W_Q"].shape == (4, 6, 5)
    assert parameters["W_K"].shape == parameters["W_V"].shape == (2, 6, 5)


BASE = HEAD + ATTENTION
REFUSED = [
    (HEAD + "[attention]\nheads = 3\nkv_heads = 2\n[parameters]\n" + settings(W_Q=normal(D_MODEL, 6)),
     "kv_heads must divide heads=3, but 2 does not; take a divisor of it"),
    (HEAD + "[attention]\nheads = 2\nkv_heads = 1\nnarrow = true\n[parameters]\n",
     "a narrow head has keys of its own slice, so none are shared; leave one out"),
    (HEAD + "[attention]\nfold = true\n[parameters]\nall = \"identity\"\n",
     "fold should have an effect, but it has none here: there is one head; give heads, or leave it out"),
    (BASE + "[cross.parameters]\nall = \"identity\"\n",
     "cross-attention needs something to look at; give at, or an encoder"),
    (HEAD + AT + 'positions = "rotary"\n[parameters]\nall = "identity"\n',
     "rotary positions compare places of one sequence, but at names another; leave one out"),
    (HEAD + 'positions = "rotary"\n[attention]\nd_head = 3\n[parameters]\n' + settings(
        W_Q=normal(D_MODEL, 3), W_K=normal(D_MODEL, 3), W_V=normal(D_MODEL, 3)),
     "rotary positions turn pairs of numbers, but d_head=3 is odd; take an even one"),
    (HEAD + 'positions = "rotery"\n[parameters]\nall = "identity"\n',
     "positions must be one of none, sinusoidal, rotary, alibi, but got 'rotery'; did you mean 'rotary'?"),
    (BASE + "[decoding]\nsteps = 2\n",
     "decoding writes tokens of a vocabulary, but there is none; give [vocabulary]"),
    (BASE.replace('mask = "causal"\n', "") + VOCABULARY + "[decoding]\n",
     'decoding needs layers that do not look ahead; write mask = "causal"'),
    (BASE + VOCABULARY + '[decoding]\nstop = "z"\n',
     "stop must be a token of the vocabulary, but 'z' is none"),
    (BASE + VOCABULARY + 'targets = ["a", "z", "b"]\n',
     "targets must be 3 tokens of the vocabulary, but 'z' is none; give one for each row"),
    (BASE + VOCABULARY + 'targets = ["a"]\n',
     "targets must be 3 tokens of the vocabulary, but 1 came; give one for each row"),
    (BASE + VOCABULARY.replace('"b"', '"a"'),
     "each token of a vocabulary must be there once, but one comes twice"),
    (BASE + '[vocabulary]\ntokens = ["a"]\n',
     "a vocabulary has tokens and vectors, but vectors is not given; give both"),
    (BASE + VOCABULARY + f"embeddings = {toml(normal(WORDS, D_MODEL))}\n",
     "embeddings should have an effect, but it has none here: only a token that was written goes in with it;"
     " give [decoding], or leave it out"),
    (HEAD + f"positions = {toml(X)}\n" + ATTENTION + VOCABULARY + "[decoding]\nsteps = 2\n",
     "each token that is written needs a position, 5 in all, but 3 came; give more"),
    (HEAD + AT + '[encoder]\ntokens = ["a"]\nembeddings = [[1]]\n[parameters]\nall = "identity"\n',
     "at and an encoder are both looked at, but only one can be; leave one out"),
    (HEAD + "value_embeddings = [[1], [2], [3]]\n[parameters]\nall = \"identity\"\n",
     "value_embeddings should have an effect, but it has none here: no tokens are named to look at; give at, or"
     " leave it out"),
    ('tokens = ["a"]\n[given]\nscores = [[1]]\n[vocabulary]\ntokens = ["a"]\nvectors = [[1]]\n',
     "what is given is one head alone, but vocabulary came too; give embeddings instead"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_does_not_fit_is_refused_in_words(text, message):
    with pytest.raises(Misfit) as caught:
        lesson_steps(text)
    assert str(caught.value).partition(": ")[2] == message
