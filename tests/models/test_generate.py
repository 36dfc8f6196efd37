"""Writing: the same tokens alone and in a batch, padded on either side; and every setting."""

import pytest
import torch
from models.small import padded, rows
from models.test_models import every_choice, unchecked
from models.writers import ENDS, WAYS, decoder, encoder_decoder


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(43)


def new_tokens(model, tokens, real, **settings):
    """What was written in each row up to its end, and the scores."""
    told = {"max_new_tokens": 9, "eos_token_id": ENDS, "return_scores": True} | settings
    found = model.generate(tokens, real, **told)
    width = tokens.shape[1] if model.kind == "decoder" else 1
    if model.kind == "decoder":
        assert torch.equal(found.sequences[:, :width], tokens.repeat_interleave(len(found.scores) // len(tokens), 0))
    kept = []
    for row in found.sequences[:, width:].tolist():
        end = next((place + 1 for place, token in enumerate(row) if token in ENDS), len(row))
        assert not any(row[end:])
        kept.append(row[:end])
    return kept, found.scores


@unchecked
@every_choice
def test_the_same_tokens_in_a_batch_alone_with_and_without_a_cache(parts):
    model, found = decoder(**parts), rows(7, 3)
    told = {"max_new_tokens": 5, "eos_token_id": None}
    left, right = (model.generate(*padded(found, side), **told) for side in ("left", "right"))
    assert torch.equal(left[:, 7:], right[:, 7:])
    for row, together in zip(found, left, strict=True):
        alone = row[None]
        with torch.no_grad():
            for _ in range(5):
                alone = torch.cat([alone, model(alone)[:, -1:].argmax(dim=2)], dim=1)
        assert torch.equal(model.generate(row[None], **told), alone)
        assert torch.equal(together[-alone.shape[1] :], alone[0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_a_batch_is_each_row_alone_and_padding_may_stand_on_either_side(build, way):
    model, found = build(positions="relative"), rows(7, 3, 5)
    together = {side: new_tokens(model, *padded(found, side), **WAYS[way]) for side in ("left", "right")}
    times = WAYS[way].get("num_return_sequences", 1)
    for place, row in enumerate(found):
        settings = WAYS[way] | ({"seed": WAYS[way]["seed"][place : place + 1]} if "seed" in WAYS[way] else {})
        alone, scores = new_tokens(model, row[None], None, **settings)
        here = slice(place * times, (place + 1) * times)
        for side in ("left", "right"):
            tokens, of_side = together[side]
            assert tokens[here] == alone
            torch.testing.assert_close(of_side[here], scores, rtol=0, atol=2e-5)


def test_greedy_takes_the_likeliest_each_time():
    model, prompt = decoder(), torch.stack(rows(5, 5))
    tokens = prompt
    with torch.no_grad():
        for _ in range(11):
            tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(dim=1, keepdim=True)], dim=1)
    assert torch.equal(model.generate(prompt, max_new_tokens=11, eos_token_id=None), tokens)
    assert len(tokens[:, 5:].unique()) > 2


def test_a_translation_takes_the_likeliest_each_time():
    model, source = encoder_decoder(), torch.stack(rows(5, 5))
    tokens = torch.full((2, 1), 1)
    with torch.no_grad():
        for _ in range(11):
            tokens = torch.cat([tokens, model(source, tokens)[:, -1].argmax(dim=1, keepdim=True)], dim=1)
    assert torch.equal(model.generate(source, max_length=12, eos_token_id=None), tokens)


def test_a_row_ends_with_its_end_and_padding_follows():
    model, prompt = decoder(), torch.stack(rows(5, 5, 5))
    free = model.generate(prompt, max_new_tokens=11, eos_token_id=None)
    end = int(free[1, 8])
    found = model.generate(prompt, max_new_tokens=11, eos_token_id=end, pad_token_id=3)
    for row, whole in zip(found.tolist(), free.tolist(), strict=True):
        ends = [place for place in range(5, 16) if whole[place] == end]
        kept = whole[: ends[0] + 1] if ends else whole
        assert row == (kept + [3] * 16)[: found.shape[1]]


def test_scores_of_greedy_writing_are_the_models_own():
    model, prompt = decoder(), torch.stack(rows(5, 5))
    found = model.generate(prompt, max_new_tokens=7, eos_token_id=None, length_penalty=0.5, return_scores=True)
    with torch.no_grad():
        chances = model(found.sequences)[:, 4:-1].log_softmax(dim=2)
    own = chances.gather(2, found.sequences[:, 5:, None]).sum(dim=(1, 2)) / 7**0.5
    torch.testing.assert_close(found.scores, own, rtol=0, atol=1e-5)


@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_the_score_of_a_beam_is_what_teacher_forcing_gives(build):
    model, tokens = build(), torch.stack(rows(5, 5, 5))
    settings = {"num_beams": 5, "num_return_sequences": 5, "length_penalty": 0.6, "eos_token_id": ENDS}
    found = model.generate(tokens, max_new_tokens=9, return_scores=True, **settings)
    start = 5 if build is decoder else 1
    for number, (row, score) in enumerate(zip(found.sequences, found.scores, strict=True)):
        place = next((place for place in range(start, len(row)) if int(row[place]) in ENDS), len(row) - 1)
        whole, source = row[None, : place + 1], tokens[number // 5, None]
        with torch.no_grad():
            logits = model(whole) if build is decoder else model(source, whole)
        chances = logits[:, start - 1 : -1].log_softmax(dim=2).gather(2, whole[:, start:, None])
        assert float(score) == pytest.approx(float(chances.sum()) / (place + 1 - start) ** 0.6, abs=1e-5)


def test_the_best_beam_comes_first():
    model, tokens = decoder(), torch.stack(rows(5, 5))
    found = model.generate(tokens, max_new_tokens=7, num_beams=5, num_return_sequences=5, return_scores=True)
    scores = found.scores.view(2, 5)
    assert torch.equal(scores, scores.sort(dim=1, descending=True).values)
    assert len({tuple(row) for row in found.sequences.tolist()}) == 10
    single = model.generate(tokens, max_new_tokens=7, num_beams=5)
    assert torch.equal(single, found.sequences[::5, : single.shape[1]])


def test_the_same_seed_draws_the_same():
    model, prompt = decoder(), torch.stack(rows(5, 5))
    settings = {"max_new_tokens": 11, "do_sample": True, "temperature": 3.0}
    first, again = (model.generate(prompt, seed=5, **settings) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, model.generate(prompt, seed=6, **settings))
    other = model.generate(prompt, seed=[5, 6], **settings)
    assert torch.equal(first, other)
    torch.manual_seed(7)
    drawn = model.generate(prompt, **settings)
    assert not torch.equal(drawn, model.generate(prompt, **settings))
    torch.manual_seed(7)
    assert torch.equal(drawn, model.generate(prompt, **settings))


def test_sampling_leaves_the_callers_random_numbers_alone():
    model = decoder()
    before = torch.random.get_rng_state()
    model.generate(torch.tensor([[5, 7]]), do_sample=True, seed=3, max_new_tokens=5)
    assert torch.equal(before, torch.random.get_rng_state())


def test_samples_follow_the_models_probabilities():
    model, prompt = decoder(), torch.stack(rows(5))
    settings = {"do_sample": True, "temperature": 1.7, "seed": 11, "max_new_tokens": 1, "eos_token_id": None}
    drawn = model.generate(prompt, num_return_sequences=4001, **settings)[:, -1]
    with torch.no_grad():
        expected = (model(prompt)[0, -1] / 1.7).softmax(dim=0)
    shares = torch.bincount(drawn, minlength=23) / 4001
    deviation = (expected * (1 - expected) / 4001).sqrt()
    assert ((shares - expected).abs() < 4 * deviation + 1e-4).all()


def test_a_streamer_is_told_each_token_as_it_comes():
    model, prompt, told = decoder(), torch.stack(rows(5, 5, 5)), {0: [], 1: [], 2: []}
    found = model.generate(
        prompt, max_new_tokens=9, eos_token_id=ENDS, streamer=lambda row, token: told[row].append(token)
    )
    for row, tokens in told.items():
        assert found[row, 5:].tolist() == tokens + [0] * (found.shape[1] - 5 - len(tokens))


class Letters:
    """Tokens 4 … 22 are letters; the others say nothing."""

    def decode(self, ids):
        return "".join(chr(ord("a") + token - 4) if token >= 4 else "" for token in ids)


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_a_stop_string_ends_a_row_with_the_token_that_completes_it(settings):
    model, prompt, letters = decoder(positions="none"), torch.stack(rows(5, 5)), Letters()
    told = {"max_new_tokens": 11, "eos_token_id": None, "tokenizer": letters} | settings
    free = model.generate(prompt, **told)
    stop = letters.decode(free[0, 7:9].tolist())
    assert len(stop) == 2
    found = model.generate(prompt, stop_strings=[stop, "zzz"], **told)
    for row in found.tolist():
        text = letters.decode(row[5:])
        assert text.count(stop) <= 1
        assert stop not in text or text.endswith(stop)
    if not settings:
        cut = letters.decode(free[0, 4:].tolist())
        assert letters.decode(found[0, 4:].tolist()) == cut[: cut.index(stop) + 2]


def test_a_stop_string_in_the_prompt_stops_nothing():
    model, letters = decoder(), Letters()
    prompt = torch.tensor([[5, 6, 7]])
    told = {"max_new_tokens": 5, "eos_token_id": None, "tokenizer": letters}
    free = model.generate(prompt, **told)
    if "bcd" not in letters.decode(free[0, 1:].tolist()):
        assert torch.equal(model.generate(prompt, stop_strings="bcd", **told), free)


def test_the_end_waits_for_the_fewest_new_tokens():
    model, prompt = decoder(), torch.stack(rows(5, 5))
    end = model.generate(prompt, max_new_tokens=1, eos_token_id=None)[:, -1].unique().tolist()
    assert model.generate(prompt, max_new_tokens=9, eos_token_id=tuple(end)).shape[1] == 6
    later = model.generate(prompt, max_new_tokens=9, min_new_tokens=4, eos_token_id=tuple(end))
    assert later.shape[1] >= 10
    assert not torch.isin(later[:, 5:9], torch.tensor(end)).any()


def test_how_long_it_may_become():
    model, prompt = decoder(longest=13), torch.stack(rows(5, 5))
    free = {"eos_token_id": None}
    assert model.generate(prompt, **free).shape == (2, 13)
    assert model.generate(prompt, max_length=7, **free).shape == (2, 7)
    with pytest.warns(UserWarning, match="^max_length=7 changes nothing without max_new_tokens=None;"):
        assert model.generate(prompt, max_length=7, max_new_tokens=4, **free).shape == (2, 9)
    assert model.generate(prompt, max_new_tokens=17, **free).shape == (2, 22)
    assert encoder_decoder(longest=13).generate(prompt, **free).shape == (2, 13)


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_learned_positions_slide_beyond_the_longest_sequence(settings):
    model, found = decoder(longest=11, positions="learned"), rows(7, 3)
    tokens, real = padded(found)
    together = model.generate(tokens, real, max_new_tokens=17, eos_token_id=None, **settings)
    assert together.shape == (2, 24)
    alone = model.generate(found[0][None], max_new_tokens=17, eos_token_id=None, **settings)
    assert torch.equal(together[:1], alone)
    if not settings:
        expected = found[0][None]
        with torch.no_grad():
            for _ in range(17):
                expected = torch.cat([expected, model(expected[:, -11:])[:, -1:].argmax(dim=2)], dim=1)
        assert torch.equal(alone, expected)


def test_a_model_in_training_writes_without_dropout_and_goes_on_training():
    model, prompt = decoder(dropout=0.5), torch.stack(rows(5, 5))
    quiet = model.generate(prompt, max_new_tokens=9)
    model.train()
    model.stack.blocks[0].eval()
    assert torch.equal(model.generate(prompt, max_new_tokens=9), quiet)
    modes = {name: module.training for name, module in model.named_modules()}
    assert modes[""]
    assert not modes["stack.blocks.0"]
    assert modes["stack.blocks.1"]
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_what_comes_out_can_be_used_anywhere():
    model, prompt, heard = decoder(), torch.stack(rows(5, 5)), []
    for settings in ({}, {"num_beams": 3}):
        found = model.generate(prompt, max_new_tokens=3, return_scores=True, **settings)
        assert not any(tensor.is_inference() for tensor in found)
    model(model.generate(prompt, max_new_tokens=3)).sum().backward()
    model.register_forward_hook(lambda *_: None)
    model.stack.register_forward_hook(lambda module, given, result: heard.append(result))
    model.generate(prompt, max_new_tokens=3)
    assert heard
    assert not any(tensor.is_inference() for tensor in heard)


def test_a_source_of_nothing_but_padding_is_no_trouble():
    model, source = encoder_decoder(), torch.stack(rows(5, 5))
    real = torch.tensor([[True] * 5, [False] * 5])
    for settings in ({}, {"num_beams": 3}):
        found = model.generate(source, real, max_new_tokens=7, eos_token_id=None, **settings)
        alone = model.generate(source[:1], max_new_tokens=7, eos_token_id=None, **settings)
        assert torch.equal(found[:1], alone)


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_numbers_of_other_kinds(build, settings):
    model, (tokens, real) = build(positions="alibi"), padded(rows(7, 3), "left")
    told = {"max_new_tokens": 5, "eos_token_id": None} | settings
    found = model.generate(tokens, real, **told)
    with torch.autocast("cpu", torch.bfloat16):
        assert model.generate(tokens, real, **told).shape == found.shape
    assert torch.equal(model.double().generate(tokens, real, **told), found)
    for dtype in (torch.bfloat16, torch.float16):
        assert model.to(dtype).generate(tokens, real, **told).shape == found.shape
