"""Every zoom of a head against its whole matrix of weights, pooled by loops of numpy."""

import numpy as np
import pytest
import torch

import transom
from transom.lens import pyramid
from transom.lens.pyramid import Pyramid, Stopped
from transom.names import Misfit

torch.manual_seed(29)
SIZES = {"square": (41, 41), "wide": (13, 37), "tall": (43, 11)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiles of 5 cells and a floor from level 2 on: all zooms at a size that can be checked whole."""
    monkeypatch.setattr(pyramid, "TILE", 5)
    monkeypatch.setattr(pyramid, "FLOOR_CELLS", 11)
    monkeypatch.setattr(pyramid, "FINEST_FLOOR", 2)
    monkeypatch.setattr(pyramid, "BAND_NUMBERS", 97)
    monkeypatch.setattr(pyramid, "ROWS_AT_ONCE", 9)


def seen(size: str, **how):
    queries, keys = SIZES[size]
    return transom.sight(torch.randn(2, 3, queries, 7), torch.randn(2, 3, keys, 7), torch.randn(2, 3, keys, 5), **how)


def by_hand(weights: np.ndarray, side: int, pool: str) -> np.ndarray:
    rows, keys = weights.shape
    pooled = getattr(np, pool)
    return np.array(
        [[pooled(weights[i : i + side, j : j + side]) for j in range(0, keys, side)] for i in range(0, rows, side)]
    )


@pytest.mark.parametrize("sink", [True, False])
@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_every_tile_of_every_level(size, causal, pool, sink):
    sight = seen(size, causal=causal and size != "tall")
    one = Pyramid(sight, head=2, batch=1)
    weights = sight.weights(batch=1, head=2).double().numpy()
    if not sink:
        weights[:, 0] = 0
    for level in range(one.top + 1):
        whole = by_hand(weights, 2**level, pool)
        for row in range(-(-whole.shape[0] // 5)):
            for column in range(-(-whole.shape[1] // 5)):
                tile = one.tile(level, row, column, pool, sink)
                there = whole[row * 5 : row * 5 + 5, column * 5 : column * 5 + 5]
                np.testing.assert_allclose(tile.values.numpy(), there, atol=1e-6)
                assert tile.side == 2**level
                assert tile.rows == (row * 5 * 2**level, min((row + 1) * 5 * 2**level, SIZES[size][0]))
    assert one.top > one.floor_level, "no coarse level was tried"


def test_single_weights_are_the_very_ones():
    sight = seen("square", causal=True)
    tile = Pyramid(sight, head=1).tile(0, 3, 2)
    assert torch.equal(tile.values, sight.weights(batch=0, head=1, rows=slice(15, 20), keys=slice(10, 15)))


def test_the_floor_tells_how_far_it_is_and_can_be_stopped():
    one, shares = Pyramid(seen("square"), head=0), []
    one.lay(shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    one.lay(lambda share: pytest.fail("it was laid before"))
    with pytest.raises(Stopped):
        Pyramid(seen("square"), head=0).lay(stopped=lambda: True)


def test_what_is_not_on_the_map_is_told(own_errors):
    one = Pyramid(seen("square"), head=0)
    for ask, message in (
        ((9, 0, 0), f"the map has levels 0 to {one.top}, but got 9; 0 has single weights"),
        ((0, 9, 0), "level 0 has 9 × 9 tiles, so (9, 0) is none of them"),
        ((0, -1, 0), "level 0 has 9 × 9 tiles, so (-1, 0) is none of them"),
    ):
        with pytest.raises(Misfit) as caught:
            one.tile(*ask)
        assert str(caught.value) == message
    with pytest.raises(Misfit) as caught:
        one.tile(0, 0, 0, "sum")
    assert str(caught.value) == "pool must be one of max, mean, but got 'sum'; max keeps single weights visible"
    empty = transom.sight(torch.randn(1, 1, 0, 3), torch.randn(1, 1, 7, 3), torch.randn(1, 1, 7, 3))
    with pytest.raises(Misfit) as caught:
        Pyramid(empty, head=0)
    assert str(caught.value) == "there is nothing to draw of queries=0 and keys=7; take a longer text"
