"""What a head does in words: heads that are made to do one thing are said to do it."""

import pytest
import torch

import transom
from transom.lens.metrics.head_descriptions import NEEDED, describe_head
from transom.lens.metrics.head_measures import HEADS
from transom.lens.trace import Trace

TEXT = ["[start]", "a", "b", "c", "d", "e", "a", "b", "c", "d", "f", "a", "b", "c", "d", "g"]
KEYS = len(TEXT)


def table_of(places, causal=True, tokens=TEXT, name="layers.0.attention", strength=60.0):
    """The table of a head whose rows read the keys that `places` names; other rows read everything alike."""
    bias = torch.zeros(1, 1, KEYS, KEYS).double()
    for row in range(KEYS):
        for key in places(row):
            bias[0, 0, row, key] = strength
    if causal:
        bias = bias.masked_fill(torch.ones(KEYS, KEYS).triu(1).bool(), -torch.inf)
    zeros = torch.zeros(1, 1, KEYS, 3).double()
    trace = Trace()
    trace.add(name, transom.sight(zeros, zeros, zeros + 1.0, bias=bias))
    return transom.heads(trace, tokens=tokens)


def earlier(row, token):
    return [key for key in range(row) if TEXT[key] == token]


def next_of(row):
    return TEXT[row + 1] if row + 1 < KEYS else None


DOING = {
    "mostly reads the first token (a sink): 100 %": lambda row: [0],
    "mostly reads its own token: 100 %": lambda row: [row],
    "mostly reads the token before: 100 %; ": lambda row: [max(0, row - 1)],
    "where it can, mostly reads what followed an earlier copy of its own token (induction): 100 %": lambda row: [
        key + 1 for key in earlier(row, TEXT[row])
    ],
    "where it can, mostly reads earlier copies of its own token: 100 %": lambda row: earlier(row, TEXT[row]),
    "where it can, mostly reads an earlier copy of the token that comes next (retrieval): 100 %": lambda row: earlier(
        row, next_of(row)
    )[-1:],
    "spreads evenly over all it may see": lambda row: [],
    "mostly reads one and the same token (a sink): ": lambda row: [2] if row >= 2 else [],
}


@pytest.mark.parametrize("words", DOING)
def test_a_head_that_does_one_thing_is_said_to_do_it(words):
    description = table_of(DOING[words])["layers.0.attention", 0].description
    assert words.strip("; ") in description
    if words.startswith(("spreads", "mostly reads its", "mostly reads the first")):
        assert description == words


def test_the_token_after_is_seen_without_a_causal_mask():
    table = table_of(lambda row: [min(row + 1, KEYS - 1)], causal=False)
    assert table[0].description == "mostly reads the token after: 100 %"


def test_a_head_without_a_rule_is_said_to_have_none():
    table = table_of(lambda row: [2 * row // 3], tokens=[str(number) for number in range(KEYS)])
    assert table[0].description.startswith("reads one token at a time, ")
    assert table[0].description.endswith("tokens away, by no rule measured here")


PLACES = {row: [7] for row in range(9, 16)} | {row: [row - 1] for row in range(1, 6)}


def test_the_strongest_habit_is_named_first():
    """Of 16 rows seven read one key in the middle of the text, and five the token before."""
    table = table_of(lambda row: PLACES.get(row, [14]), False)
    words = "often reads one and the same token (a sink): 44 %; often reads the token before: 33 %"
    assert table[0].description.startswith(words)


def test_attention_to_another_text_says_so():
    assert table_of(lambda row: [], False, name="decoder.0.cross")[0].description == (
        "spreads evenly over all of the other text"
    )
    one = table_of(lambda row: [(3 * row) % KEYS], False, name="decoder.0.cross")[0].description
    assert one == "reads one token of the other text at a time"
    sink = table_of(lambda row: [KEYS - 1], False, name="decoder.0.cross")[0].description
    assert sink == "mostly reads one and the same token of the other text (a sink): 100 %"


def test_words_need_their_measures():
    assert set(NEEDED) <= set(HEADS)
    table = transom.heads(table_trace(), ["confidence"])
    assert table[0].description is None
    assert "description" not in table.csv() + table.json()
    assert describe_head(dict.fromkeys(NEEDED), {}) is None


def table_trace():
    trace = Trace()
    trace.add("a", transom.sight(*torch.randn(3, 1, 2, 5, 3)))
    return trace


def test_the_words_stand_in_every_form_of_the_table():
    table = table_of(lambda row: [0])
    words = table[0].description
    assert table.to_dicts()[0]["description"] == words
    assert table.csv().splitlines()[1].endswith(f',"{words}"' if "," in words else f",{words}")
    assert str(table).splitlines()[0].split("  ")[-1] == "what it does"
    assert str(table).splitlines()[1].endswith(words)
    assert words in table._repr_html_()
    assert "any sink" in str(table)


@pytest.mark.parametrize("words", ["0.85", "0.5", "0.4", "0.25", "0.6", "three rows"])
def test_the_thresholds_are_in_the_page(words):
    from test_docs import text

    section = text("docs/lens.md").split("## Measuring heads")[1].split("\n## ")[0]
    assert words in section.split("What a head does, in words")[1]
