"""Matrices laid out for the native engine, and what it does with one of them."""

import ctypes
from ctypes import c_int, c_int64, c_void_p
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels import library
from transom.kernels.library import Engine

Found = tuple[Float[Tensor, "batch any"], Int[Tensor, "batch any"]]


@cache
def prepared(engine: Engine) -> ctypes.CDLL:
    """The library with the types of its functions for writing."""
    matrix = (c_void_p, *[c_int64] * 3, c_void_p, c_void_p)  # X, its rows, inputs and outputs, the matrix and its shift
    signatures = {
        "packed_numbers": (c_int64, c_int64, c_int64),
        "pack": (c_int, c_void_p, c_int64, c_int64, c_void_p, c_int),
        "step": (c_int, c_void_p, c_int),
        "product": (c_int, *matrix, c_void_p, c_int),
        "chunks": (c_int64, c_int64),
        "foremost": (c_int, *matrix, c_int64, c_void_p, c_void_p, c_void_p, c_int),
    }
    for name, (gives, *takes) in signatures.items():
        function = getattr(engine.native, f"transom_{name}")
        function.restype, function.argtypes = gives, takes
    return engine.native


def done(code: int) -> None:
    """Complain if the library says that it could not."""
    if code != 0:
        raise MemoryError("the native engine ran out of memory")


class Packed:
    """A matrix as products take it, and its bias filled up with zeros."""

    def __init__(self, engine: Engine, weight: Float[Tensor, "any any2"], bias: Tensor | None = None) -> None:
        self.native, (self.outputs, self.inputs) = prepared(engine), weight.shape
        weight = weight.detach().contiguous()
        self.matrix = torch.empty(self.native.transom_packed_numbers(self.inputs, self.outputs))
        to = self.matrix.data_ptr()
        done(self.native.transom_pack(weight.data_ptr(), self.inputs, self.outputs, to, library.threads()))
        self.shift = torch.zeros(self.native.transom_packed_numbers(1, self.outputs))
        if bias is not None:
            self.shift[: self.outputs] = bias.detach()

    def given(self, x: Float[Tensor, "rows any"]) -> tuple[int, ...]:
        """The arguments that say what is multiplied with what."""
        return x.data_ptr(), len(x), self.inputs, self.outputs, self.matrix.data_ptr(), self.shift.data_ptr()


class Ahead:
    """Logits that are not worked out yet: whoever wants only the best of them need not have them written down."""

    def __init__(self, x: Float[Tensor, "rows d_model"], unembedding: Packed) -> None:
        self.x, self.unembedding = x, unembedding

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.x), self.unembedding.outputs

    def whole(self) -> Float[Tensor, "rows vocabulary"]:
        """All of them."""
        logits, by = torch.empty(self.shape), self.unembedding
        done(by.native.transom_product(*by.given(self.x), logits.data_ptr(), library.threads()))
        return logits

    def foremost(self, k: int, lse: Tensor | None = None) -> Found:
        """The k largest of each row and chunk of the vocabulary, largest first, and their tokens."""
        by, rows = self.unembedding, len(self)
        chunks = by.native.transom_chunks(rows)
        values, tokens = torch.empty(rows, chunks * k), torch.empty(rows, chunks * k, dtype=torch.int64)
        sums = None if lse is None else lse.data_ptr()
        to = values.data_ptr(), tokens.data_ptr(), sums
        done(by.native.transom_foremost(*by.given(self.x), k, *to, library.threads()))
        return values, tokens

    def likeliest(self) -> Int[Tensor, " rows"]:
        """The largest of each row, the first where several are."""
        values, tokens = self.foremost(1)
        return tokens.gather(1, values.argmax(dim=1, keepdim=True))[:, 0]

    def continued(self, scores: Float[Tensor, "batch token"], k: int) -> Found:
        """For each batch entry the k best of score + log-probability, best first, and where: row · vocabulary + token.

        There are `token` rows for each entry. Where there are fewer than k in all, −∞ at place 0 fills up.
        """
        rows, batch = len(self), len(scores)
        lse = torch.empty(rows, self.unembedding.native.transom_chunks(rows))
        values, tokens = self.foremost(k, lse)
        found = (values - lse.logsumexp(dim=1, keepdim=True)).add_(scores.view(rows, 1)).view(batch, -1)
        first = torch.arange(rows).remainder_(rows // batch).mul_(self.unembedding.outputs)[:, None]
        best, order = found.topk(k)
        return best, (tokens + first).view(batch, -1).gather(1, order)
