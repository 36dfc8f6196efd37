"""Words out of tokens, whoever cut them, and weights between words that still sum to 1."""

import pytest
import torch

import transom
from transom.lens.attention import record
from transom.lens.metrics.word_weights import RULES, group_words, join_tokens
from transom.names import Misfit

torch.manual_seed(47)
TOKENS = {
    "byte-level BPE": (["The", "Ġc", "at", "s", "Ġsat", "."], [[0], [1, 2, 3], [4, 5]], ["The", "cats", "sat."]),
    "SentencePiece": (["<s>", "▁The", "▁c", "ats", "</s>"], [[0], [1], [2, 3], [4]], ["<s>", "The", "cats", "</s>"]),
    "WordPiece": (["[CLS]", "the", "cat", "##s", "[SEP]"], [[0], [1], [2, 3], [4]], ["[CLS]", "the", "cats", "[SEP]"]),
    "Transom's own": (["The", " c", "at", "</s>"], [[0], [1, 2], [3]], ["The", "cat", "</s>"]),
    "a special token before a word": (["▁a", "<s>", "b", "c"], [[0], [1], [2, 3]], ["a", "<s>", "bc"]),
}


@pytest.mark.parametrize("kind", TOKENS)
def test_tokens_tell_their_words(kind):
    tokens, groups, words = TOKENS[kind]
    assert group_words(tokens) == groups
    assert [join_tokens(tokens, group) for group in groups] == words


def test_the_tokens_of_the_embedded_translator_tell_their_words():
    from transom.models.embedded import embedded_folder
    from transom.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(embedded_folder() / "tokenizer.json")
    text = "She wrote an unbelievably long letter."
    pieces = tokenizer.pieces(tokenizer.encode(text))
    assert [join_tokens(pieces, group) for group in group_words(pieces)] == text.lower().split()  # capitals are marks
    assert len(pieces) > len(text.split())


@pytest.fixture(params=[None, 20], ids=["one band", "many bands"])
def bands(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(record, "BLOCK_SCORES", request.param)


WORDS = TOKENS["byte-level BPE"]
SIGHT = transom.sight(*(2 * torch.randn(2, 3, 6, 5) for _ in range(3)), causal=True)


@pytest.mark.parametrize("rule", RULES)
def test_columns_are_summed_and_rows_joined_by_the_rule(rule, bands):
    tokens, groups, words = WORDS
    found = transom.by_words(SIGHT, head=2, tokens=tokens, rule=rule, batch=1)
    whole = SIGHT.weights(batch=1, head=2).double()
    for i, rows in enumerate(groups):
        chosen = {"mean": rows, "first": rows[:1], "last": rows[-1:]}[rule]
        for j, keys in enumerate(groups):
            expected = sum(float(whole[row, key]) for row in chosen for key in keys) / len(chosen)
            assert float(found.weights[i, j]) == pytest.approx(expected, abs=1e-6)
    assert torch.allclose(found.weights.sum(dim=1), torch.ones(3))
    assert (found.rows, found.keys, found.rule) == (words, words, rule)


def test_cross_attention_has_words_of_its_own_on_each_axis():
    sight = transom.sight(torch.randn(1, 1, 4, 5), torch.randn(1, 1, 6, 5), torch.randn(1, 1, 6, 5))
    found = transom.by_words(sight, 0, TOKENS["Transom's own"][0], WORDS[0])
    assert (found.rows, found.keys) == (["The", "cat", "</s>"], ["The", "cats", "sat."])
    assert torch.allclose(found.weights.sum(dim=1), torch.ones(3))


def test_groups_may_be_given():
    tokens, groups = list("abcdef"), [[0, 5], [1, 2], [3, 4]]
    found = transom.by_words(SIGHT, 0, tokens, groups=(groups, groups))
    assert found.rows == ["af", "bc", "de"]
    whole = SIGHT.weights(batch=0, head=0)
    assert float(found.weights[0, 1]) == pytest.approx(float(whole[[0, 5]][:, [1, 2]].sum()) / 2, abs=1e-6)


MISTAKES = {
    "tokens that tell nothing": (
        lambda: group_words(["a", "b"]),
        "tokens show their words by Ġ, ▁, a space or ##, but none of ['a', 'b'] does; give groups, a list of positions"
        " for each word",
    ),
    "a rule": (
        lambda: transom.by_words(SIGHT, 0, WORDS[0], rule="max"),
        "rule must be one of mean, first, last, but got 'max'; mean is the usual one",
    ),
    "too few tokens": (
        lambda: transom.by_words(SIGHT, 0, WORDS[0][:3]),
        "there should be a token for each of queries=6, but 3 came; give one string per token, and sources for the"
        " columns of cross-attention",
    ),
    "a token twice": (
        lambda: transom.by_words(SIGHT, 0, list("abcdef"), groups=([[0, 1], [1, 2, 3, 4, 5]], [[0, 1, 2, 3, 4, 5]])),
        "groups should hold each of queries=6 once, but they do not; every token belongs to one word, and to no other",
    ),
    "a head": (
        lambda: transom.by_words(SIGHT, 3, WORDS[0]),
        "there are heads=3, so 3 is none of them; count from 0 to 2, or back from -1",
    ),
}


@pytest.mark.usefixtures("own_errors")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_said(mistake):
    act, message = MISTAKES[mistake]
    with pytest.raises(Misfit) as caught:
        act()
    assert str(caught.value) == message
