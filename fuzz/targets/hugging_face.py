"""Hugging Face folders: their JSON files and headers damaged; what loads reads a text and writes a token."""

import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch

from fuzz.mutations import damage_bytes, damage_data, damage_json, join_tensors, split_tensors
from transom.runner import load_text_model
from transom.text.tokenizer import Tokenizer

SIZES: dict[str, Any] = {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 7}


def prepare(folder: Path) -> tuple[Path, dict[str, bytes]]:
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    tokenizer = Tokenizer.train("words", ["the cat sat", "a dog saw the cat"], 20)
    named = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    theirs: Any = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer.engine, model_max_length=29, **named)
    config = transformers.LlamaConfig(vocab_size=tokenizer.size, num_key_value_heads=1, head_dim=2, **SIZES)
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "sample")
    theirs.save_pretrained(folder / "sample")
    files = {path.name: path.read_bytes() for path in sorted((folder / "sample").iterdir())}
    return folder / "model", files


def try_input(state: tuple[Path, dict[str, bytes]], rng: random.Random) -> str:
    folder, files = state[0], dict(state[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    name = rng.choice(sorted(files))
    files[name] = damage_json(files[name], rng) if name.endswith(".json") else damage_numbers(files[name], rng)
    for one, content in files.items():
        (folder / one).write_bytes(content)
    model = load_text_model(str(folder))
    model.run(model.encode_text("the cat"))
    if model.kind == "decoder":
        model.decode(model.continue_tokens([1], 1))
    return "loaded"


def damage_numbers(content: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return damage_bytes(content, rng)
    header, numbers = split_tensors(content)
    return join_tensors(damage_data(header, rng), numbers)
