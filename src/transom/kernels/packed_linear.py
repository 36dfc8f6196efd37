"""Matrices packed for the native engine, and the logits that it computes with one of them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transom.kernels.native_library import NativeLibrary, check_code, threads

TopK = tuple[Float[Tensor, "batch any"], Int[Tensor, "batch any"]]


class PackedMatrix:
    """A weight matrix as the engine reads it, and its bias padded with zeros."""

    def __init__(self, engine: NativeLibrary, weight: Float[Tensor, "any any2"], bias: Tensor | None = None) -> None:
        self.native, (self.out_features, self.in_features) = engine.native, weight.shape
        weight = weight.detach().contiguous()
        self.weight = torch.empty(self.native.transom_packed_floats(self.in_features, self.out_features))
        sizes = (self.in_features, self.out_features)
        check_code(self.native.transom_pack_weight(weight.data_ptr(), *sizes, self.weight.data_ptr(), threads()))
        self.bias = torch.zeros(self.native.transom_packed_floats(1, self.out_features))
        if bias is not None:
            self.bias[: self.out_features] = bias.detach()

    def call_args(self, x: Float[Tensor, "rows any"]) -> tuple[int, ...]:
        """The first arguments of a function that multiplies x with the matrix."""
        sizes = (len(x), self.in_features, self.out_features)
        return x.data_ptr(), *sizes, self.weight.data_ptr(), self.bias.data_ptr()


class LazyLogits:
    """Logits that are not computed yet: if only the best are wanted, the others need not be stored."""

    def __init__(self, x: Float[Tensor, "rows d_model"], unembedding: PackedMatrix) -> None:
        self.x, self.unembedding = x, unembedding

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.x), self.unembedding.out_features

    def compute(self) -> Float[Tensor, "rows vocabulary"]:
        """All of them."""
        logits, matrix = torch.empty(self.shape), self.unembedding
        check_code(matrix.native.transom_packed_gemm(*matrix.call_args(self.x), logits.data_ptr(), threads()))
        return logits

    def top_k(self, k: int, lse: Tensor | None = None) -> TopK:
        """The k largest of each row and chunk of the vocabulary, largest first, and their tokens; fills `lse`."""
        matrix, rows = self.unembedding, len(self)
        chunks = matrix.native.transom_vocab_chunks(rows)
        values, tokens = torch.empty(rows, chunks * k), torch.empty(rows, chunks * k, dtype=torch.int64)
        results = values.data_ptr(), tokens.data_ptr(), None if lse is None else lse.data_ptr()
        check_code(matrix.native.transom_vocab_topk(*matrix.call_args(self.x), k, *results, threads()))
        return values, tokens

    def argmax(self) -> Int[Tensor, " rows"]:
        """The largest of each row, the first of equal ones."""
        values, tokens = self.top_k(1)
        return tokens.gather(1, values.argmax(dim=1, keepdim=True))[:, 0]

    def best_continuations(self, scores: Float[Tensor, "batch token"], k: int) -> TopK:
        """For each batch entry the k best of score + log-probability, best first, and their row · vocabulary + token.

        Each entry has `token` rows. If there are fewer than k continuations, −∞ and 0 fill the end.
        """
        rows, batch = len(self), len(scores)
        lse = torch.empty(rows, self.unembedding.native.transom_vocab_chunks(rows))
        values, tokens = self.top_k(k, lse)
        totals = (values - lse.logsumexp(dim=1, keepdim=True)).add_(scores.view(rows, 1)).view(batch, -1)
        row_offsets = torch.arange(rows).remainder_(rows // batch).mul_(self.unembedding.out_features)[:, None]
        best, order = totals.topk(k)
        return best, (tokens + row_offsets).view(batch, -1).gather(1, order)
