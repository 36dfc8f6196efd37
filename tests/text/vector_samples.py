"""The same word vectors in every format."""

import struct

import numpy as np

WORDS = ["the", "The", "chat", "déjà", "😀", ",", "<unk>", "10", "new-york", "a", "of"]
NUMBERS = np.random.default_rng(3).normal(0.5, 2.0, size=(len(WORDS), 7)).astype(np.float32)
KNOWN = dict(zip(WORDS, NUMBERS, strict=True))


def text_row(word, numbers, end=b"\n"):
    return word.encode() + b" " + " ".join(repr(float(number)) for number in numbers).encode() + end


def glove():
    return b"".join(text_row(*row) for row in KNOWN.items())


def word2vec():
    return f"{len(KNOWN)} 7\n".encode() + glove()


def fasttext_vec():
    return f"{len(KNOWN)} 7\n".encode() + b"".join(text_row(*row, end=b" \n") for row in KNOWN.items())


def windows():
    return word2vec().replace(b"\n", b"\r\n")


def binary(end=b"\n"):
    rows = (word.encode() + b" " + struct.pack("<7f", *numbers) + end for word, numbers in KNOWN.items())
    return f"{len(KNOWN)} 7\n".encode() + b"".join(rows)


FILES = {
    "GloVe": glove(),
    "word2vec text": word2vec(),
    "fastText .vec": fasttext_vec(),
    "with other line ends": windows(),
    "word2vec binary": binary(),
    "gensim's binary": binary(end=b""),
}
