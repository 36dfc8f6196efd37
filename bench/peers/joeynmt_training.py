"""JoeyNMT's training step, in an interpreter that has it: what `bench training` compares with Transom's.

    python -m bench.peers.joeynmt_training '{"rows": 256, "length": 16, "vocabulary": 9712, "threads": 2}'

then answers requests (see `contender_loop`). The step is that of its TrainManager: loss with label smoothing,
normalised by tokens, gradients clipped, Adam.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch

from bench.peers.contender_loop import Work, answer_requests

UNKNOWN, PADDING, START, END = 0, 1, 2, 3


def build_translator(vocabulary: int) -> Any:
    """The preset `tiny`, built by JoeyNMT from a config: all embeddings shared, post-norm."""
    from joeynmt.model import build_model  # pyright: ignore[reportMissingImports]
    from joeynmt.vocabulary import Vocabulary  # pyright: ignore[reportMissingImports]

    special = {"unk": UNKNOWN, "pad": PADDING, "bos": START, "eos": END}
    words = SimpleNamespace(
        **{f"{name}_token": f"<{name}>" for name in special},
        **{f"{name}_id": number for name, number in special.items()},
        sep_token=None, sep_id=None, lang_tags=[],
    )  # fmt: skip
    shared = Vocabulary([f"t{number}" for number in range(vocabulary - len(special))], words)
    side = {
        "type": "transformer", "num_layers": 4, "num_heads": 4, "hidden_size": 128, "ff_size": 256, "dropout": 0.3,
        "layer_norm": "post", "embeddings": {"embedding_dim": 128, "scale": True, "dropout": 0.3},
    }  # fmt: skip
    settings = {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}
    model = build_model(
        {**settings, "initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}, shared, shared
    )
    model.loss_function = ("crossentropy", 0.1)
    return model


def prepare_step(rows: int, length: int, vocabulary: int) -> Work:
    from joeynmt.builders import build_gradient_clipper, build_optimizer  # pyright: ignore[reportMissingImports]

    torch.manual_seed(0)
    model = build_translator(vocabulary).train()
    source, target, following = (torch.randint(4, vocabulary, (rows, length)) for _ in range(3))
    optimizer = build_optimizer(
        {"optimizer": "adam", "learning_rate": 1e-3, "adam_betas": (0.9, 0.98)}, model.parameters()
    )
    clip = build_gradient_clipper({"clip_grad_norm": 1.0, "clip_grad_val": None})
    batch = {
        "src": source, "src_mask": (source != PADDING).unsqueeze(1), "src_length": torch.full((rows,), length),
        "trg_input": target, "trg": following, "trg_mask": (following != PADDING).unsqueeze(1),
    }  # fmt: skip

    def work() -> None:
        loss, _, _, _ = model(return_type="loss", **batch)
        (loss / (rows * length)).backward()
        clip(parameters=model.parameters())
        optimizer.step()
        model.zero_grad()

    return work


if __name__ == "__main__":
    sizes = json.loads(sys.argv[1])
    torch.set_num_threads(sizes["threads"])
    prepared = prepare_step(sizes["rows"], sizes["length"], sizes["vocabulary"])
    answer_requests(prepared)
