"""Checks of the rows about pictures: BertViz, and CircuitsVis beside TransformerLens."""

import json
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
import torch
from coming_from.page_rows import check
from coming_from.small_models import (
    NAME,
    TOKENS,
    WORDS,
    bart,
    llama_trace,
    looking,
    own_weights,
    run_watched,
    two_sides,
)

import transom

bertviz = partial(check, "BertViz", names=looking)
close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)


@bertviz("attention=outputs.attentions")
def check_watched_with_words(trace: transom.Trace) -> None:
    close(trace[1].weights(), own_weights()[1])
    assert trace.labels(NAME).at == WORDS
    trace[1].output += 1  # an output that these weights do not make is not drawn
    with pytest.raises(transom.Misfit, match=NAME):
        transom.draw("arrows", trace, layer=1, head=2)


@bertviz("include_layers=")
def check_second_layer_alone(block: AbstractContextManager[transom.Trace]) -> None:
    assert run_watched(block).names == [NAME]


@bertviz("encoder_attention=, cross_attention=; encoder_tokens=, decoder_tokens=", names=two_sides)
def check_both_sides(block: AbstractContextManager[transom.Trace]) -> None:
    with torch.no_grad(), block as trace:
        bart()(input_ids=TOKENS, decoder_input_ids=TOKENS)
    assert [trace.labels(name).at for name in trace.names] == [WORDS] * 3
    assert [name.rpartition(".")[2] for name in trace.names] == ["self_attn", "self_attn", "encoder_attn"]


@check("TransformerLens", "CircuitsVis attention_patterns(tokens, attention)", names=looking)
def check_labelled_arrows(picture: transom.Picture) -> None:
    assert all(word in picture.svg() for word in WORDS)
    check_arrows(picture)


@bertviz("head_view(attention, tokens)")
def check_arrows(picture: transom.Picture) -> None:
    """Every arrow of at least 0.02, with its weight."""
    (panel,) = json.loads(picture.json())["panels"]
    found = {(arrow["source"], arrow["target"]): arrow["weight"] for arrow in panel["arrows"]}
    weights = own_weights()[1][0, 2]
    assert set(found) == {(row, key) for row, key in (weights >= 0.02).nonzero().tolist()}
    for (row, key), weight in found.items():
        close(torch.tensor(weight), weights[row, key])


@bertviz("model_view(attention, tokens)")
def check_all_heads(picture: transom.Picture) -> None:
    assert picture.view == "heads"
    assert all(f"layers.{number}" in picture.svg() for number in (0, 1))


@bertviz("neuron_view.show(model, …)")
def check_steps_picture(picture: transom.Picture) -> None:
    table = json.loads(picture.json())["table"]["rows"]
    shown = [number for step, _, _, number in table if step.startswith("weights")]
    close(torch.tensor(shown, dtype=torch.float32).view(7, 7), own_weights()[1][0, 2])
    assert {step.partition(":")[0] for step, *_ in table} >= {"Q", "K", "V", "scores", "weights", "sum"}


@bertviz("layer=, heads=")
def check_options(options: dict[str, int]) -> None:
    check_arrows(transom.draw("arrows", llama_trace(), **options))
    last = transom.draw("arrows", llama_trace(), head=2)
    check_arrows(last)


@bertviz('html_action="return"')
def check_files(html: str, saved: object) -> None:
    for page in (html, Path("look.html").read_text(encoding="utf-8")):
        assert page.startswith("<!doctype html>")
        assert "src=" not in page or "http" not in page.partition("src=")[2][:60]


@bertviz("prettify_tokens=")
def check_tokens_as_given(block: AbstractContextManager[transom.Trace]) -> None:
    assert run_watched(block).labels(NAME).at == WORDS
    assert "Ġcat" in transom.draw("arrows", llama_trace(), head=2, tokens=[f"Ġ{word}" for word in WORDS]).text(width=99)


@bertviz('display_mode="dark"')
def check_dark_pages() -> None:
    assert "prefers-color-scheme:dark" in transom.draw("arrows", llama_trace(), head=2).html()
