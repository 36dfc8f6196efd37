"""generate: the same tokens alone and in a batch, padded on either side; and every setting."""

import pytest
import torch
from models.small import assert_misfit, padded, rows
from models.test_models import every_choice, unchecked
from models.writers import ENDS, WAYS, decoder, encoder_decoder
from transformers import GPT2Config, GPT2LMHeadModel


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(43)


def new_tokens(model, tokens, real, **settings):
    """The new tokens of each row up to its end, and the scores."""
    settings = {"max_new_tokens": 9, "eos_token_id": ENDS, "return_scores": True} | settings
    result = model.generate(tokens, real, **settings)
    width = tokens.shape[1] if model.kind == "decoder" else 1
    if model.kind == "decoder":
        copies = len(result.scores) // len(tokens)
        assert torch.equal(result.sequences[:, :width], tokens.repeat_interleave(copies, 0))
    new = []
    for row in result.sequences[:, width:].tolist():
        end = next((index + 1 for index, token in enumerate(row) if token in ENDS), len(row))
        assert not any(row[end:])
        new.append(row[:end])
    return new, result.scores


def greedy_loop(model, tokens, new, window=None):
    """Greedy search in plain code: a forward pass over the last `window` tokens, or all, for every new one."""
    with torch.no_grad():
        for _ in range(new):
            last = tokens if window is None else tokens[:, -window:]
            tokens = torch.cat([tokens, model(last)[:, -1:].argmax(dim=2)], dim=1)
    return tokens


@unchecked
@every_choice
def test_the_same_tokens_in_a_batch_alone_with_and_without_a_cache(parts):
    model, prompts = decoder(**parts), rows(7, 3)
    settings = {"max_new_tokens": 5, "eos_token_id": None}
    left, right = (model.generate(*padded(prompts, side), **settings) for side in ("left", "right"))
    assert torch.equal(left[:, 7:], right[:, 7:])
    for prompt, together in zip(prompts, left, strict=True):
        alone = greedy_loop(model, prompt[None], 5)
        assert torch.equal(model.generate(prompt[None], **settings), alone)
        assert torch.equal(together[-alone.shape[1] :], alone[0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_a_batch_is_each_row_alone_with_padding_on_either_side(build, way):
    model, prompts = build(positions="relative"), rows(7, 3, 5)
    together = [new_tokens(model, *padded(prompts, side), **WAYS[way]) for side in ("left", "right")]
    copies = WAYS[way].get("num_return_sequences", 1)
    for index, prompt in enumerate(prompts):
        settings = WAYS[way] | ({"seed": WAYS[way]["seed"][index : index + 1]} if "seed" in WAYS[way] else {})
        alone, scores = new_tokens(model, prompt[None], None, **settings)
        part = slice(index * copies, (index + 1) * copies)
        for batch_tokens, batch_scores in together:
            assert batch_tokens[part] == alone
            torch.testing.assert_close(batch_scores[part], scores, rtol=0, atol=2e-5)


def test_greedy_takes_the_likeliest_each_time():
    model, prompt = decoder(), torch.stack(rows(5, 5))
    tokens = greedy_loop(model, prompt, 11)
    assert torch.equal(model.generate(prompt, max_new_tokens=11, eos_token_id=None), tokens)
    assert len(tokens[:, 5:].unique()) > 2


def test_a_translation_takes_the_likeliest_each_time():
    model, source = encoder_decoder(), torch.stack(rows(5, 5))
    tokens = torch.full((2, 1), 1)
    with torch.no_grad():
        for _ in range(11):
            tokens = torch.cat([tokens, model(source, tokens)[:, -1].argmax(dim=1, keepdim=True)], dim=1)
    assert torch.equal(model.generate(source, max_length=12, eos_token_id=None), tokens)


def test_a_row_ends_with_its_end_token_and_padding_follows():
    model, prompt = decoder(), torch.stack(rows(5, 5, 5))
    free = model.generate(prompt, max_new_tokens=11, eos_token_id=None)
    end = int(free[1, 8])
    sequences = model.generate(prompt, max_new_tokens=11, eos_token_id=end, pad_token_id=3)
    for row, free_row in zip(sequences.tolist(), free.tolist(), strict=True):
        length = free_row.index(end, 5) + 1 if end in free_row[5:] else 16
        assert row == (free_row[:length] + [3] * 16)[: sequences.shape[1]]


def test_scores_of_greedy_search_are_the_models_log_probabilities():
    model, prompt = decoder(), torch.stack(rows(5, 5))
    result = model.generate(prompt, max_new_tokens=7, eos_token_id=None, length_penalty=0.5, return_scores=True)
    with torch.no_grad():
        log_probabilities = model(result.sequences)[:, 4:-1].log_softmax(dim=2)
    expected = log_probabilities.gather(2, result.sequences[:, 5:, None]).sum(dim=(1, 2)) / 7**0.5
    torch.testing.assert_close(result.scores, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_the_score_of_a_beam_is_what_teacher_forcing_gives(build):
    model, tokens = build(), torch.stack(rows(5, 5, 5))
    settings = {"num_beams": 5, "num_return_sequences": 5, "length_penalty": 0.6, "eos_token_id": ENDS}
    result = model.generate(tokens, max_new_tokens=9, return_scores=True, **settings)
    start = 5 if build is decoder else 1
    for number, (row, score) in enumerate(zip(result.sequences, result.scores, strict=True)):
        length = next((index + 1 for index in range(start, len(row)) if int(row[index]) in ENDS), len(row))
        sequence, source = row[None, :length], tokens[number // 5, None]
        with torch.no_grad():
            logits = model(sequence) if build is decoder else model(source, sequence)
        log_probabilities = logits[:, start - 1 : -1].log_softmax(dim=2).gather(2, sequence[:, start:, None])
        assert float(score) == pytest.approx(float(log_probabilities.sum()) / (length - start) ** 0.6, abs=1e-5)


def test_the_best_beam_comes_first():
    model, tokens = decoder(), torch.stack(rows(5, 5))
    result = model.generate(tokens, max_new_tokens=7, num_beams=5, num_return_sequences=5, return_scores=True)
    scores = result.scores.view(2, 5)
    assert torch.equal(scores, scores.sort(dim=1, descending=True).values)
    assert len({tuple(row) for row in result.sequences.tolist()}) == 10
    single = model.generate(tokens, max_new_tokens=7, num_beams=5)
    assert torch.equal(single, result.sequences[::5, : single.shape[1]])


def test_the_same_seed_samples_the_same():
    model, prompt = decoder(), torch.stack(rows(5, 5))
    settings = {"max_new_tokens": 11, "do_sample": True, "temperature": 3.0}
    first, again = (model.generate(prompt, seed=5, **settings) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, model.generate(prompt, seed=6, **settings))
    assert torch.equal(first, model.generate(prompt, seed=[5, 6], **settings))
    torch.manual_seed(7)
    unseeded = model.generate(prompt, **settings)
    assert not torch.equal(unseeded, model.generate(prompt, **settings))
    torch.manual_seed(7)
    assert torch.equal(unseeded, model.generate(prompt, **settings))


def test_sampling_with_a_seed_uses_none_of_torchs_random_numbers():
    model = decoder()
    before = torch.random.get_rng_state()
    model.generate(torch.tensor([[5, 7]]), do_sample=True, seed=3, max_new_tokens=5)
    assert torch.equal(before, torch.random.get_rng_state())


def test_samples_follow_the_models_probabilities():
    model, prompt = decoder(), torch.stack(rows(5))
    settings = {"do_sample": True, "temperature": 1.7, "seed": 11, "max_new_tokens": 1, "eos_token_id": None}
    samples = model.generate(prompt, num_return_sequences=4001, **settings)[:, -1]
    with torch.no_grad():
        expected = (model(prompt)[0, -1] / 1.7).softmax(dim=0)
    shares = torch.bincount(samples, minlength=23) / 4001
    deviation = (expected * (1 - expected) / 4001).sqrt()
    assert ((shares - expected).abs() < 4 * deviation + 1e-4).all()


def test_a_streamer_gets_each_token_as_it_is_chosen():
    model, prompt, streamed = decoder(), torch.stack(rows(5, 5, 5)), {0: [], 1: [], 2: []}
    sequences = model.generate(
        prompt, max_new_tokens=9, eos_token_id=ENDS, streamer=lambda row, token: streamed[row].append(token)
    )
    for row, tokens in streamed.items():
        assert sequences[row, 5:].tolist() == tokens + [0] * (sequences.shape[1] - 5 - len(tokens))


class PutEnd:
    def __init__(self):
        self.puts = []

    def put(self, value):
        self.puts.append(value.tolist())

    def end(self):
        self.puts.append("end")


def test_a_streamer_of_hugging_faces_gets_what_their_generate_gives_it():
    model, prompt, ours, theirs = decoder(), torch.stack(rows(5)), PutEnd(), PutEnd()
    sizes = {"vocab_size": 23, "n_embd": 12, "n_layer": 1, "n_head": 3, "n_positions": 31}
    library = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=None, eos_token_id=None)).eval()
    sequence = model.generate(prompt, max_new_tokens=4, eos_token_id=None, streamer=ours)
    mask = torch.ones_like(prompt)
    expected = library.generate(prompt, attention_mask=mask, max_new_tokens=4, do_sample=False, streamer=theirs)
    assert ours.puts == [prompt.tolist(), *sequence[0, 5:, None].tolist(), "end"]
    assert theirs.puts == [prompt.tolist(), *expected[0, 5:, None].tolist(), "end"]


class Letters:
    """Tokens 4 … 22 are letters; the others have no text."""

    def decode(self, ids):
        return "".join(chr(ord("a") + token - 4) if token >= 4 else "" for token in ids)


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_a_stop_string_ends_a_row_with_the_token_that_completes_it(settings):
    model, prompt, letters = decoder(positions="none"), torch.stack(rows(5, 5)), Letters()
    options = {"max_new_tokens": 11, "eos_token_id": None, "tokenizer": letters} | settings
    free = model.generate(prompt, **options)
    stop = letters.decode(free[0, 7:9].tolist())
    assert len(stop) == 2
    sequences = model.generate(prompt, stop_strings=[stop, "zzz"], **options)
    for row in sequences.tolist():
        text = letters.decode(row[5:])
        assert text.count(stop) <= 1
        assert stop not in text or text.endswith(stop)
    if not settings:
        text = letters.decode(free[0, 4:].tolist())
        assert letters.decode(sequences[0, 4:].tolist()) == text[: text.index(stop) + 2]


def test_a_stop_string_in_the_prompt_stops_nothing():
    model, letters = decoder(), Letters()
    prompt = torch.tensor([[5, 6, 7]])
    options = {"max_new_tokens": 5, "eos_token_id": None, "tokenizer": letters}
    free = model.generate(prompt, **options)
    if "bcd" not in letters.decode(free[0, 1:].tolist()):
        assert torch.equal(model.generate(prompt, stop_strings="bcd", **options), free)


def test_no_end_before_min_new_tokens():
    model, prompt = decoder(), torch.stack(rows(5, 5))
    end = model.generate(prompt, max_new_tokens=1, eos_token_id=None)[:, -1].unique().tolist()
    assert model.generate(prompt, max_new_tokens=9, eos_token_id=tuple(end)).shape[1] == 6
    later = model.generate(prompt, max_new_tokens=9, min_new_tokens=4, eos_token_id=tuple(end))
    assert later.shape[1] >= 10
    assert not torch.isin(later[:, 5:9], torch.tensor(end)).any()


def test_limits_of_the_length():
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
    model, prompts = decoder(longest=11, positions="learned"), rows(7, 3)
    tokens, real = padded(prompts)
    together = model.generate(tokens, real, max_new_tokens=17, eos_token_id=None, **settings)
    assert together.shape == (2, 24)
    alone = model.generate(prompts[0][None], max_new_tokens=17, eos_token_id=None, **settings)
    assert torch.equal(together[:1], alone)
    if not settings:
        assert torch.equal(alone, greedy_loop(model, prompts[0][None], 17, window=11))


def test_a_model_in_training_generates_without_dropout_and_stays_in_training():
    model, prompt = decoder(dropout=0.5), torch.stack(rows(5, 5))
    without_dropout = model.generate(prompt, max_new_tokens=9)
    model.train()
    model.stack.blocks[0].eval()
    assert torch.equal(model.generate(prompt, max_new_tokens=9), without_dropout)
    modes = {name: module.training for name, module in model.named_modules()}
    assert modes[""]
    assert not modes["stack.blocks.0"]
    assert modes["stack.blocks.1"]
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_no_result_and_no_tensor_of_a_hook_is_an_inference_tensor():
    model, prompt, outputs = decoder(), torch.stack(rows(5, 5)), []
    for settings in ({}, {"num_beams": 3}):
        result = model.generate(prompt, max_new_tokens=3, return_scores=True, **settings)
        assert not any(tensor.is_inference() for tensor in result)
    model(model.generate(prompt, max_new_tokens=3)).sum().backward()
    model.register_forward_hook(lambda *_: None)
    model.stack.register_forward_hook(lambda module, args, output: outputs.append(output))
    model.generate(prompt, max_new_tokens=3)
    assert outputs
    assert not any(tensor.is_inference() for tensor in outputs)


def test_a_source_of_padding_alone_changes_no_other():
    model, source = encoder_decoder(), torch.stack(rows(5, 5))
    real = torch.tensor([[True] * 5, [False] * 5])
    for settings in ({}, {"num_beams": 3}):
        sequences = model.generate(source, real, max_new_tokens=7, eos_token_id=None, **settings)
        alone = model.generate(source[:1], max_new_tokens=7, eos_token_id=None, **settings)
        assert torch.equal(sequences[:1], alone)


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
@pytest.mark.parametrize("build", [decoder, encoder_decoder])
def test_other_dtypes_and_autocast(build, settings):
    model, (tokens, real) = build(positions="alibi"), padded(rows(7, 3), "left")
    options = {"max_new_tokens": 5, "eos_token_id": None} | settings
    sequences = model.generate(tokens, real, **options)
    with torch.autocast("cpu", torch.bfloat16):
        assert model.generate(tokens, real, **options).shape == sequences.shape
    assert torch.equal(model.double().generate(tokens, real, **options), sequences)
    for dtype in (torch.bfloat16, torch.float16):
        assert model.to(dtype).generate(tokens, real, **options).shape == sequences.shape


def test_min_length_counts_the_prompt_of_each_list():
    model = decoder()
    prompts, ends = [[4, 6, 8], [4]], list(range(0, 23, 2))
    free = model.generate(prompts, max_new_tokens=7, eos_token_id=ends)
    held = model.generate(prompts, min_length=5, max_new_tokens=7, eos_token_id=ends)
    assert not torch.equal(free, held)
    for prompt, row in zip(prompts, held.tolist(), strict=True):
        assert not set(row[len(prompt) : 4]) & set(ends)


def test_a_rule_of_the_caller_comes_last():
    model, seen = decoder(), []

    def only_eleven(tokens, logits):
        seen.append(tokens.shape)
        return torch.full_like(logits, -torch.inf).index_fill_(1, torch.tensor([11]), 0.0)

    prompt = torch.tensor([[5, 7]])
    assert model.generate(prompt, logits_processor=only_eleven, max_new_tokens=3).tolist() == [[5, 7, 11, 11, 11]]
    assert seen == [(1, 2), (1, 3), (1, 4)]
    beams = model.generate(prompt, logits_processor=[only_eleven], num_beams=2, max_new_tokens=3)
    assert beams.tolist() == [[5, 7, 11, 11, 11]]
    assert_misfit(
        "a logits_processor must return logits of (1, 23), but it returned NoneType; return scores",
        model.generate,
        prompt,
        logits_processor=lambda tokens, logits: None,
    )


def test_a_forced_end_comes_at_each_rows_limit():
    rows = decoder().generate([[5, 7, 11], [5]], max_length=6, eos_token_id=22, forced_eos_token_id=22)
    for row in rows.tolist():
        assert 22 in row[:6]
