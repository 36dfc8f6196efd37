"""Checks of the rows about Transom's own models: settings and generation, beside Hugging Face's."""

import shutil
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import transformers
from coming_from.page_rows import check
from coming_from.small_models import TOKENS, decoder, llama, looking
from torch import Tensor
from torch.nn import functional as F

import transom
from transom.text import Tokenizer

RECIPES = Path(__file__).parents[2] / "recipes"
words = partial(check, "The words", names=looking)
lens = partial(check, "TransformerLens", names=looking)
hugging_face = partial(check, "Hugging Face transformers", names=looking)

# The choices of Llama and of GPT-2 among Transom's.
LLAMA = {"positions": "rotary", "norm": "rms", "arrangement": "pre_norm", "feed_forward": "swiglu", "bias": False}
LLAMA_SIZES = {"vocabulary": 61, "d_model": 30, "d_hidden": 41, "layers": 2, "heads": 6, "kv_heads": 2, "d_head": 10}
GPT2 = {"positions": "learned", "arrangement": "pre_norm", "feed_forward": "gelu", "initial": "gpt2", "scaled": False}
GPT2_SIZES = {"vocabulary": 61, "layers": 2, "heads": 3, "d_model": 12, "d_hidden": 48, "longest": 29}


def our_count(**settings: Any) -> int:
    return transom.models.Decoder(transom.models.DecoderConfig(**settings)).count()


@cache
def gpt2_count(**changes: int) -> int:
    sizes = {"vocab_size": 61, "n_layer": 2, "n_head": 3, "n_embd": 12, "n_positions": 29}
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | ends | changes)).num_parameters()


@lens("cfg.n_layers, n_heads, n_key_value_heads, d_model, d_head, d_mlp, d_vocab, n_ctx")
def check_sizes(settings: dict[str, Any]) -> None:
    """Sizes that are all different: a swapped one would give another number of parameters."""
    assert our_count(**settings, **LLAMA, tying="none") == llama().num_parameters()


@hugging_face(
    "hidden_size, n_embd",
    "num_attention_heads, n_head",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size, n_inner",
    "num_hidden_layers, n_layer",
    "vocab_size",
    "tie_word_embeddings",
)
def check_setting(setting: dict[str, Any]) -> None:
    """The setting of the row is the small Llama's, and with all of them the number of parameters is its."""
    sizes = LLAMA_SIZES | {"tying": "none"}
    assert setting.items() <= sizes.items()
    assert our_count(**sizes, **LLAMA) == llama().num_parameters()
    assert our_count(**LLAMA_SIZES, **LLAMA) == llama().num_parameters() - 61 * 30  # tied by default


@words("context length, n_ctx, n_positions")
@hugging_face("max_position_embeddings, n_positions")
def check_longest(setting: dict[str, int]) -> None:
    assert setting == {"longest": 29}
    changed = our_count(**GPT2, **GPT2_SIZES | {"longest": 31}) - our_count(**GPT2, **GPT2_SIZES | setting)
    assert changed == gpt2_count(n_positions=31) - gpt2_count(n_positions=29) == 2 * 12


@words("MLP size, d_ff, d_mlp")
def check_d_hidden(setting: dict[str, int]) -> None:
    assert setting["d_hidden"] == decoder().config.d_hidden


@lens("generate(do_sample=True)")
@hugging_face("set_seed(1) before sampling")
def check_sampling(sequences: Tensor) -> None:
    """A seed repeats; row i of a batch is drawn from seed + i, as if it were alone; without sampling, the likeliest."""
    pair = TOKENS.expand(2, -1)
    drawn = partial(decoder().generate, max_new_tokens=5, do_sample=True)
    assert torch.equal(drawn(TOKENS, seed=1), sequences)
    assert torch.equal(drawn(pair, seed=0)[1:], sequences)
    assert not torch.equal(decoder().generate(TOKENS, max_new_tokens=5), sequences)


@hugging_face("save_pretrained, from_pretrained")
def check_folder(saved: object, loaded: Any) -> None:
    with torch.no_grad():
        assert torch.equal(loaded.eval()(TOKENS), decoder()(TOKENS))


@hugging_face("attention_mask")
def check_mask(out: Tensor) -> None:
    padded = F.pad(TOKENS, (0, 2))
    with torch.no_grad():
        torch.testing.assert_close(decoder()(padded, real=padded != 0)[:, :7], out, atol=1e-5, rtol=1e-5)
    asked = {"max_new_tokens": 3, "eos_token_id": None}
    masked = decoder().generate(padded, attention_mask=(padded != 0).long(), **asked)
    assert torch.equal(masked[:, 9:], decoder().generate(TOKENS, **asked)[:, 7:])


@hugging_face("past_key_values, DynamicCache()")
def check_cache(cache: Any) -> None:
    with torch.no_grad():
        steps = [decoder()(one, cache=cache) for one in TOKENS.split(3, dim=1)]
        torch.testing.assert_close(torch.cat(steps, dim=1), decoder()(TOKENS), atol=1e-5, rtol=1e-5)


@hugging_face("generate(max_new_tokens, num_beams, top_p, …)")
def check_generate(sequences: Tensor) -> None:
    """Every setting is one of Hugging Face's; those whose defaults differ are the ones that the row names."""
    assert sequences.shape[1] <= 12
    ours = msgspec.structs.asdict(transom.models.GenerationConfig())
    theirs = transformers.GenerationConfig()
    assert not [name for name in ours if not hasattr(theirs, name)]
    usual = theirs._get_default_generation_params()
    assert (usual["max_length"], usual["top_k"], ours["top_k"]) == (20, 50, None)
    assert ours["num_beams"] == usual["num_beams"]
    assert decoder(longest=13).generate(TOKENS, eos_token_id=None).shape[1] == 13
    with pytest.warns(UserWarning, match="do_sample"):
        decoder().generate(TOKENS, max_new_tokens=2, top_p=0.9)


@hugging_face("streamer=TextStreamer(tokenizer)")
def check_streamer(sequences: Tensor) -> None:
    heard = []
    decoder().generate(TOKENS, max_new_tokens=5, streamer=lambda row, token: heard.append((row, token)))
    assert heard == [(0, token) for token in sequences[0, 7:].tolist()]


@hugging_face("sequences_scores")
def check_sequence_scores(found: Any) -> None:
    """The mean log-probability of what was written, which is what a length penalty of 1 makes of the sum."""
    assert found.scores.shape == (1,)
    with torch.no_grad():
        chances = decoder()(found.sequences[:, :-1]).log_softmax(-1)
    each = chances.gather(2, found.sequences[:, 1:, None])[0, 6:, 0]
    torch.testing.assert_close(found.scores[0], each.mean(), atol=1e-4, rtol=1e-4)


def tokenizer_file() -> dict[str, Any]:
    """Names with a tokenizer's file in the present folder, as Hugging Face writes it."""
    ours = Tokenizer.train("words", ["the old cat sees the old cat run"], 60)
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=ours.engine, **special).save_pretrained("theirs")
    shutil.copy("theirs/tokenizer.json", "tokenizer.json")
    return looking()


@hugging_face("tokenizer.json, AutoTokenizer", names=tokenizer_file)
def check_tokenizer(tokenizer: Any) -> None:
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file="tokenizer.json")
    assert tokenizer.encode("the cat sees") == theirs("the cat sees", add_special_tokens=False)["input_ids"]


@hugging_face('pipeline("translation"), "text-generation", "text-classification"')
def check_commands(*commands: list[str]) -> None:
    assert [words[0] for words in commands] == ["translate", "generate", "classify"]


@check("nanoGPT", "python train.py config/train_shakespeare_char.py", 'init_from="resume", ckpt.pt', names=looking)
@check("nanoGPT", "estimate_loss()", names=looking)
@hugging_face("Trainer")
def check_recipe(command: list[str]) -> None:
    name, recipe = command
    assert name in ("train", "evaluate")
    assert (RECIPES.parent / recipe).is_file()
