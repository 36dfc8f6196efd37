"""Every zoom of a head against its whole matrix of weights, pooled by loops of numpy."""

import numpy as np
import pytest
import torch

import transom
from transom.kernels import native_library, weight_stats
from transom.kernels.native_library import NativeLibrary
from transom.lens.attention import pyramid as pyramid_module
from transom.lens.attention.pyramid import Pyramid
from transom.names import Misfit

torch.manual_seed(29)
SIZES = {"square": (41, 41), "wide": (13, 37), "tall": (43, 11)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiles of 5 cells and a base from level 2 on: all levels at a size that can be checked whole."""
    monkeypatch.setattr(pyramid_module, "TILE", 5)
    monkeypatch.setattr(pyramid_module, "BASE_CELLS", 11)
    monkeypatch.setattr(pyramid_module, "FINEST_BASE", 2)
    monkeypatch.setattr(pyramid_module, "BLOCK_SCORES", 97)
    monkeypatch.setattr(pyramid_module, "ROWS_AT_ONCE", 9)


def make_sight(size: str, **options):
    queries, keys = SIZES[size]
    return transom.sight(
        torch.randn(2, 3, queries, 7), torch.randn(2, 3, keys, 7), torch.randn(2, 3, keys, 5), **options
    )


def by_hand(weights: np.ndarray, side: int, pool: str) -> np.ndarray:
    rows, keys = weights.shape
    pooled = getattr(np, pool)
    return np.array(
        [[pooled(weights[i : i + side, j : j + side]) for j in range(0, keys, side)] for i in range(0, rows, side)]
    )


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("sink", [True, False])
@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_every_tile_of_every_level(size, causal, pool, sink, engine, monkeypatch):
    monkeypatch.setattr(
        weight_stats,
        "native_supports",
        lambda *args: engine == "native" and isinstance(native_library.library_or_reason(), NativeLibrary),
    )
    sight = make_sight(size, causal=causal and size != "tall")
    pyramid = Pyramid(sight, head=2, batch=1)
    weights = sight.weights(batch=1, head=2).double().numpy()
    if not sink:
        weights[:, 0] = 0
    for level in range(pyramid.top + 1):
        whole = by_hand(weights, 2**level, pool)
        for row in range(-(-whole.shape[0] // 5)):
            for column in range(-(-whole.shape[1] // 5)):
                tile = pyramid.tile(level, row, column, pool, sink)
                expected = whole[row * 5 : row * 5 + 5, column * 5 : column * 5 + 5]
                np.testing.assert_allclose(tile.values.numpy(), expected, atol=1e-6)
                assert tile.cell == (2**level, 2**level)
                assert tile.rows == (row * 5 * 2**level, min((row + 1) * 5 * 2**level, SIZES[size][0]))
    assert pyramid.top > pyramid.base_level, "no coarse level was tried"


def test_single_weights_are_bit_identical():
    sight = make_sight("square", causal=True)
    tile = Pyramid(sight, head=1).tile(0, 3, 2)
    assert torch.equal(tile.values, sight.weights(batch=0, head=1, rows=slice(15, 20), keys=slice(10, 15)))


def test_the_base_reports_its_progress_and_is_built_once():
    pyramid, shares = Pyramid(make_sight("square"), head=0), []
    pyramid.build_base(shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    pyramid.build_base(lambda share: pytest.fail("it was built before"))


def test_a_base_that_was_interrupted_continues_where_it_was():
    pyramid, shares = Pyramid(make_sight("square"), head=0), []

    def stop_at_second(share):
        shares.append(share)
        if len(shares) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        pyramid.build_base(stop_at_second)
    pyramid.build_base(shares.append)
    assert shares == sorted(set(shares)), "no row was computed twice"
    whole = Pyramid(pyramid.sight, head=0)
    assert torch.equal(pyramid.tile(pyramid.top, 0, 0, "mean").values, whole.tile(whole.top, 0, 0, "mean").values)


@pytest.mark.parametrize("sink", [True, False])
@pytest.mark.parametrize("finest", [2, 9], ids=["from the base", "from all rows"])
def test_the_strongest_weights_of_a_head(sink, finest, monkeypatch):
    monkeypatch.setattr(pyramid_module, "FINEST_BASE", finest)
    sight = make_sight("square", causal=True)
    weights = sight.weights(batch=1, head=2).clone()
    weights[:, 0] = weights[:, 0] if sink else 0.0
    found = Pyramid(sight, head=2, batch=1).top_edges(17, sink)
    assert found.weights.tolist() == pytest.approx(weights.flatten().topk(17).values.tolist(), rel=1e-5)
    assert torch.allclose(weights[found.rows, found.keys], found.weights, rtol=1e-5)
    few = transom.sight(torch.randn(1, 1, 2, 3), torch.randn(1, 1, 2, 3), torch.randn(1, 1, 2, 3), causal=True)
    assert len(Pyramid(few, head=0).top_edges(7).weights) == 3, "a masked weight is no edge"


def test_a_tile_outside_the_map_is_an_error(own_errors):
    pyramid = Pyramid(make_sight("square"), head=0)
    for ask, message in (
        ((9, 0, 0), f"the map has levels 0 to {pyramid.top}, but got 9; 0 has single weights"),
        ((0, 9, 0), "level 0 has 9 × 9 tiles, so (9, 0) is none of them"),
        ((0, -1, 0), "level 0 has 9 × 9 tiles, so (-1, 0) is none of them"),
    ):
        with pytest.raises(Misfit) as caught:
            pyramid.tile(*ask)
        assert str(caught.value) == message
    with pytest.raises(Misfit) as caught:
        pyramid.tile(0, 0, 0, "sum")
    assert str(caught.value) == "pool must be one of max, mean, but got 'sum'; max keeps single weights visible"
    empty = transom.sight(torch.randn(1, 1, 0, 3), torch.randn(1, 1, 7, 3), torch.randn(1, 1, 7, 3))
    with pytest.raises(Misfit) as caught:
        Pyramid(empty, head=0)
    assert str(caught.value) == "there is nothing to draw of queries=0 and keys=7; take a longer text"
