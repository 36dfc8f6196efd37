"""What a lesson computes: equal to Transom's own layers and to torch.nn, and every cell opens its arithmetic."""

import re

import numpy as np
import pytest
import torch
from lessons.cells import check_cells
from torch import nn

from transom.layers import MultiHeadAttention
from transom.lessons import parse_lesson
from transom.lessons.compute import compute_steps
from transom.lessons.lesson_setup import AttentionSettings, BlockSettings, LessonLayer, LessonSetup, Rounding
from transom.names import Misfit

TOKEN, HEADS, D_HEAD, D_VALUE, D_MODEL, D_HIDDEN = 5, 3, 2, 7, 11, 13
TOKENS = tuple("abcde")


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def multi_head_setup(**attention):
    """A setup of many heads with every bias, and the same numbers as one of Transom's layers."""
    parameters = {f"W_{letter}": normal(HEADS, D_MODEL, D_HEAD, seed=seed) for seed, letter in enumerate("QK")}
    parameters |= {
        "W_V": normal(HEADS, D_MODEL, D_VALUE),
        "W_O": normal(HEADS * D_VALUE, D_MODEL),
        "b_O": normal(D_MODEL),
    }
    parameters |= {"b_Q": normal(HEADS, D_HEAD), "b_K": normal(HEADS, D_HEAD, seed=1), "b_V": normal(HEADS, D_VALUE)}
    layer = LessonLayer(AttentionSettings(HEADS, D_HEAD, **attention), parameters, BlockSettings())
    return LessonSetup(TOKENS, {"embedding": normal(TOKEN, D_MODEL, seed=5)}, (layer,))


def same_layer(setup):
    """The layer of Transom with the same parameters."""
    layer = MultiHeadAttention(D_MODEL, HEADS, d_head=D_HEAD, d_value=D_VALUE, bias=True).double()
    parameters = setup.layers[0].parameters
    with torch.no_grad():
        for letter in "QKV":
            W = torch.from_numpy(parameters[f"W_{letter}"]).transpose(0, 1).flatten(1)
            getattr(layer, f"W_{letter}").weight.copy_(W.T)
            getattr(layer, f"W_{letter}").bias.copy_(torch.from_numpy(parameters[f"b_{letter}"]).flatten())
        layer.W_O.weight.copy_(torch.from_numpy(parameters["W_O"]).T)
        layer.W_O.bias.copy_(torch.from_numpy(parameters["b_O"]))
    return layer


@pytest.mark.parametrize("causal", [False, True])
def test_many_heads_are_those_of_the_layer(causal):
    setup = multi_head_setup(allowed=np.tril(np.ones((TOKEN, TOKEN), dtype=bool)) if causal else None)
    steps = compute_steps(setup)
    with torch.no_grad():
        right = same_layer(setup)(torch.from_numpy(setup.start["embedding"])[None], causal=causal)[0]
    assert np.allclose(steps["output"].values, right.numpy(), rtol=1e-12, atol=1e-12)
    assert steps.heads == (0, 1, 2)
    assert steps["joined"].columns[:2] == ("0.1", "0.2")
    assert steps["joined"].columns[-1] == "2.7"


def encoder_block(norm_first):
    """A block of torch.nn with one head, and the same numbers as a setup."""
    torch.manual_seed(3)
    block = nn.TransformerEncoderLayer(
        D_MODEL, 1, D_HIDDEN, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    ).eval()
    with torch.no_grad():
        for norm in (block.norm1, block.norm2):
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.uniform_(-1, 1)
        W_Q, W_K, W_V = block.self_attn.in_proj_weight.chunk(3)
        b_Q, b_K, b_V = block.self_attn.in_proj_bias.chunk(3)
        tensors = {"W_Q": W_Q.T[None], "W_K": W_K.T[None], "W_V": W_V.T[None], "W_O": block.self_attn.out_proj.weight.T}
        tensors |= {"b_Q": b_Q[None], "b_K": b_K[None], "b_V": b_V[None], "b_O": block.self_attn.out_proj.bias}
        tensors |= {"W_1": block.linear1.weight.T, "b_1": block.linear1.bias}
        tensors |= {"W_2": block.linear2.weight.T, "b_2": block.linear2.bias}
        tensors |= {"gain": block.norm1.weight, "bias": block.norm1.bias}
        tensors |= {"gain_2": block.norm2.weight, "bias_2": block.norm2.bias}
    parameters = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    block_settings = BlockSettings(residual=True, norm="layer", norm_first=norm_first)
    layer = LessonLayer(AttentionSettings(1, D_MODEL), parameters, block_settings)
    return block, LessonSetup(TOKENS, {"embedding": normal(TOKEN, D_MODEL)}, (layer,))


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_block_is_that_of_torch(norm_first):
    block, setup = encoder_block(norm_first)
    steps = compute_steps(setup)
    with torch.no_grad():
        right = block(torch.from_numpy(setup.start["embedding"])[None])[0]
    assert np.allclose(list(steps)[-1].values, right.numpy(), rtol=1e-10, atol=1e-10)
    assert {"residual", "norm", "hidden", "activated", "feed_forward", "residual_2", "norm_2"} <= set(steps.names)
    check_cells(steps)


def test_two_layers_work_on_each_other():
    setup = multi_head_setup()
    twice = LessonSetup(setup.tokens, setup.start, (*setup.layers, *setup.layers))
    first, both = compute_steps(setup), compute_steps(twice)
    again = compute_steps(LessonSetup(setup.tokens, {"embedding": first["output"].values}, setup.layers))
    assert np.allclose(both["output", None, 1].values, again["output"].values, rtol=1e-12)
    assert both.layers == (0, 1)


def test_every_cell_of_many_heads_comes_to_its_number():
    check_cells(compute_steps(multi_head_setup(allowed=np.tril(np.ones((TOKEN, TOKEN), dtype=bool)))))


LESSON = """title = "x"
tokens = ["a", "b", "c"]
embeddings = [[1, 2, 0, 1], [0, 1, 3, 1], [1, 1, 1, 2]]
"""


def lesson_steps(sections):
    return parse_lesson(LESSON + sections, "x.toml").steps()


def test_narrow_heads_see_their_own_slice():
    steps = lesson_steps('[attention]\nheads = 2\nnarrow = true\n[parameters]\nall = "identity"\n')
    x = np.array([[1, 2, 0, 1], [0, 1, 3, 1], [1, 1, 1, 2]], dtype=float)
    assert (steps["Q", 0].values == x[:, :2]).all()
    assert (steps["Q", 1].values == x[:, 2:]).all()
    assert [term[0] for term in steps["Q", 1].cell(0, 0).terms] == ["3", "4"]
    check_cells(steps)


def test_narrow_heads_are_those_of_the_layer():
    text = "[attention]\nheads = 2\nnarrow = true\n[parameters]\n"
    text += "".join(f"W_{letter} = {{ random = {seed} }}\n" for seed, letter in enumerate("QKV", start=1))
    steps = lesson_steps(text + 'W_O = "identity"\n')
    layer = MultiHeadAttention(4, 2, bias=False, narrow=True).double()
    with torch.no_grad():
        for seed, letter in enumerate("QKV", start=1):
            numbers = np.random.default_rng(seed).standard_normal((4, 2)).reshape(2, 2, 2)
            getattr(layer, f"W_{letter}").weight.copy_(torch.from_numpy(numbers))
        layer.W_O.weight.copy_(torch.eye(4))
        right = layer(torch.from_numpy(steps["embedding"].values)[None])[0]
    assert np.allclose(steps["output"].values, right.numpy(), rtol=1e-12)


def test_values_through_a_waist():
    steps = lesson_steps(
        '[parameters]\nW_Q = "identity"\nW_K = "identity"\nV_down = [[1], [0], [2], [0]]\nV_up = [[1, 3]]\n'
    )
    x = steps["embedding"].values
    assert (steps["V"].values == x @ [[1], [0], [2], [0]] @ [[1, 3]]).all()
    check_cells(steps)


@pytest.mark.parametrize("similarity", ["cosine", "additive"])
def test_other_similarities_are_the_equations(similarity):
    from transom.equations import attention as equations

    w_line = "w = [1, -2, 0.5, 3]\n" if similarity == "additive" else ""
    steps = lesson_steps(f'[attention]\nsimilarity = "{similarity}"\n[parameters]\nall = "identity"\n{w_line}')
    Q = torch.from_numpy(steps["Q"].values)
    w = torch.tensor([1, -2, 0.5, 3], dtype=torch.float64)
    eye = torch.eye(4, dtype=torch.float64)
    right = equations.cosine(Q, Q) if similarity == "cosine" else equations.additive(Q, Q, eye, eye, w)
    assert np.allclose(steps["scores"].values, right.numpy(), rtol=1e-12)
    check_cells(steps)


def test_positions_are_those_of_the_paper():
    from transom.equations.positions import sinusoidal

    steps = lesson_steps('positions = "sinusoidal"\n[parameters]\nall = "identity"\n')
    assert np.allclose(steps["positions"].values, sinusoidal(torch.arange(3), 4).numpy(), atol=1e-7)
    assert np.allclose(steps["placed"].values, steps["embedding"].values + steps["positions"].values)
    assert (steps["Q"].values == steps["placed"].values).all()
    check_cells(steps)


def test_rounding_early_rounds_every_step():
    setup = multi_head_setup()
    rounded = compute_steps(LessonSetup(setup.tokens, setup.start, setup.layers, change=Rounding(2)))
    for name in ("Q", "scores", "weights", "sum", "output"):
        assert (rounded[name].values == np.round(rounded[name].values, 2)).all()
    assert Rounding(2, cut=True).round_values(np.array([0.29, 0.299])).tolist() == [0.29, 0.29]


@pytest.mark.slow
def test_parameters_from_a_model_folder():
    text = """title = "x"
tokens = TOKENS
embeddings = { model = "embedded/en-fr" }
[parameters]
model = "embedded/en-fr"
layer = "LAYER"
"""
    from transom.lessons.matrix_sources import load_lesson_model
    from transom.models.embedded import embedded_folder

    loaded = load_lesson_model(embedded_folder())
    tokens = [token for token in loaded.tokenizer.tokens if token.isalpha()][:3]
    modules = loaded.model.named_modules()
    layer, module = next((name, module) for name, module in modules if isinstance(module, MultiHeadAttention))
    text = text.replace("TOKENS", str(tokens).replace("'", '"'))
    steps = parse_lesson(text.replace("LAYER", layer), "x.toml").steps()
    x = torch.from_numpy(steps["embedding"].values).float()[None]
    with torch.no_grad():
        right = module(x)[0]
    assert np.allclose(steps["output"].values, right.numpy(), atol=1e-4)
    assert len(steps.heads) == module.heads


@pytest.mark.slow
def test_a_text_that_is_one_token_is_that_token():
    text = LESSON.replace('["a", "b", "c"]', '["where", "Ġwhere", "unbelievablyso"]')
    text = text.replace("[[1, 2, 0, 1], [0, 1, 3, 1], [1, 1, 1, 2]]", '{ model = "embedded/en-fr" }')
    with pytest.raises(Misfit) as caught:
        parse_lesson(text + '[parameters]\nall = "identity"\n', "x.toml")
    assert re.fullmatch(
        r"x\.toml, line 2: each token must be one of the model's, but 'unbelievablyso' is ('\S+', )+'\S+'; give those",
        str(caught.value),
    )
    lesson = parse_lesson(text.replace(', "unbelievablyso"', "") + '[parameters]\nall = "identity"\n', "x.toml")
    assert np.isfinite(lesson.steps()["embedding"].values).all()
