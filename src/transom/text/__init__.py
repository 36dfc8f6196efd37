"""Text: tokenizers, corpora, batches and word vectors; what comes from outside is checked before it is believed."""

from transom.files.outside import Limits
from transom.text.batches import Fitting, batches, block_count, block_starts, fitting, padded
from transom.text.corpora import (
    FORMATS,
    read_document,
    read_jsonl,
    read_labelled,
    read_lines,
    read_parallel,
    read_tsv,
)
from transom.text.examples import Labelled, Line, Pair
from transom.text.held_out import split
from transom.text.kinds import KINDS
from transom.text.ragged import Ragged
from transom.text.tokenizer import Tokenizer
from transom.text.vector_files import VECTOR_FORMATS
from transom.text.vectors import Coverage, WordVectors, word_vectors

__all__ = [
    "FORMATS",
    "KINDS",
    "VECTOR_FORMATS",
    "Coverage",
    "Fitting",
    "Labelled",
    "Limits",
    "Line",
    "Pair",
    "Ragged",
    "Tokenizer",
    "WordVectors",
    "batches",
    "block_count",
    "block_starts",
    "fitting",
    "padded",
    "read_document",
    "read_jsonl",
    "read_labelled",
    "read_lines",
    "read_parallel",
    "read_tsv",
    "split",
    "word_vectors",
]
