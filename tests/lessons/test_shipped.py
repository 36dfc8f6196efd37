"""The lessons that come along: every claim right, every number recomputed, every one with a case where it fails."""

import math
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from transom.equations.positions import alibi_slopes
from transom.lessons import check_lesson, parse_lesson
from transom.lessons.lesson_file import PICTURES, load_shipped, shipped_paths
from transom.names import Misfit

NUMBERS = range(1, len(shipped_paths()) + 1)
COVERED = {  # what the path must cover, in order
    "three-tokens": "steps",
    "six-words": "arrows",
    "why-q-k-v-differ": "matrix",
    "soft-hash-table": "rows",
    "why-scaling": "curves",
    "masked": "matrix",
    "many-heads": "heads",
    "cross-attention": "arrows",
    "static-and-contextual": "context",
    "word-order": "matrix",
    "encoder-block": "architecture",
    "decoder-block": "architecture",
    "whole-transformer": "architecture",
    "layers-together": "context",
    "decoding": "matrix",
    "learned-and-computed": "matrix",
    "blue-cute-creature": "vectors",
    "shared-keys": "heads",
    "other-similarities": "rows",
    "distance": "curves",
    "low-rank-values": "steps",
    "value-dimension": "steps",
}
NO_DOT_PRODUCT = {"why-scaling", "distance"}  # experiments alone


def test_the_path_is_complete():
    pictures = {path.stem[3:]: load_shipped(path.stem[3:]).picture for path in shipped_paths()}
    assert list(pictures.items()) == list(COVERED.items())
    assert [int(path.stem[:2]) for path in shipped_paths()] == list(NUMBERS)
    assert set(COVERED.values()) <= set(PICTURES)


def given_parameters(table):
    """The parameters that a lesson itself, not one of its cases, gives as numbers; by the names that steps show."""
    layers = [(f"{name}_", table.get(name, {})) for name in ("encoder", "cross")]
    layers += [("", table), *(("", layer) for layer in table.get("layer", []))]
    return {
        f"{prefix}{name}"
        for prefix, layer in layers
        for name, given in layer.get("parameters", {}).items()
        if isinstance(given, list)
    }


@pytest.mark.parametrize("which", NUMBERS)
def test_every_parameter_is_shown(which):
    table = tomllib.loads(shipped_paths()[which - 1].read_text(encoding="utf-8"))
    shown = {name for step in table["step"] for name in step.get("show", [])}
    assert given_parameters(table) - shown == set()


@pytest.mark.parametrize("which", NUMBERS)
def test_every_claim_is_right_and_every_slip_is_one(which):
    findings = check_lesson(load_shipped(which))
    assert [(finding.where, finding.first, finding.causes) for finding in findings if not finding.fine] == []
    assert len(findings) >= 4


@pytest.mark.parametrize("which", NUMBERS)
def test_a_lesson_explains_proves_and_shows_where_it_fails(which):
    lesson = load_shipped(which)
    assert min(len(lesson.about), len(lesson.closing)) > 80
    text = " ".join([*(case.says for case in lesson.cases.values()), *(claim.says for claim in lesson.claims)])
    assert re.search(r"\bfails?\b", text), "a case where the claim fails"
    assert {claim.case for claim in lesson.claims} >= {""}
    assert any(claim.value is not None for claim in lesson.claims)


def attentions_of(setup, prefix=""):
    """Every attention of a setup: its settings, the number of its layer, and what the names of its steps begin with."""
    if setup.encoder is not None:
        yield from attentions_of(setup.encoder, "encoder_")
    for number, layer in enumerate(setup.layers):
        yield setup, layer.attention, number, prefix
        if layer.cross is not None:
            yield replace(setup, places=""), layer.cross.attention, number, f"{prefix}cross_"


def added_to_scores(setup, attention, head, shape):
    """The mask and what ALiBi adds, as torch takes it."""
    added = torch.zeros(shape, dtype=torch.float64)
    if setup.places == "alibi":
        places = torch.arange(shape[0])
        added -= alibi_slopes(attention.heads)[head] * (places[:, None] - places).abs()
    if attention.allowed is not None:
        added.masked_fill_(~torch.from_numpy(attention.allowed), -math.inf)
    return added


@pytest.mark.parametrize("which", NUMBERS)
def test_every_head_is_what_torch_computes(which):
    """Weights and sums from Q, K and V once more, by another implementation."""
    checked = 0
    for case in load_shipped(which).cases.values():
        if case.setup is None or "scores" in case.setup.start:
            continue
        for setup, attention, layer, prefix in attentions_of(case.setup):
            if attention.similarity != "dot" or f"{prefix}V" not in case.steps:
                continue
            for head in range(attention.heads):
                turned = "rotated_" if setup.places == "rotary" else ""
                names = (f"{prefix}{turned}Q", f"{prefix}{turned}K", f"{prefix}V")
                Q, K, V = (torch.from_numpy(case.steps[name, head, layer].values) for name in names)
                added = added_to_scores(setup, attention, head, (len(Q), len(K)))
                scale = (1 / math.sqrt(Q.shape[1]) if attention.scale else 1.0) / attention.temperature
                for name, values in (("sum", V), ("weights", torch.eye(len(K)).double())):
                    right = scaled_dot_product_attention(Q[None], K[None], values[None], added, scale=scale)[0]
                    found = case.steps[f"{prefix}{name}", head, layer].values
                    assert np.allclose(found, right.numpy(), rtol=1e-9, atol=1e-12)
                checked += 1
    assert checked or load_shipped(which).name[3:] in NO_DOT_PRODUCT


@pytest.mark.parametrize("which", NUMBERS)
def test_projections_are_the_product_of_what_the_file_says(which):
    """Q, K and V from the numbers in the file, read by tomllib alone."""
    lesson = load_shipped(which)
    file = tomllib.loads(lesson.source.text)
    parameters, x = file.get("parameters", {}), file.get("embeddings")
    if x is None or {"layer", "encoder"} & set(file) or isinstance(parameters.get("W_Q", [[0]])[0][0], list):
        return
    if file.get("attention", {}).get("heads", 1) != 1:
        return
    x = np.array(x, dtype=float)
    for letter in "QKV":
        W = parameters.get(f"W_{letter}", parameters.get("all", "none"))
        if W == "none":
            continue
        looks_over = letter != "Q" and "cross" not in file
        source = np.array(file.get("at_embeddings", x), dtype=float) if looks_over else x
        right = source if W == "identity" else source @ np.array(W, dtype=float)
        assert np.allclose(lesson.steps()[letter].values, right, rtol=1e-13), letter


def test_the_scaling_experiment_by_plain_floats():
    steps = load_shipped("why-scaling").steps("two scores of a note")
    for row, divisor in (("unscaled", 1.0), ("scaled", 2.0)):
        p = math.exp(6 / divisor) / (math.exp(6 / divisor) + math.exp(4 / divisor))
        assert steps["gradient"].values[steps["gradient"].rows.index(row)] == pytest.approx(
            [p, 1 - p, p * (1 - p), p * (1 - p) / divisor], rel=1e-12
        )


def test_both_gradients_are_those_of_autograd():
    raw = torch.tensor([6.0, 4.0], dtype=torch.float64, requires_grad=True)
    taken = raw / 2
    taken.retain_grad()
    torch.softmax(taken, dim=0)[0].backward()
    gradient = load_shipped("why-scaling").steps("two scores of a note")["gradient"]
    assert float(taken.grad[0]) == pytest.approx(gradient.values[1, 2], rel=1e-12)
    assert float(raw.grad[0]) == pytest.approx(gradient.values[1, 3], rel=1e-12)


def test_keys_of_another_width_than_the_queries_are_refused():
    text = load_shipped("value-dimension").source.text
    W_K = "W_K = [[1, 0], [0, 1], [1, 0], [0, 1]]"
    assert text.count(W_K) == 1
    with pytest.raises(Misfit) as caught:
        parse_lesson(text.replace(W_K, "W_K = [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]"), "x.toml")
    assert re.fullmatch(r"x\.toml, line \d+: W_K must have 2 columns, but it has 3; it is 4 × 3", str(caught.value))


@pytest.mark.parametrize("which", NUMBERS)
def test_vectors_that_point_away_have_a_negative_cosine(which):
    text = load_shipped(which).source.text
    assert not re.search(r"points? away|opposite", text) or re.search(r'measure = "cosine"[^[]*value = -', text)


def test_the_stack_of_two_finds_what_came_next_and_one_layer_cannot():
    lesson = load_shipped("layers-together")
    assert lesson.steps()["weights", 0, 1].values[3, 1] > 0.49
    assert lesson.steps("the second layer alone")["weights"].values[3].tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (0, f"there are lessons 1 to {len(NUMBERS)}, but 0 came; transom learn lists them"),
        ("99", f"there are lessons 1 to {len(NUMBERS)}, but 99 came; transom learn lists them"),
        ("maskd", "there is no lesson 'maskd'; did you mean 'masked'?"),
    ],
)
def test_a_lesson_that_does_not_exist(which, message):
    with pytest.raises(Misfit) as caught:
        load_shipped(which)
    assert str(caught.value) == message
