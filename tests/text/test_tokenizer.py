"""Tokenizers: what goes in comes out, the same texts give the same tokenizer, and files from outside are checked."""

import hashlib
import json
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text.outside_files import raises_misfit, require_data, write_file
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, processors

import transom.files.tokenizer_files
from transom import Misfit
from transom.files.untrusted_files import Limits
from transom.text import KINDS, Tokenizer, read_lines
from transom.text.tokenizer import BYTES

TEXTS = [
    "The cat sat on the mat.",
    "The dog didn't see the cat's hat, or they'd have sat too!",
    "Déjà vu : où est le café ? Là-bas…",
    "naïve 😀😀 tabs\tand\nlines",
]
SIZES = {"bpe": 283, "words": 43, "characters": 61}
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


@cache
def train(kind):
    return Tokenizer.train(kind, TEXTS, SIZES[kind])


@pytest.fixture(scope="module")
def trained():
    return {kind: train(kind) for kind in KINDS}


def test_every_kind_has_a_size():
    assert list(SIZES) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first(trained, kind):
    tokenizer = trained[kind]
    assert (tokenizer.padding, tokenizer.start, tokenizer.end, tokenizer.unknown) == (0, 1, 2, 3)
    assert tokenizer.tokens[:4] == tokenizer.pieces([0, 1, 2, 3]) == SPECIAL
    assert tokenizer.size == len(tokenizer.tokens) <= SIZES[kind]
    assert repr(tokenizer).endswith(f"size={tokenizer.size})")


@given(st.text())
def test_any_text_comes_back_from_bytes(text):
    tokenizer = train("bpe")
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & {0, 1, 2, 3}


HOSTILE = [
    "👩‍👩‍👧‍👦 🏳️‍🌈",
    "".join(map(chr, range(32))) + "\x7f\x85\u2028\u2029\ufeff",
    "\u202eevil\u202c",
    "  two  spaces \n\n ",
    "[bold]\x1b[31m</script>",
    "e\u0301 ≠ é",
    "\U0010ffff",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_odd_texts_come_back_from_bytes(trained, text):
    assert trained["bpe"].decode(trained["bpe"].encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [*SPECIAL, "a <s> b</s>", "<pad><pad>", " <unk>"])
def test_a_text_is_never_read_as_a_special_token(trained, kind, text, tmp_path):
    trained[kind].save(tmp_path / "tokenizer.json")
    for tokenizer in (trained[kind], Tokenizer.load(tmp_path / "tokenizer.json")):
        assert not {0, 1, 2} & set(tokenizer.encode(text))
    assert trained["bpe"].decode(trained["bpe"].encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_texts(trained, kind):
    texts = [*TEXTS, "", *HOSTILE]
    assert trained[kind].encode_batch(texts) == [trained[kind].encode(text) for text in texts]
    assert trained[kind].encode_batch([]) == []


def test_characters_are_characters(trained):
    tokenizer = trained["characters"]
    text = TEXTS[2] + TEXTS[3]
    ids = tokenizer.encode(text)
    assert tokenizer.pieces(ids) == list(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.pieces(tokenizer.encode("Zé\n中")) == ["<unk>", "é", "\n", "<unk>"]
    assert tokenizer.decode(tokenizer.encode("Zé\n中")) == "é\n"


def test_words_are_cut_as_word_vectors_have_them(trained):
    tokenizer = trained["words"]
    ids = tokenizer.encode(TEXTS[1])
    assert " ".join(tokenizer.pieces(ids)) == "The dog did n't see the cat 's hat , or they 'd have sat too !"
    assert tokenizer.decode(tokenizer.encode("the  unseen\ncat!")) == "the cat !"
    cut = tokenizer.engine.pre_tokenizer.pre_tokenize_str("'Tis l'été, isn’t it?! x_1 3.5 -- DON'T 中文")
    expected = ["'", "Tis", "l", "'", "été", ",", "isn", "’", "t", "it", "?", "!", "x_1", "3", ".", "5"]
    assert [word for word, _ in cut] == [*expected, "-", "-", "DO", "N'T", "中文"]


def merge_pairs(word, ranks):
    """Byte-pair encoding of a word in plain loops: the pair that training merged first goes first."""
    parts = list(word)
    while True:
        pairs = [(ranks[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in ranks]
        if not pairs:
            return parts
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@given(st.text(alphabet="thecatsdogmn", min_size=1, max_size=23))
def test_pairs_are_merged_in_their_order(word):
    tokenizer = train("bpe")
    merges = json.loads(tokenizer.engine.to_str())["model"]["merges"]
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    assert tokenizer.pieces(tokenizer.encode(word)) == merge_pairs(word, ranks)


def test_every_byte_has_its_own_character(trained):
    assert sorted(BYTES.values()) == list(range(256))
    assert set(BYTES) == set(pre_tokenizers.ByteLevel.alphabet()) == set(trained["bpe"].tokens[4:260])


def test_pieces_show_text_and_stray_bytes(trained):
    tokenizer = trained["bpe"]
    pieces = tokenizer.pieces(tokenizer.encode(" the é中"))
    assert pieces[:1] == [" the"]
    assert "".join(pieces).encode().decode("unicode_escape").encode("latin-1").decode() == " the é中"
    assert tokenizer.pieces([1, *tokenizer.encode("中"), 2]) == ["<s>", "\\xe4", "\\xb8", "\\xad", "</s>"]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_not_written(trained, kind):
    tokenizer = trained[kind]
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([1, *ids, 3, 2, 0, 0]) == tokenizer.decode(ids) == "the cat"
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_lower_case(kind):
    tokenizer = Tokenizer.train(kind, TEXTS, SIZES[kind], lowercase=True)
    assert tokenizer.encode("THE Cat") == tokenizer.encode("the cat")
    assert tokenizer.decode(tokenizer.encode("THE Cat")) == "the cat"


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_quiet_and_always_the_same(kind, capfd):
    texts = [f"word{number % 97} is {'odd' if number % 2 else 'even'} {number}" for number in range(1009)]
    first = Tokenizer.train(kind, texts, 401).engine.to_str()
    assert all(Tokenizer.train(kind, iter(texts), 401).engine.to_str() == first for _ in range(5))
    assert capfd.readouterr() == ("", "")


def test_another_process_trains_the_same(trained):
    code = f"""
import hashlib
from transom.text import Tokenizer
for kind, size in {SIZES}.items():
    print(hashlib.sha256(Tokenizer.train(kind, {TEXTS}, size).engine.to_str().encode()).hexdigest())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        hashlib.sha256(tokenizer.engine.to_str().encode()).hexdigest() for tokenizer in trained.values()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_is_the_same(trained, kind, tmp_path):
    path = tmp_path / "tokenizer.json"
    trained[kind].save(path)
    loaded = Tokenizer.load(str(path))
    assert loaded.engine.to_str() == trained[kind].engine.to_str()
    assert loaded.tokens == trained[kind].tokens
    assert loaded.encode_batch(HOSTILE) == trained[kind].encode_batch(HOSTILE)
    assert [left.name for left in tmp_path.iterdir()] == ["tokenizer.json"]


def foreign_file(**changes):
    """A tokenizer.json of another library: WordPiece, with the special tokens in another order."""
    tokens = ["</s>", "<unk>", "<pad>", "<s>", "the", "cat", "##s", "<", "s", ">"]
    engine = Engine(models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.add_special_tokens(SPECIAL)
    engine.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 3), ("</s>", 0)]
    )
    engine.enable_padding(pad_id=2, pad_token="<pad>", length=101)
    engine.enable_truncation(2)
    return json.loads(engine.to_str()) | changes


def test_a_foreign_file_is_used_by_our_rules(tmp_path):
    tokenizer = Tokenizer.load(write_file(tmp_path, json.dumps(foreign_file())))
    assert (tokenizer.padding, tokenizer.start, tokenizer.end, tokenizer.unknown) == (2, 3, 0, 1)
    ids = tokenizer.encode("the cats <s> the")
    assert tokenizer.pieces(ids) == [
        "the",
        "cat",
        "##s",
        "<",
        "s",
        ">",
        "the",
    ]  # no truncation, no padding
    assert tokenizer.decode([3, *ids[:3], 0, 2]) == "the cats"


def test_a_file_may_not_leave_it_to_chance(tmp_path, trained):
    file = json.loads(trained["bpe"].engine.to_str())
    file["model"]["dropout"] = 0.5
    tokenizer = Tokenizer.load(write_file(tmp_path, json.dumps(file)))
    assert all(tokenizer.encode(TEXTS[0]) == trained["bpe"].encode(TEXTS[0]) for _ in range(23))


def vocabulary(**changes):
    model = {"type": "WordLevel", "unk_token": "<unk>", "vocab": {token: i for i, token in enumerate(SPECIAL)}}
    return {"version": "1.0", "added_tokens": [], "model": model | changes}


BAD_FILES = {
    "cut off": (
        '{"model":',
        " should be JSON, but it cannot be read (Input data was truncated); write it again",
    ),
    "too deep": (
        "[" * 100_000,
        " should be JSON, but it cannot be read (it nests more than 64 deep); write it again",
    ),
    "empty": ("", " should be JSON, but it cannot be read (Input data was truncated); write it again"),
    "a list": ("[]", " should hold one JSON object, but it holds a list; write {…}"),
    "a config": ('{"d_model": 7}', " should describe a tokenizer, but it has no model; name a tokenizer.json"),
    "latin-1": (
        '{"model": "é"}'.encode("latin-1"),
        ", line 1: text must be UTF-8, but byte 0xe9 is not; save the file as UTF-8",
    ),
    "no start": (
        json.dumps(vocabulary(vocab={"<pad>": 0, "<unk>": 1, "</s>": 2})),
        " must have <pad>, <s>, </s>, <unk>, but <s> is missing; add it, or train a tokenizer",
    ),
    "gap": (
        json.dumps(vocabulary(vocab={"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 4_000_000_000})),
        " must number 4 tokens without gaps, but the last is 4000000000; renumber",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_tokenizer(own_errors, tmp_path, name):
    content, message = BAD_FILES[name]
    path = write_file(tmp_path, content)
    raises_misfit(f"{path}{message}", Tokenizer.load, path)


@pytest.mark.parametrize("model", [{}, {"type": "Made Up"}, None, {"type": "BPE", "vocab": [], "merges": {}}])
def test_unknown_rules(tmp_path, model):
    path = write_file(tmp_path, json.dumps({"model": model}))
    with pytest.raises(Misfit, match=r"file should describe a tokenizer, but it does not: .+; take another copy$"):
        Tokenizer.load(path)


def test_a_file_that_is_not_there_or_too_long(own_errors, tmp_path, monkeypatch):
    raises_misfit(f"{tmp_path} should be a regular file, but it is a folder; name the file", Tokenizer.load, tmp_path)
    path = write_file(tmp_path, json.dumps(vocabulary()))
    monkeypatch.setattr(transom.files.tokenizer_files, "LARGEST", Limits(document=101))
    raises_misfit(f"{path} may have at most 101 bytes, but it has more; name a tokenizer.json", Tokenizer.load, path)


def test_a_panic_inside_the_library_is_an_error_like_others(own_errors, tmp_path, monkeypatch):
    class PanicException(BaseException):
        pass

    def from_str(_):
        raise failure("index out of bounds")

    path = write_file(tmp_path, json.dumps(vocabulary()))
    monkeypatch.setattr(transom.text.tokenizer.Engine, "from_str", from_str, raising=False)
    failure = PanicException
    raises_misfit(
        f"{path} should describe a tokenizer, but it does not: index out of bounds; take another copy",
        Tokenizer.load,
        path,
    )
    failure = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        Tokenizer.load(path)


def test_a_file_whose_rules_fail_on_a_text(own_errors, tmp_path):
    path = write_file(tmp_path, json.dumps(vocabulary(unk_token="<none>")))
    raises_misfit(
        "the tokenizer cannot read a text: WordLevel error: Missing [UNK] token from the vocabulary;"
        " train another one, or correct its file",
        Tokenizer.load(path).encode,
        "word",
    )


@pytest.mark.parametrize(
    ("message", "args"),
    [
        ("kind must be one of bpe, words, characters, but got 'word'; did you mean 'words'?", ("word", TEXTS, 101)),
        (
            "a vocabulary of bpe needs 260 tokens, but got 259; give a larger number",
            ("bpe", TEXTS, 259),
        ),
        ("a vocabulary of words needs 5 tokens, but got 4; give a larger number", ("words", TEXTS, 4)),
        ("texts must be a list, but got one string; put it into a list", ("words", "one text", 101)),
        ("a tokenizer is trained on texts, but these are empty; check the corpus", ("bpe", [], 300)),
        ("a tokenizer is trained on texts, but these are empty; check the corpus", ("words", ["", " \n"], 9)),
        ("a text must be a string, but got a bytes; read the file's text first", ("bpe", [b"bytes"], 300)),
        (
            "a text must be Unicode, but character 2 is half of a surrogate pair; decode it with errors='replace'",
            ("bpe", ["é \ud83d"], 300),
        ),
    ],
)
def test_training_that_does_not_fit(own_errors, message, args):
    raises_misfit(message, Tokenizer.train, *args)


def test_the_smallest_vocabulary_will_do():
    assert Tokenizer.train("bpe", TEXTS, 260).decode(Tokenizer.train("bpe", TEXTS, 260).encode("中")) == "中"
    assert Tokenizer.train("words", ["b a a c"], 5).tokens == [*SPECIAL, "a"]


def test_an_error_in_the_corpus_comes_through(own_errors, tmp_path):
    path = write_file(tmp_path, b"good\n\xff\n")
    raises_misfit(
        f"{path}, line 2: text must be UTF-8, but byte 0xff is not; save the file as UTF-8",
        Tokenizer.train,
        "bpe",
        (line.text for line in read_lines(path)),
        300,
    )


@pytest.mark.parametrize(
    ("message", "method", "arg"),
    [
        (
            "a text must be Unicode, but character 0 is half of a surrogate pair; decode it with errors='replace'",
            "encode",
            "\udfff",
        ),
        ("a text must be a string, but got a NoneType; read the file's text first", "encode", None),
        ("texts must be a list, but got one string; put it into a list", "encode_batch", "text"),
        (
            "the tokenizer has tokens 0 to 282, but got 5 to 283; use the model it was saved with",
            "decode",
            [5, 283, 7],
        ),
        (
            "the tokenizer has tokens 0 to 282, but got -1 to 5; use the model it was saved with",
            "pieces",
            [5, -1],
        ),
    ],
)
def test_what_is_no_text_and_no_token(own_errors, trained, message, method, arg):
    raises_misfit(message, getattr(trained["bpe"], method), arg)


def test_real_text_comes_back():
    lines = [line.text for line in read_lines(require_data("multi30k", "val.fr.gz"))]
    tokenizer = Tokenizer.train("bpe", lines, 1009)
    rows = tokenizer.encode_batch(lines)
    assert [tokenizer.decode(row) for row in rows] == lines
    assert sum(map(len, rows)) < 0.5 * sum(len(line.encode()) for line in lines)
    assert all(re.sub(r"\s", "", "".join(tokenizer.pieces(row))) for row in rows)
