"""Sampling rules: beside plain loops, beside Hugging Face's own, and what must always hold."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transom.equations import sampling

VOCABULARY, BATCH, TOKEN = 23, 5, 13


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(29)


def random_logits(batch=BATCH, vocabulary=VOCABULARY):
    return torch.randn(batch, vocabulary) * 3


def random_tokens():
    return torch.randint(0, 3, (BATCH, TOKEN))  # three different ones, so that runs come again and again


TWINS = {
    "repetition_penalty": ("RepetitionPenaltyLogitsProcessor", (1.7,)),
    "repetition_penalty below 1": ("RepetitionPenaltyLogitsProcessor", (0.6,)),
    "no_repeat_ngram 1": ("NoRepeatNGramLogitsProcessor", (1,)),
    "no_repeat_ngram 2": ("NoRepeatNGramLogitsProcessor", (2,)),
    "no_repeat_ngram 3": ("NoRepeatNGramLogitsProcessor", (3,)),
    "no_repeat_ngram 17": ("NoRepeatNGramLogitsProcessor", (17,)),
    "bad_words": ("NoBadWordsLogitsProcessor", ([[3], [5, 7], [1, 2, 3]],)),
    "temperature": ("TemperatureLogitsWarper", (0.7,)),
    "top_k": ("TopKLogitsWarper", (7,)),
    "top_k beyond": ("TopKLogitsWarper", (101,)),
    "top_p": ("TopPLogitsWarper", (0.8,)),
    "top_p none": ("TopPLogitsWarper", (0.0,)),
    "top_p all": ("TopPLogitsWarper", (1.0,)),
    "min_p": ("MinPLogitsWarper", (0.05,)),
    "min_p one": ("MinPLogitsWarper", (1.0,)),
}


@pytest.mark.parametrize("name", TWINS)
def test_equal_to_hugging_face(name):
    process = pytest.importorskip("transformers.generation.logits_process", reason="needs the extra hf")
    twin, settings = TWINS[name]
    rule = getattr(sampling, name.split()[0])
    logits, tokens = random_logits(), random_tokens()
    given = (tokens, *settings) if name.startswith(("repetition", "no_repeat", "bad_words")) else settings
    theirs = getattr(process, twin)(*settings)(tokens, logits.clone())
    assert torch.equal(rule(logits.clone(), *given), theirs)


def test_forced_and_suppressed_tokens_are_hugging_faces():
    process = pytest.importorskip("transformers.generation.logits_process", reason="needs the extra hf")
    logits, tokens, some = random_logits(), random_tokens(), torch.tensor([3, 5])
    suppressed = process.SuppressTokensLogitsProcessor([3, 5])(tokens, logits.clone())
    assert torch.equal(sampling.suppress_tokens(logits, some), suppressed)
    forced = process.ForcedEOSTokenLogitsProcessor(tokens.shape[1] + 1, [3, 5])(tokens, logits.clone())
    assert torch.equal(sampling.force_tokens(logits, some), forced)
    rows = torch.arange(len(logits)) % 2 == 0
    assert torch.equal(sampling.force_tokens(logits, some, rows)[rows], forced[rows])
    assert torch.equal(sampling.suppress_tokens(logits, some, rows)[~rows], logits[~rows])


def test_equal_logits_are_treated_as_hugging_face_treats_them():
    process = pytest.importorskip("transformers.generation.logits_process", reason="needs the extra hf")
    logits = torch.tensor([[1.0, 2.0, 2.0, 2.0, -torch.inf, 0.0, 1.0]])
    tokens = torch.tensor([[1, 1]])
    for k in range(1, 8):
        assert torch.equal(sampling.top_k(logits, k), process.TopKLogitsWarper(k)(tokens, logits))
    for tenths in range(11):
        p = tenths / 10
        assert torch.equal(sampling.min_p(logits, p), process.MinPLogitsWarper(p)(tokens, logits))


def test_repetition_penalty_in_a_loop():
    logits, tokens = random_logits(), random_tokens()
    found = sampling.repetition_penalty(logits, tokens, 1.3)
    for row in range(BATCH):
        for token in range(VOCABULARY):
            logit = float(logits[row, token])
            if token in tokens[row].tolist():
                logit = logit * 1.3 if logit < 0 else logit / 1.3
            assert float(found[row, token]) == pytest.approx(logit)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=17), st.integers(1, 5))
def test_no_run_comes_twice(tokens, size):
    found = sampling.no_repeat_ngram(torch.zeros(1, 5), torch.tensor([tokens]), size)[0]
    runs = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
    for token in range(5):
        completed = (*tokens[len(tokens) - size + 1 :], token)
        assert (float(found[token]) == -math.inf) == (completed in runs)


@pytest.mark.parametrize(("rule", "given"), [("repetition_penalty", 1.3), ("no_repeat_ngram", 2)])
def test_padding_counts_for_nothing(rule, given):
    logits, tokens = random_logits(), random_tokens()
    change = getattr(sampling, rule)
    padded = torch.cat([torch.full((BATCH, 3), 1), tokens], dim=1)
    real = torch.ones_like(padded, dtype=torch.bool)
    real[:, :3] = False
    assert torch.equal(change(logits, padded, given, real), change(logits, tokens, given))
    nothing = torch.zeros_like(padded, dtype=torch.bool)
    assert torch.equal(change(logits, padded, given, nothing), logits)


def test_top_p_in_a_loop():
    logits = random_logits(1)
    found = sampling.top_p(logits, 0.9)[0].isfinite()
    probabilities = logits.double().softmax(dim=1)[0]
    total, kept = 0.0, set()
    for token in probabilities.argsort(descending=True).tolist():
        if total < 0.9:
            kept.add(token)
        total += float(probabilities[token])
    assert kept == set(found.nonzero()[:, 0].tolist())


@given(st.integers(0, 9999), st.sampled_from(["top_k", "top_p", "min_p"]), st.floats(0.0, 1.0))
def test_the_likeliest_always_stays_and_what_stays_is_as_it_was(seed, rule, share):
    torch.manual_seed(seed)
    logits = random_logits()
    given = 1 + int(share * 30) if rule == "top_k" else share
    found = getattr(sampling, rule)(logits, given)
    kept = found > -torch.inf
    assert kept.gather(1, logits.argmax(dim=1, keepdim=True)).all()
    assert torch.equal(found[kept], logits[kept])
    for row in range(BATCH):  # nothing that goes is likelier than what stays
        assert kept[row].all() or logits[row][~kept[row]].max() <= logits[row][kept[row]].min()


def test_a_draw_follows_the_probabilities():
    logits = torch.tensor([[1.0, -torch.inf, 0.5, 2.0, -torch.inf]])
    even = (torch.arange(10_007) + 0.5) / 10_007
    drawn = sampling.sample_token(logits.expand(10_007, 5), even)
    shares = torch.bincount(drawn, minlength=5) / 10_007
    torch.testing.assert_close(shares, logits.softmax(dim=1)[0], rtol=0, atol=2e-4)


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2**-24, 1.0 - 2**-53])
def test_a_draw_at_the_edge_never_takes_what_is_ruled_out(uniform):
    logits = torch.full((3, 101), -torch.inf)
    logits[:, 37] = 0.1
    logits[1, 41] = -60.0
    drawn = sampling.sample_token(logits, torch.full((3,), uniform, dtype=torch.float64))
    assert set(drawn.tolist()) <= {37, 41}
