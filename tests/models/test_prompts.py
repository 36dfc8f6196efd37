"""Prompts are returned exactly as they came; padding is recognised by lengths and masks, never by tokens."""

import re
import warnings
from contextlib import nullcontext
from functools import cache
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models.small import assert_misfit, padded, rows
from models.writers import decoder, encoder_decoder

ENGINES = {"default": {}, "torch": {"TRANSOM_ENGINE": "torch"}}
WAYS = {
    "greedy": {},
    "rules": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 2},
    "sampling": {"do_sample": True, "temperature": 1.4, "top_k": 19},
    "samples": {"do_sample": True, "num_return_sequences": 2},
    "beams": {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.8},
}
PARTS = {
    "no padding": {"padding": None},
    "padding": {"padding": 0, "positions": "rotary"},
    "another padding": {"padding": 5, "positions": "relative", "arrangement": "pre_norm"},
    "learned": {"padding": None, "positions": "learned", "longest": 13},
    "narrow": {"padding": 0, "narrow": True, "positions": "alibi"},
}
TOKENS = st.integers(0, 22) | st.sampled_from([0, 1, 2, 5])  # the special ones come often


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(53)


@cache
def build_model(kind: str, part: str, causal: bool):
    torch.manual_seed(59)
    if kind == "encoder_decoder":
        return encoder_decoder(**PARTS[part])
    return decoder(**PARTS[part], causal=causal)


@torch.no_grad()
def argmax_loop(model, row, new, ends):
    """Greedy search in plain code: a forward pass over the whole sequence for every token."""
    tokens = torch.tensor([row]) if model.kind == "decoder" else torch.tensor([[1]])
    for _ in range(new):
        if model.kind == "decoder":
            window = tokens[:, -model.config.longest :] if model.config.positions == "learned" else tokens
            logits = model(window)
        else:
            logits = model(torch.tensor([row]), tokens)
        tokens = torch.cat([tokens, logits[:, -1:].argmax(dim=2)], dim=1)
        if int(tokens[0, -1]) in ends:
            break
    return tokens[0].tolist()


def alone_and_together(model, prompts, options, copies):
    """The sequences of each prompt from a call of its own, and from one call for all."""
    seeds = [7 + 2 * number for number in range(len(prompts) * copies)]
    sampled = options.get("do_sample", False)
    together = model.generate(prompts, **options, **({"seed": seeds} if sampled else {}))
    for index, prompt in enumerate(prompts):
        part = slice(index * copies, (index + 1) * copies)
        seed = {"seed": seeds[part]} if sampled else {}
        yield model.generate([prompt], **options, **seed).tolist(), together[part].tolist()


any_call = given(
    st.sampled_from(["decoder", "decoder", "encoder_decoder"]),
    st.sampled_from(sorted(PARTS)),
    st.sampled_from(sorted(WAYS)),
    st.lists(st.lists(TOKENS, min_size=1, max_size=7), min_size=1, max_size=4),
    st.sampled_from([None, 2, (0, 7)]),
    st.sampled_from([0, 3, 2]),
    st.sampled_from(["default", "torch", "forward", "no cache"]),
)


@settings(max_examples=20)
@any_call
@pytest.mark.usefixtures("own_errors")
def test_a_prompt_comes_back_as_it_was_and_a_batch_is_each_row_alone(kind, part, way, prompts, end, padding, steps):
    assert_prompts_return_and_rows_are_independent(kind, part, way, prompts, end, padding, steps)


@pytest.mark.slow
@settings(max_examples=60)
@any_call
@pytest.mark.usefixtures("own_errors")
def test_many_prompts_come_back_as_they_were(kind, part, way, prompts, end, padding, steps):
    assert_prompts_return_and_rows_are_independent(kind, part, way, prompts, end, padding, steps)


def assert_prompts_return_and_rows_are_independent(kind, part, way, prompts, end, padding, steps):
    model = build_model(kind, part, causal=steps != "no cache" or kind != "decoder")
    options = {"max_new_tokens": 5, "eos_token_id": end, "pad_token_id": padding} | WAYS[way]
    if end is None:
        options.pop("min_new_tokens", None)
    hook = model.register_forward_pre_hook(lambda *_: None) if steps == "forward" else None
    copies, ends = WAYS[way].get("num_return_sequences", 1), () if end is None else (end,) if end == 2 else end
    try:
        with patch.dict("os.environ", ENGINES.get(steps, {})):
            results = list(alone_and_together(model, prompts, options, copies))
        for prompt, (alone, together) in zip(prompts, results, strict=True):
            start = prompt if kind == "decoder" else [1]
            for sequence, padded_sequence in zip(alone, together, strict=True):
                assert sequence[: len(start)] == start
                assert padded_sequence[: len(sequence)] == sequence
                assert set(padded_sequence[len(sequence) :]) <= {padding}
            if way == "greedy":
                assert alone[0] == argmax_loop(model, prompt, 5, ends)
    finally:
        if hook is not None:
            hook.remove()


@pytest.mark.parametrize("build", [decoder, encoder_decoder])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("way", ["greedy", "beams"])
def test_a_mask_and_lists_of_different_lengths_give_the_same(build, side, way):
    model, prompts = build(positions="relative"), rows(7, 3, 5)
    tokens, real = padded(prompts, side)
    options = {"max_new_tokens": 9, "eos_token_id": (2, 7)} | WAYS[way]
    copies = options.get("num_return_sequences", 1)
    by_list = model.generate([row.tolist() for row in prompts], **options)
    assert torch.equal(by_list, model.generate(prompts, **options))
    for mask in ({"real": real}, {"attention_mask": real}, {"attention_mask": real.long()}):
        by_mask = model.generate(tokens, **mask, **options)
        if build is encoder_decoder:
            assert torch.equal(by_mask, by_list)
            continue
        assert torch.equal(by_mask[:, :7], tokens.repeat_interleave(copies, 0))
        for row, length in enumerate(length for length in (7, 3, 5) for _ in range(copies)):
            new = by_list[row, length:].tolist()
            assert (by_mask[row, 7:].tolist() + [0] * len(new))[: len(new)] == new


def test_padded_lists_with_a_mask():
    model = decoder()
    options = {"max_new_tokens": 4, "eos_token_id": None}
    sequences = model.generate([[0, 0, 7, 9], [5, 6, 7]], attention_mask=[[0, 0, 1, 1], [1, 1, 0]], **options)
    assert sequences[:, :4].tolist() == [[0, 0, 7, 9], [5, 6, 7, int(sequences[1, 3])]]
    assert sequences[0, 4:].tolist() == model.generate([[7, 9]], **options)[0, 2:].tolist()
    assert sequences[1, 3:7].tolist() == model.generate([[5, 6]], **options)[0, 2:].tolist()


@pytest.mark.parametrize("way", ["greedy", "rules", "beams"])
@torch.no_grad()
def test_llama_generates_the_same_with_a_mask(way):
    pytest.importorskip("transformers", reason="needs the extra hf")
    from bench.questions import llama

    sizes = {"layers": 2, "d_model": 24, "heads": 3, "kv_heads": 1, "d_hidden": 37, "vocabulary": 41}
    model = llama.build_decoder(sizes)
    twin = llama.build_hugging_face(model, sizes)
    # The padding token is also among the real ones: only the mask tells them apart.
    tokens = torch.tensor([[3, 3, 3, 5, 3, 11, 2], [3, 17, 3, 23, 29, 3, 31], [7, 3, 3, 19, 2, 13, 3]])
    mask = torch.tensor([[0] * 3 + [1] * 4, [0] + [1] * 6, [1] * 7])
    options = {"max_new_tokens": 11, "eos_token_id": [2, 9], "pad_token_id": 3} | WAYS[way]
    ours = model.generate(tokens, attention_mask=mask, **options)
    theirs = twin.generate(input_ids=tokens, attention_mask=mask, do_sample=False, **options)
    assert torch.equal(ours, theirs)
    assert torch.equal(ours[:, :7], tokens.repeat_interleave(options.get("num_return_sequences", 1), 0))


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
@pytest.mark.parametrize("limit", [{"max_length": 9}, {}])
def test_max_length_applies_to_each_list(search, limit):
    model = decoder(longest=11, positions="learned")
    prompts = [row.tolist() for row in rows(7, 3, 5)]
    options = {"eos_token_id": None, "pad_token_id": 1, **limit, **search}
    sequences = model.generate(prompts, **options)
    assert sequences.shape == (3, limit.get("max_length", 11))
    for sequence, prompt in zip(sequences.tolist(), prompts, strict=True):
        assert sequence == model.generate([prompt], **options)[0].tolist()


class Letters:
    """Every token is a letter."""

    def decode(self, ids):
        return "".join(chr(ord("a") + token) for token in ids)


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_padding_in_front_completes_no_stop_string(search):
    model, letters = decoder(), Letters()
    options = {"max_new_tokens": 5, "eos_token_id": None, "tokenizer": letters} | search
    free = model.generate([[7]], **options)[0].tolist()
    stop = letters.decode([9, 7, free[1]])
    tokens, mask = torch.tensor([[9, 9, 9, 7], [4, 6, 8, 11]]), torch.tensor([[0, 0, 0, 1], [1, 1, 1, 1]])
    sequences = model.generate(tokens, attention_mask=mask, stop_strings=stop, **options)
    assert sequences[0, 4:].tolist() == free[1:]


def test_greedy_search_uses_no_random_numbers():
    model = decoder()
    before = torch.random.get_rng_state()
    model.generate([[5, 7]], max_new_tokens=3)
    assert torch.equal(before, torch.random.get_rng_state())


def test_int32_tokens_stay_int32():
    tokens = torch.tensor([[5, 0, 7], [0, 9, 11]], dtype=torch.int32)
    sequences = decoder().generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=3)
    assert sequences.dtype == torch.int32
    assert torch.equal(sequences[:, :3], tokens)


@pytest.mark.parametrize(
    ("tokens", "row"), [([[5, 7], [7, 0]], 1), ([[0, 7], [7, 0]], 0), ([[5, 0, 7]], None), ([[5, 7]], None)]
)
def test_what_looks_like_padding_gives_a_warning(tokens, row):
    model, tokens = decoder(padding=0), torch.tensor(tokens)
    message = (
        f"row {row} begins or ends with 0, the model's padding, and it is read as a token, as no attention_mask came;"
        " give one, or give lists of different lengths"
    )
    options = {"max_new_tokens": 3, "eos_token_id": None}
    with nullcontext() if row is None else pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        sequences = model.generate(tokens, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(sequences, model.generate(tokens, attention_mask=torch.ones_like(tokens), **options))
        assert torch.equal(sequences, model.generate(tokens.tolist(), **options))
        assert torch.equal(sequences[:, : tokens.shape[1]], tokens)
        decoder(padding=None).generate(tokens, **options)


@pytest.mark.usefixtures("own_errors")
def test_prompts_and_masks_that_do_not_fit():
    model, tokens = decoder(), torch.full((2, 5), 7)
    assert_misfit(
        "attention_mask may mark padding in front of the tokens and behind them, but row 1 has some between its"
        " tokens; take it out of the row",
        model.generate,
        tokens,
        attention_mask=torch.tensor([[0, 1, 1, 1, 0], [1, 0, 0, 1, 1]]),
    )
    assert_misfit(
        "source_real may mark padding in front of the tokens and behind them, but row 0 has some between its"
        " tokens; take it out of the row",
        encoder_decoder().generate,
        tokens,
        torch.tensor([[True, False, True, True, False], [True] * 5]),
    )
    assert_misfit(
        "attention_mask must hold 1 for tokens and 0 for padding, but other numbers came; give 1 and 0",
        model.generate,
        tokens,
        attention_mask=torch.full((2, 5), -1.0),
    )
    assert_misfit(
        "real and attention_mask both say what is padding; leave one of the two out",
        model.generate,
        tokens,
        tokens > 0,
        attention_mask=tokens > 0,
    )
    assert_misfit(
        "attention_mask must be (batch=2, token=5), as tokens are (batch=2, token=5), but it is (batch=2, token=4);"
        " give one entry per token, cached ones included",
        model.generate,
        tokens,
        attention_mask=tokens[:, :4] > 0,
    )
    assert_misfit(
        "attention_mask must have a number per token, [2, 1] of them, but it has [2, 2];"
        " leave it out if the lists hold no padding",
        model.generate,
        [[5, 7], [9]],
        attention_mask=[[1, 1], [1, 0]],
    )
    assert_misfit(
        "each prompt needs a token, but row 1 has none; give it the start token",
        model.generate,
        tokens,
        attention_mask=torch.tensor([[1] * 5, [0] * 5]),
    )


@pytest.mark.usefixtures("own_errors")
def test_lists_that_hold_no_tokens():
    model = decoder()
    for none in ([], torch.empty(0, 5, dtype=torch.int64)):
        assert_misfit("generate takes one or more prompts, but there is none; give one", model.generate, none)
    assert_misfit(
        "generate takes a list of whole numbers for each prompt, but prompt 0 is 5;"
        " a single sequence goes in as [tokens]",
        model.generate,
        [5, 7],
    )
    assert_misfit(
        "generate takes a list of whole numbers for each prompt, but prompt 1 is [7.5];"
        " a single sequence goes in as [tokens]",
        model.generate,
        [[5], [7.5]],
    )
    assert_misfit(
        "tokens are whole numbers, 0 or more, but -1 came; use the tokenizer of the model", model.generate, [[5, -1]]
    )
    assert_misfit("each prompt needs a token, but they are empty; begin with the start token", model.generate, [[], []])
    message = "the embedding knows tokens 0 to 22, but tokens 99 to 99 came; use the tokenizer it was built with"
    assert_misfit(message, model.generate, [[99]])
    assert_misfit(message, model.generate, torch.tensor([[99]]))
    assert_misfit(message, encoder_decoder().generate, [[5]], decoder_start_token_id=99)


def test_an_empty_source_changes_no_other():
    model = encoder_decoder()
    sequences = model.generate([[5, 7, 11], []], max_new_tokens=5, eos_token_id=None)
    assert torch.equal(sequences[:1], model.generate([[5, 7, 11]], max_new_tokens=5, eos_token_id=None))
