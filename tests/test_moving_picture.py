"""The first screen of README.md: its three lines run, and its moving picture is small and has no script."""

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import transom

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURE = ROOT / "docs" / "pictures" / "moving.svg"


class WordTokenizer:
    """A tokenizer that knows the words it is given."""

    def __init__(self):
        self.words = []

    def __call__(self, text, return_tensors):
        assert return_tensors == "pt"
        self.words = text.split()
        return {"input_ids": torch.arange(len(self.words))[None]}

    def id_to_token(self, number):
        return self.words[number]


def test_the_three_lines_run(monkeypatch):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=16)
    model = transformers.GPT2LMHeadModel(config).eval()
    (lines,) = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    names = {"transom": transom, "model": model, "tokenizer": WordTokenizer()}
    monkeypatch.setattr(transom.Trace, "show", lambda trace: None)
    exec(lines, names)
    assert names["trace"].tokens == [["The", "capital", "of", "Italy", "is"]]


def test_the_picture_is_small_and_has_no_script():
    assert "docs/pictures/moving.svg" in README
    assert PICTURE.stat().st_size < 1.5e6
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(PICTURE).iter()}
    assert tags <= {"svg", "style", "rect", "g", "path", "text"}
    assert "prefers-reduced-motion" in PICTURE.read_text(encoding="utf-8")


def test_the_picture_says_the_numbers_it_is_given():
    module = runpy.run_path(str(ROOT / "docs" / "draw_moving_picture.py"))
    idle = module["Arrow"]("layers.3.attn", 1, 0, 0.99, [("<b>", 0.61)])
    vital = module["Arrow"]("layers.5.attn", 2, 1, 0.42, [(" no", 0.33)])
    svg = module["draw"]("a model", ["a", "<i>"], [("<b>", 0.62)], idle, vital)
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]
    assert {"0.62", "0.61", "0.33", "<b>", "layer 3, head 1: 0.99", "layer 5, head 2: 0.42"} <= set(texts)
