"""Every zoom of a head by influence against its whole matrix of changes, pooled by loops of numpy."""

import numpy as np
import pytest
import torch

import transom
from transom.kernels import influence_stats
from transom.lens import AttentionInfluence
from transom.lens.attention import pyramid as pyramid_module
from transom.lens.attribution.influence_pyramid import InfluencePyramid

SIZES = {"square": (41, 41), "wide": (13, 37), "tall": (43, 11), "one key": (23, 1)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiles of 5 cells and a base from level 2 on: all levels at a size that can be checked whole."""
    monkeypatch.setattr(pyramid_module, "TILE", 5)
    monkeypatch.setattr(pyramid_module, "BASE_CELLS", 11)
    monkeypatch.setattr(pyramid_module, "FINEST_BASE", 2)
    monkeypatch.setattr(pyramid_module, "BLOCK_SCORES", 97)
    monkeypatch.setattr(pyramid_module, "ROWS_AT_ONCE", 9)


@pytest.fixture(params=["native", "torch"])
def engine(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(influence_stats, "native_supports", lambda problem, gradient: False)


def make_influence(size, causal=False):
    torch.manual_seed(31)
    queries, keys = SIZES[size]
    Q, K, V = (torch.randn(2, 3, length, width) for length, width in ((queries, 7), (keys, 7), (keys, 5)))
    sight = transom.sight(2.0 * Q, K, V, causal=causal)  # peaked: some edges have nearly all weight of a row
    return AttentionInfluence(sight, torch.randn(2, 3, queries, 5), "before")


def largest_by_size(cell):
    return cell.flat[np.abs(cell).argmax()]


def pool_by_hand(changes, side, pool):
    rows, keys = changes.shape
    pooled = largest_by_size if pool == "max" else np.mean
    return np.array(
        [[pooled(changes[i : i + side, j : j + side]) for j in range(0, keys, side)] for i in range(0, rows, side)]
    )


@pytest.mark.parametrize("sink", [True, False])
@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_every_tile_of_every_level(size, causal, pool, sink, engine):
    found = make_influence(size, causal=causal and size == "square")
    pyramid = InfluencePyramid(found, head=2, batch=1)
    changes = found.edges(batch=1, head=2).double().numpy()
    assert (changes < 0).any()
    assert (changes > 0).any()
    if not sink:
        changes[:, 0] = 0
    for level in range(pyramid.top + 1):
        whole = pool_by_hand(changes, 2**level, pool)
        for row in range(-(-whole.shape[0] // 5)):
            for column in range(-(-whole.shape[1] // 5)):
                tile = pyramid.tile(level, row, column, pool, sink)
                expected = whole[row * 5 : row * 5 + 5, column * 5 : column * 5 + 5]
                np.testing.assert_allclose(tile.values.numpy(), expected, rtol=2e-4, atol=2e-5)
                assert tile.cell == (2**level, 2**level)


def test_single_changes_are_those_of_edges(engine):
    found = make_influence("square", causal=True)
    tile = InfluencePyramid(found, head=1).tile(0, 3, 2)
    assert torch.equal(tile.values, found.edges(batch=0, head=1, rows=slice(15, 20), keys=slice(10, 15)))


@pytest.mark.parametrize("sink", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_the_edges_of_the_largest_changes(size, sink, engine):
    found = make_influence(size)
    changes = found.edges(batch=0, head=0)
    if not sink:
        changes[:, 0] = 0.0
    top = InfluencePyramid(found, head=0).top_edges(7, sink)
    expected = changes.flatten()[changes.abs().flatten().argsort(descending=True)[:7]]
    expected = expected[expected != 0.0]
    assert torch.allclose(top.weights, expected, rtol=1e-4, atol=1e-6)
    assert torch.equal(changes[top.rows, top.keys].sign(), top.weights.sign())
