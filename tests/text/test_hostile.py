"""Any bytes at all, and good files with something changed: a result or a Misfit, never anything else."""

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text.test_corpora import CASES
from text.test_word_vector_files import fasttext_bin
from text.vector_samples import FILES, WORDS

from transom import Misfit
from transom.text import VECTOR_FORMATS, Tokenizer, word_vectors

TOKENIZER = {
    "version": "1.0",
    "added_tokens": [{"id": 0, "content": "<pad>", "special": True, "normalized": False}],
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Removed", "invert": True},
    "post_processor": None,
    "decoder": {"type": "Fuse"},
    "model": {
        "type": "WordLevel",
        "vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "the": 4},
        "unk_token": "<unk>",
    },
}
GOOD = {
    **{name: case[1].encode() for name, case in CASES.items()},
    **FILES,
    "fasttext": fasttext_bin(),
    "tokenizer": json.dumps(TOKENIZER).encode(),
}
SPLICES = st.one_of(
    st.binary(max_size=7),
    st.sampled_from(
        [b"\n", b" ", b"\t", b"\0", b"\xff", b"nan", b"999999999 300\n", b'"', b"{", b"}", b"[", b"-1", b"1e999"]
    ),
)


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """A good file with some pieces removed and others inserted, perhaps cut off, perhaps packed."""
    for _ in range(draw(st.integers(0, 3))):
        start, removed = draw(st.integers(0, len(content))), draw(st.integers(0, 5))
        content = content[:start] + draw(SPLICES) + content[start + removed :]
    content = content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content
    return gzip.compress(content) if draw(st.booleans()) else content


def hostile(name: str):
    return st.one_of(st.binary(max_size=211), damaged(GOOD[name]), damaged(gzip.compress(GOOD[name], mtime=0)))


def attempt(call, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        message = ""
        try:
            call(path)
        except Misfit as error:
            message = str(error)
        assert not message or (";" in message and "\n" not in message)


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_corpora(name, data):
    attempt(lambda path: list(CASES[name][0](path)), data.draw(hostile(name)))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("skip_broken", [False, True])
@given(data=st.data())
def test_word_vectors(name, skip_broken, data):
    format = data.draw(st.sampled_from([None, *(name for name in VECTOR_FORMATS if name != "fasttext")]))
    content = data.draw(hostile(name))
    attempt(lambda path: word_vectors(path, WORDS, skip_broken=skip_broken, format=format), content)


@given(data=st.data())
def test_fasttext_bin(data):
    pytest.importorskip("gensim.models.fasttext", reason="gensim comes with the extra `vectors`")
    content = data.draw(st.one_of(damaged(GOOD["fasttext"]), hostile("fasttext")))
    attempt(lambda path: word_vectors(path, ["the", "of"], format="fasttext"), content)


def use_tokenizer(path: Path) -> None:
    tokenizer = Tokenizer.load(path)
    tokenizer.pieces(tokenizer.encode("The cat <s>"))
    tokenizer.decode(range(tokenizer.size))


@given(content=hostile("tokenizer"))
@settings(max_examples=300)
def test_tokenizers(content):
    attempt(use_tokenizer, content)


VALUES = ["null", "-1", "4294967296", "1e300", "true", '""', '"<unk>"', '"("', "[]", "{}", '["a"]', '{"type": "BPE"}']


@given(data=st.data())
@settings(max_examples=300)
def test_tokenizers_with_other_values(data):
    file = json.loads(json.dumps(TOKENIZER))
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from([file, *(value for value in file.values() if isinstance(value, dict))]))
        if part:
            part[data.draw(st.sampled_from(sorted(part)))] = json.loads(data.draw(st.sampled_from(VALUES)))
    attempt(use_tokenizer, json.dumps(file).encode())
