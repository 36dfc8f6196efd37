"""Text: tokenizers, corpora, batches and word vectors; every file is checked before it is used."""

from transom.files.untrusted_files import Limits
from transom.text.batches import LengthFilter, Ragged, batches, block_count, block_starts, filter_by_length, pad_rows
from transom.text.corpora import (
    FORMATS,
    Labelled,
    Line,
    Pair,
    read_csv,
    read_document,
    read_jsonl,
    read_labelled,
    read_lines,
    read_parallel,
    read_parquet,
    read_tsv,
)
from transom.text.holdout_split import split_examples
from transom.text.tokenizer import KINDS, Tokenizer
from transom.text.word_vectors import VECTOR_FORMATS, Coverage, WordVectors, word_vectors

__all__ = [
    "FORMATS",
    "KINDS",
    "VECTOR_FORMATS",
    "Coverage",
    "Labelled",
    "LengthFilter",
    "Limits",
    "Line",
    "Pair",
    "Ragged",
    "Tokenizer",
    "WordVectors",
    "batches",
    "block_count",
    "block_starts",
    "filter_by_length",
    "pad_rows",
    "read_csv",
    "read_document",
    "read_jsonl",
    "read_labelled",
    "read_lines",
    "read_parallel",
    "read_parquet",
    "read_tsv",
    "split_examples",
    "word_vectors",
]
