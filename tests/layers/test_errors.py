"""Every error of the layers, with its whole message."""

import re

import pytest
import torch

from transom import Misfit
from transom.layers import (
    ARRANGEMENTS,
    FEED_FORWARDS,
    Alibi,
    CrossCache,
    Embedding,
    FeedForward,
    Learned,
    LowRank,
    MultiHeadAttention,
    NarrowLinear,
    PostNorm,
    PreNorm,
    Relative,
    Rotary,
    SelfAttention,
    SelfCache,
    Sinusoidal,
    Stack,
    StackCache,
)

pytestmark = pytest.mark.usefixtures("own_errors")


def assert_misfit(message, function, *args, **kwargs):
    """The call raises a Misfit with exactly this message."""
    with pytest.raises(Misfit, match=f"^{re.escape(message)}$"):
        function(*args, **kwargs)


def tokens(*rows):
    return torch.tensor(rows)


def x(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(*shape, dtype=dtype, device=device)


def block(d_model=6, cross=False, arrangement=PreNorm):
    return arrangement(
        MultiHeadAttention(d_model, 2), FeedForward(d_model, 5), MultiHeadAttention(d_model, 2) if cross else None
    )


TAKES_VECTORS = {
    "self-attention": lambda: SelfAttention(6),
    "multi-head attention": lambda: MultiHeadAttention(6, 2),
    "feed-forward": lambda: FeedForward(6, 5),
    "this block": block,
}


@pytest.mark.parametrize("layer", TAKES_VECTORS)
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            x(2, 5, 7),
            "was built for d_model=6, but x is (batch=2, token=5, d_model=7);"
            " give vectors of that width, or build it for d_model=7",
        ),
        (x(5, 6), "takes x as (batch, token, d_model), but it is (5, 6); a single sequence goes in as x[None]"),
        (
            x(2, 5, 6, dtype=torch.int64),
            "takes x as vectors, but it is torch.int64; embed the tokens first",
        ),
        (x(2, 5, 6, device="meta"), "has its parameters on cpu, but x is on meta; move it with .to('cpu')"),
        (
            x(2, 5, 6, dtype=torch.float64),
            "has torch.float32 parameters, but x is torch.float64; convert it with .to(torch.float32)",
        ),
    ],
    ids=["width", "axes", "tokens", "device", "dtype"],
)
def test_vectors_that_do_not_fit(layer, argument, message):
    assert_misfit(f"{layer} {message}", TAKES_VECTORS[layer](), argument)


@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_every_feed_forward_says_what_it_was_built_for(name):
    assert_misfit(
        "feed-forward was built for d_model=6, but x is (batch=2, token=5, d_model=7);"
        " give vectors of that width, or build it for d_model=7",
        FEED_FORWARDS[name](6, 5),
        x(2, 5, 7),
    )


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_every_arrangement_says_what_it_was_built_for(name):
    assert_misfit(
        "this block was built for d_model=6, but x is (batch=2, token=5, d_model=7);"
        " give vectors of that width, or build it for d_model=7",
        block(arrangement=ARRANGEMENTS[name]),
        x(2, 5, 7),
    )


def test_autocast_may_mix_dtypes():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert FeedForward(6, 5)(x(2, 5, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("d_model=6 does not divide into heads=4; try heads=3, or give d_head", {"d_model": 6, "heads": 4}),
        ("d_model=7 does not divide into heads=5; try heads=7, or give d_head", {"d_model": 7, "heads": 5}),
        ("heads=6 does not divide into kv_heads=4; try kv_heads=3", {"d_model": 6, "heads": 6, "kv_heads": 4}),
        ("heads must be 1 or more, but got 0; give a positive whole number", {"d_model": 6, "heads": 0}),
        ("d_model must be 1 or more, but got -2; give a positive whole number", {"d_model": -2, "heads": 1}),
        ("d_head must be 1 or more, but got 0; give a positive whole number", {"d_model": 6, "heads": 2, "d_head": 0}),
        (
            "kv_heads must be 1 or more, but got 0; give a positive whole number",
            {"d_model": 6, "heads": 2, "kv_heads": 0},
        ),
        (
            "d_value must be 1 or more, but got 0; give a positive whole number",
            {"d_model": 6, "heads": 2, "d_value": 0},
        ),
        ("d_out must be 1 or more, but got 0; give a positive whole number", {"d_model": 6, "heads": 2, "d_out": 0}),
        (
            "d_source must be 1 or more, but got 0; give a positive whole number",
            {"d_model": 6, "heads": 2, "d_source": 0},
        ),
        (
            "rank must be 1 or more, but got 0; give a positive whole number",
            {"d_model": 6, "heads": 2, "value_rank": 0},
        ),
        (
            "dropout must be at least 0 and below 1, but got 1.0; 0.1 drops a tenth",
            {"d_model": 6, "heads": 2, "dropout": 1.0},
        ),
        (
            "narrow heads each read their own slice, but heads=6 would share kv_heads=3; leave kv_heads out",
            {"d_model": 6, "heads": 6, "kv_heads": 3, "narrow": True},
        ),
        (
            "narrow heads have small values already, but value_rank=2 came; leave one of the two out",
            {"d_model": 6, "heads": 2, "value_rank": 2, "narrow": True},
        ),
        (
            "d_model=7 does not divide into heads=3; try heads=1, or leave narrow out",
            {"d_model": 7, "heads": 3, "d_head": 5, "narrow": True},
        ),
        (
            "d_source=7 does not divide into heads=3; try heads=1, or leave narrow out",
            {"d_model": 6, "heads": 3, "d_source": 7, "narrow": True},
        ),
        (
            "attention got Sinusoidal positions, which enter at the embedding; hand them to Embedding(positions=…)",
            {"d_model": 6, "heads": 2, "positions": Sinusoidal(6)},
        ),
        (
            "attention got Learned positions, which enter at the embedding; hand them to Embedding(positions=…)",
            {"d_model": 6, "heads": 2, "positions": Learned(6, 5)},
        ),
        (
            "Rotary was built for d_head=4, but attention has d_head=3; build it for d_head=3",
            {"d_model": 6, "heads": 2, "positions": Rotary(4)},
        ),
        (
            "Alibi was built for heads=3, but attention has heads=2; build it for heads=2",
            {"d_model": 6, "heads": 2, "positions": Alibi(3)},
        ),
        (
            "Relative was built for heads=3, but attention has heads=2; build it for heads=2",
            {"d_model": 6, "heads": 2, "positions": Relative(3, 5)},
        ),
    ],
)
def test_attention_that_cannot_be_built(message, options):
    assert_misfit(message, MultiHeadAttention, **options)


@pytest.mark.parametrize(
    ("message", "build"),
    [
        ("d_value must be 1 or more, but got 0; give a positive whole number", lambda: SelfAttention(6, d_value=0)),
        ("d_in=7 does not divide into heads=3; try heads=1", lambda: NarrowLinear(7, 3, 5)),
        ("d_head must be 1 or more, but got 0; give a positive whole number", lambda: NarrowLinear(6, 3, 0)),
        ("d_out must be 1 or more, but got 0; give a positive whole number", lambda: LowRank(6, 3, 0)),
        ("d_hidden must be 1 or more, but got 0; give a positive whole number", lambda: FeedForward(6, 0)),
        ("d_hidden must be 1 or more, but got 0; give a positive whole number", lambda: FEED_FORWARDS["swiglu"](6, 0)),
        (
            "dropout must be at least 0 and below 1, but got -0.1; 0.1 drops a tenth",
            lambda: FEED_FORWARDS["swiglu"](6, 5, dropout=-0.1),
        ),
        (
            "dropout must be at least 0 and below 1, but got 1.5; 0.1 drops a tenth",
            lambda: PreNorm(MultiHeadAttention(6, 2), FeedForward(6, 5), dropout=1.5),
        ),
        ("rotary positions rotate pairs, but d_head=5 is odd; try d_head=6", lambda: Rotary(5)),
        ("d_head must be 1 or more, but got 0; give a positive whole number", lambda: Rotary(0)),
        ("d_model must be 1 or more, but got 0; give a positive whole number", lambda: Sinusoidal(0)),
        ("longest must be 1 or more, but got 0; give a positive whole number", lambda: Learned(6, 0)),
        ("heads must be 1 or more, but got 0; give a positive whole number", lambda: Alibi(0)),
        ("reach must be 1 or more, but got 0; give a positive whole number", lambda: Relative(3, 0)),
        ("layers must be 1 or more, but got 0; give a positive whole number", lambda: Stack(block, 0)),
        (
            "a block keeps d_model=6 throughout, but its attention has d_out=5; build it with d_out=6",
            lambda: PostNorm(MultiHeadAttention(6, 2, d_out=5), FeedForward(6, 5)),
        ),
        (
            "a block keeps d_model=6 throughout, but its cross has d_model=10; build it with d_model=6",
            lambda: PostNorm(MultiHeadAttention(6, 2), FeedForward(6, 5), MultiHeadAttention(10, 2)),
        ),
        (
            "a block keeps d_model=6 throughout, but its feed_forward has d_model=7; build it with d_model=6",
            lambda: PostNorm(MultiHeadAttention(6, 2), FeedForward(7, 5)),
        ),
    ],
)
def test_parts_that_cannot_be_built(message, build):
    assert_misfit(message, build)


def test_a_factory_that_returns_one_part_twice():
    shared, attention = block(), MultiHeadAttention(6, 2)
    message = (
        "each call of build must make a new block, but layer 1 shares parameters with an earlier one;"
        " make its parts inside build"
    )
    assert_misfit(message, Stack, lambda: shared, 2)
    assert_misfit(message, Stack, lambda: PreNorm(attention, FeedForward(6, 5)), 2)


def test_a_source_that_does_not_fit():
    layer = MultiHeadAttention(6, 2, d_source=5)
    assert_misfit(
        "multi-head attention was built for d_model=5, but source is (batch=2, source=7, d_model=6);"
        " give vectors of that width, or build it for d_model=6",
        layer,
        x(2, 3, 6),
        x(2, 7, 6),
    )
    assert_misfit(
        "multi-head attention takes source as (batch, source, d_model), but it is (7, 5);"
        " a single sequence goes in as source[None]",
        layer,
        x(2, 3, 6),
        x(7, 5),
    )
    assert_misfit(
        "x is (batch=2, token=3, d_model=6), but the source has batch=11; give one source sequence per sequence of x",
        layer,
        x(2, 3, 6),
        x(11, 7, 5),
    )
    assert_misfit(
        "this attention takes a source of d_model=5, but none came;"
        " give source, or leave d_source out for self-attention",
        layer,
        x(2, 3, 6),
    )


@pytest.mark.parametrize("positions", [Rotary(4), Alibi(2), Relative(2, 5)], ids=["Rotary", "Alibi", "Relative"])
@pytest.mark.parametrize("cached", [False, True])
def test_positions_in_cross_attention(positions, cached):
    assert_misfit(
        f"{type(positions).__name__} positions count along one sequence, but this is cross-attention;"
        " build it without positions",
        MultiHeadAttention(8, 2, positions=positions),
        x(2, 3, 8),
        x(2, 7, 8),
        cache=CrossCache() if cached else None,
    )


def test_caches_of_the_wrong_kind():
    layer = MultiHeadAttention(6, 2)
    assert_misfit(
        "cross-attention keeps its source in a CrossCache, but a SelfCache came; use CrossCache()",
        layer,
        x(2, 3, 6),
        x(2, 7, 6),
        cache=SelfCache(),
    )
    assert_misfit(
        "an empty CrossCache needs a source to fill it, but none came;"
        " give source at the first step, or use SelfCache() for self-attention",
        layer,
        x(2, 3, 6),
        cache=CrossCache(),
    )


def test_caches_of_another_batch_layer_or_source():
    layer, cache, source = MultiHeadAttention(6, 2), CrossCache(), x(2, 7, 6)
    layer(x(2, 3, 6), source, cache=cache)
    assert_misfit(
        "the CrossCache was filled from another source, but (batch=2, source=5, d_model=6) came;"
        " leave source out, or make a new CrossCache",
        layer,
        x(2, 3, 6),
        x(2, 5, 6),
        cache=cache,
    )
    assert_misfit(
        "x is (batch=5, token=3, d_model=6), but the source has batch=2; give one source sequence per sequence of x",
        layer,
        x(5, 3, 6),
        cache=cache,
    )
    cache.select(torch.tensor([1, 0]))
    assert_misfit(
        "the CrossCache was filled from another source, but (batch=2, source=7, d_model=6) came;"
        " leave source out, or make a new CrossCache",
        layer,
        x(2, 3, 6),
        source,
        cache=cache,
    )
    self_cache = SelfCache()
    layer(x(2, 3, 6), cache=self_cache)
    assert_misfit(
        "the cache holds keys (batch=2, kv_heads=2, d_head=3) of torch.float32 on cpu, but"
        " (batch=5, kv_heads=2, d_head=3) of torch.float32 on cpu came; make one cache per layer and batch",
        layer,
        x(5, 1, 6),
        cache=self_cache,
    )
    assert_misfit(
        "the cache holds values (batch=2, kv_heads=2, d_value=3) of torch.float32 on cpu, but"
        " (batch=2, kv_heads=2, d_value=5) of torch.float32 on cpu came; make one cache per layer and batch",
        MultiHeadAttention(6, 2, d_value=5),
        x(2, 1, 6),
        cache=self_cache,
    )
    assert self_cache.length == 3
    assert_misfit(
        "the cache holds keys (batch=2, kv_heads=2, d_head=3) of torch.float32 on cpu, but"
        " (batch=2, kv_heads=2, d_head=3) of torch.float64 on cpu came; make one cache per layer and batch",
        MultiHeadAttention(6, 2).double(),
        x(2, 1, 6, dtype=torch.float64),
        cache=self_cache,
    )


def test_caches_used_wrongly_by_hand():
    cache = SelfCache()
    assert_misfit(
        "each key needs its value, but keys=5 and values=7 came; give as many of both",
        cache.extend,
        x(2, 3, 5, 4),
        x(2, 3, 7, 4),
    )
    cache.extend(x(2, 3, 5, 4), x(2, 3, 5, 4))
    assert_misfit("the cache holds 5 tokens, but it should be cropped to 7; crop to 5 or fewer", cache.crop, 7)
    assert_misfit("the cache holds 5 tokens, but it should be cropped to -1; crop to 5 or fewer", cache.crop, -1)
    assert_misfit(
        "this stack has layers=2, but the cache has layers=3; use stack.new_cache()",
        Stack(block, 2),
        x(2, 3, 6),
        cache=StackCache(3),
    )


def test_blocks_with_and_without_a_source():
    assert_misfit(
        "this block has no cross-attention, but a source came; build it with cross=MultiHeadAttention(…)",
        block(),
        x(2, 3, 6),
        x(2, 7, 6),
    )
    message = (
        "this block attends to a source, but none came and no cache holds one; give source, or build it without cross"
    )
    assert_misfit(message, block(cross=True), x(2, 3, 6))
    stack = Stack(lambda: block(cross=True), 2)
    assert_misfit(message, stack, x(2, 3, 6), cache=stack.new_cache())


@pytest.mark.parametrize(
    ("message", "build"),
    [
        ("vocabulary must be 1 or more, but got 0; give a positive whole number", lambda: Embedding(0, 5)),
        ("padding must be a token from 0 to 6, but got 7; None means no padding", lambda: Embedding(7, 5, padding=7)),
        ("padding must be a token from 0 to 6, but got -1; None means no padding", lambda: Embedding(7, 5, padding=-1)),
        (
            "dropout must be at least 0 and below 1, but got 1.0; 0.1 drops a tenth",
            lambda: Embedding(7, 5, dropout=1.0),
        ),
        (
            "the embedding got Rotary positions, which enter at attention;"
            " hand them to MultiHeadAttention(positions=…)",
            lambda: Embedding(7, 6, positions=Rotary(6)),
        ),
        (
            "Sinusoidal was built for d_model=6, but the embedding has d_model=5; build it for d_model=5",
            lambda: Embedding(7, 5, positions=Sinusoidal(6)),
        ),
        (
            "Learned was built for d_model=6, but the embedding has d_model=5; build it for d_model=5",
            lambda: Embedding.from_vectors(torch.zeros(7, 5), positions=Learned(6, 3)),
        ),
        (
            "vectors must be (vocabulary, d_model), but they are (d_model=5); give one row per token",
            lambda: Embedding.from_vectors(torch.zeros(5)),
        ),
        (
            "vectors must hold floating-point numbers, but they are torch.int64; use vectors.float()",
            lambda: Embedding.from_vectors(torch.zeros(7, 5, dtype=torch.int64)),
        ),
        (
            "vectors must be finite, but row 3 holds NaN or infinity;"
            " leave that token out, or give it a vector of zeros",
            lambda: Embedding.from_vectors(torch.zeros(7, 5).index_fill(0, torch.tensor([3, 4]), float("nan"))),
        ),
    ],
)
def test_embeddings_that_cannot_be_built(message, build):
    assert_misfit(message, build)


@pytest.mark.parametrize(
    ("message", "argument", "options"),
    [
        (
            "the embedding knows tokens 0 to 16, but tokens 3 to 17 came; use the tokenizer it was built with",
            tokens([3, 17]),
            {},
        ),
        (
            "the embedding knows tokens 0 to 16, but tokens -1 to 3 came; use the tokenizer it was built with",
            tokens([3, -1]),
            {},
        ),
        (
            "the embedding takes tokens as (batch, token), but they are (token=3);"
            " a single sequence goes in as tokens[None]",
            torch.tensor([1, 2, 3]),
            {},
        ),
        (
            "the embedding takes tokens as integers of 32 or 64 bits, but they are torch.float32; use tokens.long()",
            tokens([1.0, 2.0]),
            {},
        ),
        (
            "the embedding takes tokens as integers of 32 or 64 bits, but they are torch.uint8; use tokens.long()",
            tokens([1, 2]).to(torch.uint8),
            {},
        ),
        (
            "the embedding has its parameters on cpu, but tokens are on meta; move them with .to('cpu')",
            tokens([1, 2]).to("meta"),
            {},
        ),
        (
            "at must give one position per token, (token) or (batch, token), but tokens are (batch=1, token=2) and"
            " at is (3,); leave it out to count from start",
            tokens([1, 2]),
            {"at": torch.tensor([1, 2, 3])},
        ),
        (
            "learned positions go from 0 to 10, but positions 10 to 11 came;"
            " cut the sequence, or build Learned with a larger longest",
            tokens([1, 2]),
            {"start": 10},
        ),
        (
            "learned positions go from 0 to 10, but positions -1 to 4 came;"
            " cut the sequence, or build Learned with a larger longest",
            tokens([1, 2]),
            {"at": torch.tensor([4, -1])},
        ),
    ],
)
def test_tokens_that_do_not_fit(message, argument, options):
    assert_misfit(message, Embedding(17, 5, positions=Learned(5, 11)), argument, **options)


def test_logits_of_another_width():
    assert_misfit(
        "the embedding was built for d_model=5, but x is (batch=2, token=3, d_model=7);"
        " give vectors of that width, or build it for d_model=7",
        Embedding(17, 5).logits,
        x(2, 3, 7),
    )
