"""GGUF files written by Transom: read back bit by bit, read by transformers, and run by llama.cpp where it is there."""

import json

import pytest
import torch
from models.hugging_face.families import DECODERS, build, transformers
from models.small import assert_misfit, encoder_decoder
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as engines

import transom
from transom import models
from transom.models.gguf import from_gguf, to_gguf
from transom.runner.export_model import export_model
from transom.runner.import_model import import_model
from transom.text import Tokenizer as OwnTokenizer
from transom.text.gguf_tokenizer import LLAMA3, QWEN2, load_gguf_tokenizer
from transom.text.gguf_tokenizer_fields import PROBES, gguf_fields

pytest.importorskip("gguf")
TEXTS = [
    "The cat sat on the mat.",
    "It isn't 1,250 or 12345; it's 3!",
    "two\nlines\n\nand  more   spaces ",
    "naïve Zürich",
]
FITTING = ["gpt2", "llama", "llama tied", "linear scaling", "mistral without a window", "qwen2", "qwen3"]


@pytest.mark.parametrize("name", FITTING)
@torch.no_grad()
def test_a_file_holds_every_bit_of_a_model(name, tmp_path):
    ours = models.from_hugging_face(build(*DECODERS[name]))
    architecture = to_gguf(ours, tmp_path / "model.gguf")
    assert architecture == name.split()[0].replace("linear", "llama").replace("mistral", "llama")
    again = from_gguf(tmp_path / "model.gguf")
    assert all(map(torch.equal, again.parameters(), ours.parameters()))
    tokens = torch.randint(3, 41, (2, 11))
    assert torch.equal(again(tokens), ours(tokens))
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2"])
@torch.no_grad()
def test_transformers_reads_the_file_as_the_same_model(name, tmp_path):
    """Its own reader of GGUF, which knows nothing of ours."""
    pytest.importorskip("accelerate")
    fields = DECODERS[name][1] | (
        {"n_inner": 48} if name == "gpt2" else {}
    )  # it takes four times the width for granted
    theirs = build(DECODERS[name][0], fields)
    to_gguf(models.from_hugging_face(theirs), tmp_path / "model.gguf")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf", dtype=torch.float32)
    tokens = torch.randint(3, 41, (2, 11))
    expected = theirs(tokens).logits
    torch.testing.assert_close(again.eval()(tokens).logits, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_matrices_are_rounded_once_and_norms_are_not(dtype, tmp_path):
    ours = models.from_hugging_face(build(*DECODERS["llama"]))
    to_gguf(ours, tmp_path / "model.gguf", dtype)
    for new, old in zip(from_gguf(tmp_path / "model.gguf").parameters(), ours.parameters(), strict=True):
        assert torch.equal(new, old.to(dtype).float() if old.dim() == 2 else old)


def test_what_llama_cpp_would_compute_otherwise_is_refused(tmp_path):
    def refuse(message, model):
        assert_misfit(message, to_gguf, model, tmp_path / "model.gguf")
        assert not list(tmp_path.iterdir())

    refuse(
        "llama.cpp computes gpt2 with gelu_new, but this model has 'relu'; export it to a folder",
        models.from_hugging_face(build(*DECODERS["gpt2 untied"])),
    )
    for name in ("llama 3 scaling", "yarn scaling"):
        with pytest.raises(transom.Misfit, match=r"scaled by default or linear, but this model's are '(llama3|yarn)'"):
            to_gguf(models.from_hugging_face(build(*DECODERS[name])), tmp_path / "model.gguf")
    refuse(
        "GGUF files of Transom's hold a decoder, but this is an encoder_decoder; export it to a folder",
        encoder_decoder(),
    )
    with pytest.raises(transom.Misfit, match="GGUF files hold llama, qwen2, qwen3, gpt2, but this model is none of"):
        to_gguf(models.from_hugging_face(build(*DECODERS["mistral"])), tmp_path / "model.gguf")


def byte_level(*steps, normalizer=None):
    """Byte-level BPE with the given steps before the bytes are merged."""
    engine = Tokenizer(engines.BPE())
    if normalizer is not None:
        engine.normalizer = normalizer
    engine.pre_tokenizer = pre_tokenizers.Sequence(list(steps))
    engine.decoder = decoders.ByteLevel()
    return engine


def bytes_only(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def sentence_pieces():
    """As Llama 2's: ▁ for a space, unknown characters as bytes, a start token before a text."""
    engine = Tokenizer(engines.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    engine.decoder = decoders.Sequence(steps)
    return engine


# Each rule as the tokenizer.json of a model that has it: GPT-2, SmolLM, Llama 3, Qwen2, Llama 2.
RULES = {
    "gpt-2": lambda: byte_level(bytes_only(True)),
    "smollm": lambda: byte_level(pre_tokenizers.Digits(individual_digits=True), bytes_only(True)),
    "llama-bpe": lambda: byte_level(split(LLAMA3), bytes_only(False)),
    "qwen2": lambda: byte_level(split(QWEN2), bytes_only(False), normalizer=normalizers.NFC()),
    "llama": sentence_pieces,
}


def make_tokenizer(rule, folder):
    """A small tokenizer with such a rule, as files of another library."""
    engine = RULES[rule]()
    by_byte, special = rule == "llama", ["<unk>", "<s>", "</s>"]
    extra = [f"<0x{byte:02X}>" for byte in range(256)] if by_byte else []
    alphabet = [] if by_byte else pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=[*special, *extra], initial_alphabet=alphabet, show_progress=False
    )
    engine.train_from_iterator(TEXTS * 2, trainer)
    engine = Tokenizer.from_str(plain_bytes(engine, extra))
    engine.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    folder.mkdir(parents=True, exist_ok=True)
    engine.save(str(folder / "tokenizer.json"))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "bos_token": "<s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names | {"eos_token": "</s>"}))
    return OwnTokenizer.load(folder / "tokenizer.json")


def plain_bytes(engine, extra):
    """The tokens of bytes are no special ones."""
    content = json.loads(engine.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] not in extra]
    return json.dumps(content)


@pytest.mark.parametrize("rule", RULES)
def test_a_tokenizer_is_described_by_its_rule_and_reads_the_same(rule, tmp_path):
    ours = make_tokenizer(rule, tmp_path)
    fields = gguf_fields(ours, ours.size + 3)
    assert fields is not None
    named = fields["tokenizer.ggml.model"] if rule == "llama" else fields["tokenizer.ggml.pre"]
    assert named == rule
    assert len(fields["tokenizer.ggml.tokens"]) == len(fields["tokenizer.ggml.token_type"]) == ours.size + 3
    again = load_gguf_tokenizer(fields, tmp_path)
    for text in (*PROBES, *TEXTS):
        ids = ours.template.wrap(ours.encode(text))
        assert again.template.wrap(again.encode(text)) == ids
        assert again.decode(ids) == ours.decode(ids)


def test_a_tokenizer_that_no_rule_describes_is_left_out_with_a_note(tmp_path):
    model = models.from_hugging_face(build(*DECODERS["llama"]))
    words = OwnTokenizer.train(
        "words", ["a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5 6 7 8 9 . ,"], 41
    )
    model.save_pretrained(tmp_path / "model", words)
    report = export_model(tmp_path / "model", tmp_path / "model.gguf")
    assert report.files == []
    assert "so the file has none: tokenise with Transom" in report.notes[0]
    assert_misfit(
        f"{tmp_path / 'model.gguf'} should become the exported file, but it is there already; choose a new name",
        export_model,
        tmp_path / "model",
        tmp_path / "model.gguf",
    )


def small_writer(rule, tmp_path):
    """A folder of Transom's: a Llama with random parameters, whose sizes llama.cpp can compute with."""
    tokenizer = make_tokenizer(rule, tmp_path / "theirs")
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    sizes["max_position_embeddings"] = 128
    theirs = build("LlamaForCausalLM", DECODERS["llama"][1] | sizes | {"vocab_size": tokenizer.size})
    theirs.save_pretrained(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    return tmp_path / "ours"


@pytest.mark.parametrize("rule", RULES)
def test_the_file_is_a_model_for_text(rule, tmp_path):
    folder = small_writer(rule, tmp_path)
    report = export_model(folder, tmp_path / "model.gguf")
    assert (report.family, report.files, report.notes) == ("llama", ["in the file"], [])
    ours, again = transom.load(folder), transom.load(tmp_path / "model.gguf")
    assert again.generate(TEXTS, max_new_tokens=7) == ours.generate(TEXTS, max_new_tokens=7)


class LlamaCpp:
    """llama.cpp, by the package cyllama, on one file."""

    def __init__(self, path):
        cy = pytest.importorskip("cyllama.llama.llama_cpp")
        cy.disable_logging()
        cy.llama_backend_init()
        cy.ggml_backend_load_all()
        settings = cy.LlamaContextParams()
        settings.n_ctx, settings.n_batch, settings.n_threads = 128, 128, 1
        settings.type_k = settings.type_v = settings.flash_attn_type = 0  # all in float32
        self.cy, self.model = cy, cy.LlamaModel(str(path), cy.LlamaModelParams())
        self.context, self.vocabulary = cy.LlamaContext(self.model, settings), self.model.get_vocab()

    def encode(self, text):
        return self.vocabulary.tokenize(text, True, False)

    def greedy(self, tokens, count):
        """The tokens, and the likeliest next ones; the package does not hand out logits."""
        sampler, found = self.cy.LlamaSampler(self.cy.LlamaSamplerChainParams()), list(tokens)
        sampler.add_greedy()
        for _ in range(count):
            self.context.kv_cache_clear()
            self.context.decode(self.cy.llama_batch_get_one(found))
            found.append(sampler.sample(self.context, -1))
        return found


@pytest.mark.parametrize("rule", RULES)
@torch.no_grad()
def test_llama_cpp_reads_and_writes_the_same_tokens(rule, tmp_path):
    pytest.importorskip("cyllama")
    folder = small_writer(rule, tmp_path)
    export_model(folder, tmp_path / "model.gguf")
    ours, peer = transom.load(folder), LlamaCpp(tmp_path / "model.gguf")
    for text in (*PROBES[:-1], *TEXTS):  # the last one is of special tokens, which llama.cpp reads when told to
        ids = ours.encode_fitting(text)
        assert peer.encode(text) == ids
    for text in TEXTS:
        ids = ours.encode_fitting(text)[:20]
        assert peer.greedy(ids, 12) == ours.model.generate([ids], max_new_tokens=12, eos_token_id=None)[0].tolist()


@pytest.mark.parametrize("name", ["gpt2", "qwen2", "qwen3", "linear scaling"])
@torch.no_grad()
def test_llama_cpp_computes_the_other_architectures_alike(name, tmp_path):
    """By numbers of tokens: the file has no tokenizer."""
    pytest.importorskip("cyllama")
    sizes = (
        {"n_embd": 64, "n_inner": 96}
        if name == "gpt2"
        else {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96}
    )
    sizes |= {} if name == "gpt2" else {"num_attention_heads": 4}
    ours = models.from_hugging_face(build(DECODERS[name][0], DECODERS[name][1] | sizes))
    to_gguf(ours, tmp_path / "model.gguf", fields={"tokenizer.ggml.model": "none"})
    peer = LlamaCpp(tmp_path / "model.gguf")
    ids = torch.randint(3, 41, (9,)).tolist()
    assert peer.greedy(ids, 12) == ours.generate([ids], max_new_tokens=12, eos_token_id=None)[0].tolist()
