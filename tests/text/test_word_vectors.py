"""Word vectors: every format gives the same rows, missing ones are filled in, little is kept in memory."""

import sys
import tracemalloc

import numpy as np
import pytest
import torch
from text.outside_files import raises_misfit, require_data, write_file, write_gzip
from text.vector_samples import FILES, KNOWN, NUMBERS, WORDS, glove, text_row

from transom.layers import Embedding
from transom.text import VECTOR_FORMATS, Tokenizer, word_vectors
from transom.text.word_vectors import detect_format


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("make", [write_file, write_gzip])
def test_every_format_gives_the_same_rows(tmp_path, name, make):
    words = ["of", "déjà", "The", "<unk>", "😀"]
    result = word_vectors(make(tmp_path, FILES[name], "vectors"), words)
    assert result.vectors.dtype == torch.float32
    assert torch.equal(result.vectors, torch.from_numpy(np.stack([KNOWN[word] for word in words])))
    assert result.found.tolist() == [True] * 5
    assert detect_format(write_file(tmp_path, FILES[name])) == ("binary" if "binary" in name else "text")


@pytest.mark.parametrize("format", [name for name in VECTOR_FORMATS if name != "fasttext"])
def test_a_format_may_be_named(tmp_path, format):
    path = write_file(tmp_path, FILES["word2vec binary" if format == "binary" else "GloVe"])
    assert word_vectors(path, WORDS, format=format).found.all()


def test_a_word_is_looked_up_as_written_then_in_lower_case(tmp_path):
    result = word_vectors(write_file(tmp_path, glove()), ["The", "CHAT", "THE", "Of", "Nowhere", "nowhere", "A"])
    expected = [KNOWN[word] for word in ("The", "chat", "the", "of")]
    assert torch.equal(result.vectors[:4], torch.from_numpy(np.stack(expected)))
    assert torch.equal(result.vectors[6], torch.from_numpy(KNOWN["a"]))
    assert result.found.tolist() == [True] * 4 + [False] * 2 + [True]
    assert (result.coverage.words, result.coverage.found, result.coverage.lowered) == (7, 5, 4)
    assert result.coverage.missing == ("Nowhere", "nowhere")


def test_of_two_rows_of_a_word_the_first_counts(tmp_path):
    path = write_file(tmp_path, glove() + text_row("chat", NUMBERS[0]))
    assert torch.equal(word_vectors(path, ["chat"]).vectors[0], torch.from_numpy(KNOWN["chat"]))


def test_a_word_may_be_in_the_list_twice(tmp_path):
    result = word_vectors(write_file(tmp_path, glove()), ["chat", "of", "chat"])
    assert torch.equal(result.vectors[0], result.vectors[2])


def test_missing_rows_are_like_the_found_ones(tmp_path):
    words = [*WORDS, *(f"missing {place}" for place in range(4_001))]
    path = write_file(tmp_path, glove())
    result = word_vectors(path, words, seed=5)
    filled = result.vectors[~result.found].double()
    torch.testing.assert_close(filled.mean(0), torch.from_numpy(NUMBERS).double().mean(0), rtol=0, atol=0.15)
    torch.testing.assert_close(
        filled.std(0), torch.from_numpy(NUMBERS).double().std(0, correction=0), rtol=0.06, atol=0
    )
    assert torch.equal(result.vectors, word_vectors(path, words, seed=5).vectors)
    assert not torch.equal(result.vectors, word_vectors(path, words, seed=7).vectors)
    assert torch.equal(word_vectors(path, words, seed=7).vectors[: len(WORDS)], result.vectors[: len(WORDS)])


def test_coverage_in_words(tmp_path):
    path = write_file(tmp_path, glove())
    plain = word_vectors(path, ["the", "chat", "x", "y"]).coverage
    assert str(plain) == "2 of 4 words found (50.0%), missing for example 'x' 'y'"
    counted = word_vectors(path, ["the", "Chat", "x", "y"], counts=[11, 2, 3, 7]).coverage
    assert counted.share_of_tokens == pytest.approx(13 / 23)
    assert str(counted) == (
        "2 of 4 words found (50.0%), 1 of them in lower case only, 56.5% of the tokens, missing for example 'y' 'x'"
    )
    assert str(word_vectors(path, ["the"], counts=[0]).coverage) == "1 of 1 words found (100.0%)"


def test_they_start_an_embedding(tmp_path):
    tokenizer = Tokenizer.train("words", ["the chat of déjà nowhere"], 11)
    result = word_vectors(write_file(tmp_path, glove()), tokenizer.tokens)
    embedding = Embedding.from_vectors(result.vectors, frozen=True)
    x = embedding(torch.tensor([tokenizer.encode("of the")]))
    assert torch.equal(x[0], torch.from_numpy(np.stack([KNOWN["of"], KNOWN["the"]])))


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        (
            "words must be a list of at least one word, but got []; give the vocabulary",
            {"words": []},
        ),
        (
            "words must be a list of at least one word, but got 'the'; give the vocabulary",
            {"words": "the"},
        ),
        (
            "there must be a count for each of the 2 words, but there are 1; give all",
            {"words": ["the", "of"], "counts": [3]},
        ),
        ("seed must be 0 or more, but got -1; give a larger whole number", {"words": ["the"], "seed": -1}),
        (
            "format must be one of text, binary, fasttext, but got 'txt'; did you mean 'text'?",
            {"words": ["the"], "format": "txt"},
        ),
    ],
)
def test_arguments_that_do_not_fit(own_errors, tmp_path, message, settings):
    raises_misfit(message, word_vectors, write_file(tmp_path, glove()), **settings)


def test_a_file_without_any_of_the_words(own_errors, tmp_path):
    path = write_file(tmp_path, glove())
    raises_misfit(
        f"{path} should have some of the 2 words, but it has none; is it the right file?",
        word_vectors,
        path,
        ["x", "y"],
    )


@pytest.mark.parametrize("make", [write_file, write_gzip])
def test_only_the_wanted_rows_are_kept(tmp_path, make):
    rows = "".join(f"word{row} {' '.join(str(row % 7 + column) for column in range(101))}\n" for row in range(5_003))
    path = make(tmp_path, rows)
    tracemalloc.start()
    result = word_vectors(path, ["word1", "word4999", "WORD2"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.found.all()
    assert peak < len(rows) / 3 < 700_000


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gensim leaves a file open
def test_gensim_reads_the_same(tmp_path):
    keyed = pytest.importorskip("gensim.models.keyedvectors", reason="gensim comes with the extra `vectors`")
    vectors = keyed.KeyedVectors(7)
    vectors.add_vectors(WORDS, NUMBERS)
    for binary in (False, True):
        path = tmp_path / "vectors"
        vectors.save_word2vec_format(str(path), binary=binary)
        assert torch.equal(word_vectors(path, WORDS).vectors, torch.from_numpy(NUMBERS))
    for name in ("GloVe", "word2vec text", "word2vec binary"):
        path = write_file(tmp_path, FILES[name])
        theirs = keyed.KeyedVectors.load_word2vec_format(str(path), binary="binary" in name, no_header=name == "GloVe")
        assert np.array_equal(theirs[WORDS], word_vectors(path, WORDS).vectors.numpy())


SAMPLES = {
    "lee_fasttext.vec": (1762, 10, False),
    "crime-and-punishment.vec": (291, 5, False),
    "toy-model.vec": (22, 5, False),
    "euclidean_vectors.bin": (2747, 10, True),
    "poincare_vectors.bin": (1182, 10, True),
    "high_precision.kv.bin": (2, 2, True),
}


@pytest.fixture
def datapath():
    return pytest.importorskip("gensim.test.utils", reason="gensim comes with the extra `vectors`").datapath


@pytest.mark.parametrize("name", SAMPLES)
def test_files_of_others(datapath, name):
    keyed = pytest.importorskip("gensim.models.keyedvectors", reason="gensim comes with the extra `vectors`")
    rows, width, binary = SAMPLES[name]
    theirs = keyed.KeyedVectors.load_word2vec_format(datapath(name), binary=binary)
    result = word_vectors(datapath(name), theirs.index_to_key)
    assert result.vectors.shape == (rows, width)
    assert np.array_equal(result.vectors.numpy(), theirs.vectors)


def test_a_file_of_others_without_header(datapath):
    result = word_vectors(datapath("test_glove.txt"), ["the", "of", "he"])
    assert result.vectors.shape == (3, 50)
    assert result.vectors[0, :2].tolist() == pytest.approx([0.418, 0.24968])


@pytest.mark.parametrize("name", ["toy-model", "crime-and-punishment"])
def test_fasttext_bin_holds_what_its_vec_holds(datapath, name):
    with open(datapath(f"{name}.vec"), encoding="utf-8") as file:
        words = [line.split()[0] for line in file][1:]
    words = [word for word in words if word != "</s>"]  # fastText takes it whole, gensim in pieces too
    text, binary = (word_vectors(datapath(f"{name}.{end}"), words) for end in ("vec", "bin"))
    assert binary.found.all()
    torch.testing.assert_close(text.vectors, binary.vectors, rtol=0, atol=1e-4)  # the .vec is rounded


def test_fasttext_bin_without_gensim(own_errors, datapath, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models.fasttext", None)
    path = datapath("toy-model.bin")
    raises_misfit(
        f"{path} is fastText's .bin, which needs gensim, but it is not installed; pip install 'transom[vectors]',"
        " or use the .vec",
        word_vectors,
        path,
        ["the"],
    )


def test_glove_on_sst_2_words():
    result = word_vectors(require_data("glove", "glove.6B.50d.top20k.txt.gz"), ["the", "film", "Movie", "zzzz"])
    assert result.vectors.shape == (4, 50)
    assert result.found.tolist() == [True, True, True, False]
    assert result.vectors[0, :2].tolist() == pytest.approx([0.418, 0.24968])
