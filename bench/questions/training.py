"""How fast does a translator train, beside nn.Transformer, Hugging Face's Marian and JoeyNMT of the same size?

Training steps on the same batches, each contender in a process that ends with its turn: `tiny` (4+4 layers, d_model
128), 256 pairs of 16 tokens, a vocabulary of 9,712, label smoothing, clipping, Adam. `nn.Transformer` is used as its
documentation shows: whole logits, nn.CrossEntropyLoss, its own masks. JoeyNMT's step is its own, in the environment of
the peers (`make bench-peers`). The matrix products alone show the limit of the machine. Then the same with matrix
products in bfloat16 by autocast (Transom's `train.precision`), which are compared with each other.

    python -m bench training [--json] [--quick] [--threads N]
"""

import math
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench.measuring.instruments import MiB, machine_info, note, print_answer
from bench.measuring.timing import Work, measure_interleaved, unsteady_contenders
from bench.peers.contender_process import ContenderProcess
from bench.peers.environment import PeerUnavailable, module_contender, peer_version, question_contender, require_peer
from transom.kernels.linear_cross_entropy import linear_cross_entropy
from transom.models import PRESETS, EncoderDecoder
from transom.training.optimizers import build_optimizer

VOCABULARY, PADDING = 9_712, 0
BARS = {"nn.Transformer": 2.5, "Marian": 2.0}
LOW = ", bfloat16"
IN_QUICK = ("Transom", "nn.Transformer", "Marian")


def random_tokens(rows: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    source, target, following = (torch.randint(4, VOCABULARY, (rows, length)) for _ in range(3))
    return source, target, following


def prepare_step(model: nn.Module, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer, low: bool) -> Work:
    """A training step; `low` computes the loss in bfloat16 by autocast."""
    model.train()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            total = loss()
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def prepare_transom(rows: int, length: int, low: bool = False) -> Work:
    model = EncoderDecoder(PRESETS["tiny"](VOCABULARY))  # pyright: ignore[reportArgumentType]
    source, target, following = random_tokens(rows, length)

    def loss() -> Tensor:
        hidden = model.hidden(source, target, source != PADDING).flatten(0, 1)
        total, count = linear_cross_entropy(hidden, model.unembedding, following.flatten(), PADDING, 0.1)
        return total / count

    return prepare_step(model, loss, build_optimizer(model, "adam", 1e-3, 0.0, betas=(0.9, 0.98), eps=1e-9), low)


class DocumentedTransformer(nn.Module):
    """A translator around nn.Transformer, as in its documentation and tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 128, padding_idx=PADDING)
        self.transformer = nn.Transformer(128, 4, 4, 4, 256, 0.3, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.register_buffer("waves", torch.randn(1, 512, 128))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=mask,
            src_key_padding_mask=source == PADDING,
            tgt_key_padding_mask=target == PADDING,
            memory_key_padding_mask=source == PADDING,
        )
        return hidden @ self.embedding.weight.T

    def embed(self, x: Tensor) -> Tensor:
        waves = self.get_buffer("waves")[:, : x.shape[1]]
        return self.dropout(self.embedding(x) * math.sqrt(128) + waves)


def prepare_nn_transformer(rows: int, length: int, low: bool = False) -> Work:
    model, criterion = DocumentedTransformer(), nn.CrossEntropyLoss(ignore_index=PADDING, label_smoothing=0.1)
    source, target, following = random_tokens(rows, length)

    def loss() -> Tensor:
        return criterion(model(source, target).flatten(0, 1), following.flatten())

    return prepare_step(model, loss, torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9), low)


def prepare_marian(rows: int, length: int, low: bool = False) -> Work:
    """A step of Hugging Face's Marian as in its Trainer: AdamW, given labels, its formula of label smoothing."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=128, encoder_layers=4, decoder_layers=4, encoder_ffn_dim=256,
        decoder_ffn_dim=256, encoder_attention_heads=4, decoder_attention_heads=4, dropout=0.3, pad_token_id=PADDING,
        decoder_start_token_id=1, eos_token_id=2, forced_eos_token_id=None, max_position_embeddings=512,
    )  # fmt: skip
    model = MarianMTModel(config)
    source, target, following = random_tokens(rows, length)
    criterion = nn.CrossEntropyLoss(ignore_index=PADDING, label_smoothing=0.1)

    def loss() -> Tensor:
        found = model(input_ids=source, attention_mask=(source != PADDING).long(), decoder_input_ids=target)
        return criterion(found.logits.flatten(0, 1), following.flatten())

    return prepare_step(model, loss, torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9), low)


def prepare_products(rows: int, length: int, low: bool = False) -> Work:
    """Only the matrix products of a step, forward and backward: no implementation can avoid them."""
    count, d, hidden = rows * length, 128, 256
    shapes = [(count, d, d)] * (4 * 4 + 4 * 8) + [(count, d, hidden), (count, hidden, d)] * 8 + [(count, d, VOCABULARY)]
    dtype = torch.bfloat16 if low else torch.float32
    inputs = {shape: (torch.randn(shape[:2]).to(dtype), torch.randn(shape[1:]).to(dtype)) for shape in set(shapes)}
    out = {shape: torch.randn(shape[0], shape[2]).to(dtype) for shape in set(shapes)}

    def work() -> None:
        for shape in shapes:
            x, W = inputs[shape]
            torch.mm(x, W)
            torch.mm(out[shape], W.T)
            torch.mm(x.T, out[shape])

    return work


FLOAT32_CONTENDERS = {
    "Transom": prepare_transom,
    "nn.Transformer": prepare_nn_transformer,
    "Marian": prepare_marian,
    "matrix products": prepare_products,
}
CONTENDERS: Mapping[str, Callable[[int, int], Work]] = FLOAT32_CONTENDERS | {
    f"{name}{LOW}": partial(make, low=True) for name, make in FLOAT32_CONTENDERS.items()
}


def transom_beside(name: str) -> str:
    """The Transom that a contender is compared with: the one of the same precision."""
    return f"Transom{LOW}" if name.endswith(LOW) else "Transom"


def prepare(name: str, rows: int, length: int) -> Work:
    """A contender of this interpreter, for a process of its own."""
    return CONTENDERS[name](rows, length)


def build_contenders(rows: int, length: int, options: Namespace) -> tuple[dict[str, ContenderProcess], dict[str, str]]:
    """All contenders as processes; and why some are left out."""
    names = IN_QUICK if options.quick else tuple(CONTENDERS)
    found = {name: question_contender(__name__, [name, rows, length], options.threads) for name in names}
    try:
        if options.quick:
            raise PeerUnavailable("left out of a quick run")
        require_peer("JoeyNMT")
    except PeerUnavailable as reason:
        note(f"JoeyNMT is left out: {reason}")
        return found, {"JoeyNMT": str(reason)}
    sizes = {"rows": rows, "length": length, "vocabulary": VOCABULARY, "threads": options.threads}
    return found | {"JoeyNMT": module_contender("joeynmt_training", sizes)}, {}


def run(options: Namespace) -> int:
    """Measure and print; the exit code is 1 if a bar is missed."""
    rows, length = (32, 16) if options.quick else (256, 16)
    contenders, missing = build_contenders(rows, length, options)
    note(f"{rows} pairs of {length} tokens, {len(contenders)} processes in turn, twice …")
    times = measure_interleaved(contenders, 4 if options.quick else 12, 10 if options.quick else 120, missing)
    result = to_result(times, missing, rows, length)
    print_answer(options, result, render_table(result))
    met = all(result["ratio"].get(name, 0) >= bar for name, bar in BARS.items())
    return 0 if met or options.quick else 1  # the bars are for the whole size


def to_result(times: dict[str, dict[str, Any]], missing: dict[str, str], rows: int, length: int) -> dict[str, Any]:
    peers = [name for name in times if not name.startswith(("Transom", "matrix products"))]
    return {
        "machine": machine_info(),
        "batch": [rows, length],
        "milliseconds": {name: 1e3 * time["best"] for name, time in times.items()},
        "ratio": {name: time["best"] / times[transom_beside(name)]["best"] for name, time in times.items()},
        "median_ratio": {name: time["median"] / times[transom_beside(name)]["median"] for name, time in times.items()},
        "targets_a_second": {name: rows * length / time["best"] for name, time in times.items()},
        "peak_MiB": {name: time["peak"] / MiB for name, time in times.items()},
        "unsteady": unsteady_contenders(times),
        "unsteady_peaks": unsteady_contenders(times, "peaks"),
        "not run": missing,
        "versions": {name: peer_version(name.removesuffix(LOW)) for name in peers},
        "bars": BARS,
    }


def render_table(result: dict[str, Any]) -> str:
    lines = [f"{'':<26}{'ms a step':>10}{'÷ Transom':>18}{'targets/s':>12}{'peak MiB':>10}{'bar':>6}"]
    for name in result["milliseconds"]:
        ratio = f"{result['ratio'][name]:.2f} ({result['median_ratio'][name]:.2f})"
        lines.append(
            f"{name:<26}{result['milliseconds'][name]:>10.0f}{ratio:>18}{result['targets_a_second'][name]:>12,.0f}"
            f"{result['peak_MiB'][name]:>10.0f}{result['bars'].get(name, ''):>6}"
        )
    return "\n".join(lines)
