"""Models with their tokenizers, in and out: the same tokens and texts as transformers gives, and nothing lost."""

import json

import pytest
import torch
from models.hugging_face.families import DECODERS, ENCODER_DECODERS, ENCODERS, assert_same_tensors, build, transformers
from models.small import assert_misfit, decoder, encoder_decoder
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as engines

import transom
from transom.runner import load_text_model
from transom.runner.export_model import export_model
from transom.runner.import_model import import_model
from transom.text import Tokenizer as OwnTokenizer
from transom.text.gguf_tokenizer_fields import PROBES

TEXTS = [
    "The cat sat on the mat.",
    "Where is the dog? It isn't here!",
    "It costs 1,250 in Zürich – naïve, isn't it?",
    "two\nlines and a\ttab",
]
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]


def train(engine, kind=trainers.BpeTrainer, special=SPECIAL, **settings):
    trainer = kind(vocab_size=83, special_tokens=special, show_progress=False, **settings)
    engine.train_from_iterator([*TEXTS, *TEXTS], trainer)
    return engine


def around(engine, single, *names):
    engine.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(name, engine.token_to_id(name)) for name in names]
    )
    return engine


def byte_level():
    """As GPT-2's: bytes, nothing around a text."""
    engine = Tokenizer(engines.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    train(engine, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return engine, {"eos_token": "</s>", "bos_token": "</s>"}


def with_start():
    """As Llama's: ▁ for a space, unknown characters as bytes, a start token before a text."""
    engine = Tokenizer(engines.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    engine.decoder = decoders.Sequence(steps)
    train(engine, special=[*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(13))])
    return around(engine, "<s> $A", "<s>"), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def word_pieces():
    """As BERT's: lower case, [CLS] before a text and [SEP] after it."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    engine = Tokenizer(engines.WordPiece(unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    train(engine, trainers.WordPieceTrainer, special)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    settings = {**names, "clean_up_tokenization_spaces": True}
    return around(engine, "[CLS] $A [SEP]", "[CLS]", "[SEP]"), settings


def unigram():
    """As T5's: a probability for each piece, an end after a text."""
    engine = Tokenizer(engines.Unigram())
    engine.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.decoder = decoders.Metaspace()
    train(engine, trainers.UnigramTrainer, unk_token="<unk>")
    settings = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return around(engine, "$A </s>", "</s>"), settings


MODELS = {
    "gpt2": (byte_level, DECODERS["gpt2"]),
    "llama": (with_start, DECODERS["llama"]),
    "qwen3": (byte_level, DECODERS["qwen3"]),
    "bert": (word_pieces, ENCODERS["bert with labels"]),
    "distilbert": (word_pieces, ENCODERS["distilbert with labels"]),
    "marian": (unigram, ENCODER_DECODERS["marian"]),
    "pegasus": (unigram, ENCODER_DECODERS["pegasus"]),
    "t5": (unigram, ENCODER_DECODERS["t5"]),
}


def save(name, folder, **settings):
    """A small model of transformers with a tokenizer, as a folder."""
    make, (class_name, fields) = MODELS[name]
    engine, named = make()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=engine, **named, **settings)
    size = max(engine.get_vocab().values()) + 3  # more rows than tokens, as T5 has
    longest = {key: 211 for key in ("max_position_embeddings", "n_positions") if key in fields}
    model = build(class_name, fields | longest | {"vocab_size": size})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(params=MODELS)
def source(request, tmp_path):
    return save(request.param, tmp_path / "theirs")


def use(model, texts):
    """What a model makes of texts: labels, translations, continuations."""
    if model.kind == "encoder":
        return [result.label for result in model.classify(texts)]
    if model.kind == "decoder":
        return model.generate(texts, max_new_tokens=7)
    return model.translate(texts, beams=2, max_new_tokens=7)


def test_an_imported_folder_reads_and_writes_as_the_source_and_goes_out_as_it_came(source, tmp_path):
    report = import_model(source, tmp_path / "ours")
    assert report.notes == []
    ours, theirs = transom.load(tmp_path / "ours"), transom.load(source)
    assert (ours.origin, theirs.origin, ours.kind) == ("transom", "hf", theirs.kind)
    for text in (*PROBES, *TEXTS):
        assert ours.encode_fitting(text) == theirs.encode_fitting(text)
    assert use(ours, TEXTS) == use(theirs, TEXTS)
    export_model(tmp_path / "ours", tmp_path / "again")
    for file in report.files:
        assert (tmp_path / "again" / file).read_bytes() == (source / file).read_bytes()
    again = transom.load(tmp_path / "again")
    assert again.encode_fitting(TEXTS[2]) == theirs.encode_fitting(TEXTS[2])
    assert_same_tensors(again.model, theirs.model)


OWN = {
    "bpe": decoder,
    "words": encoder_decoder,
    "characters": encoder_decoder,
}


@pytest.mark.parametrize("kind", OWN)
def test_an_exported_model_of_our_own_writes_the_same_in_transformers(kind, tmp_path):
    torch.manual_seed(73)
    tokenizer = OwnTokenizer.train(kind, TEXTS, 283)
    parts = {"positions": "learned", "arrangement": "pre_norm"} if kind == "bpe" else {}
    OWN[kind](vocabulary=tokenizer.size, longest=211, **parts).save_pretrained(tmp_path / "ours", tokenizer)
    export_model(tmp_path / "ours", tmp_path / "theirs")
    ours, theirs = transom.load(tmp_path / "ours"), transom.load(tmp_path / "theirs")
    for text in (*TEXTS, "<s> is text"):
        assert theirs.encode_fitting(text) == ours.encode_fitting(text)
    assert use(theirs, TEXTS) == use(ours, TEXTS)


def test_capitals_as_marks_are_said_and_come_back(tmp_path):
    report = export_model(None, tmp_path / "theirs")
    assert report.notes[1:] == [
        "the tokenizer writes capitals as marks, and tokenizer.json cannot say how: pass text through"
        " transom.text.case_marks.mark_case before it, and through restore_case after it"
    ]
    import_model(tmp_path / "theirs", tmp_path / "ours")
    texts = ["Where is Tom?", "HELP!"]
    assert transom.load(tmp_path / "ours").translate(texts) == transom.load().translate(texts)


def test_a_chat_template_is_kept_as_it_is_and_said(tmp_path):
    template = "{% for message in messages %}<s>{{ message.content }}</s>{% endfor %}"
    source = save("llama", tmp_path / "theirs", chat_template=template)
    report = import_model(source, tmp_path / "ours")
    assert report.notes == [
        "the chat template is kept, and goes out again by transom export; Transom itself does not apply it"
    ]
    assert [load_text_model(str(folder)).chat_template for folder in (source, tmp_path / "ours")] == [template] * 2
    export_model(tmp_path / "ours", tmp_path / "again")
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "again").chat_template == template


def test_numbers_stay_in_their_dtype(tmp_path):
    source = save("gpt2", tmp_path / "theirs")
    transformers.AutoModelForCausalLM.from_pretrained(source).to(torch.bfloat16).save_pretrained(source)
    assert import_model(source, tmp_path / "ours").dtype == "bfloat16"
    assert import_model(source, tmp_path / "wide", "float32").dtype == "float32"
    found = [transom.models.from_pretrained(tmp_path / name, torch.float32) for name in ("ours", "wide")]
    assert all(map(torch.equal, *(model.parameters() for model in found)))


def test_a_tokenizer_that_transformers_reads_otherwise_is_taken_as_it_reads_it(tmp_path):
    source = save("gpt2", tmp_path / "theirs")
    path = source / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mask_token": "[MASK]"}))
    report = import_model(source, tmp_path / "ours")
    assert report.notes == [
        "its tokenizer.json alone reads text otherwise: the tokenizer is as transformers makes it (TokenizersBackend)"
    ]
    ours, theirs = transom.load(tmp_path / "ours"), transom.load(source)
    assert ours.encode_fitting("The [MASK]") == theirs.encode_fitting("The [MASK]")
    assert ours.encode_fitting("The [MASK]")[-1] in ours.tokenizer.special


def test_vocabulary_files_without_a_tokenizer_json_become_one(tmp_path):
    source = save("bert", tmp_path / "theirs")
    vocabulary = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    (source / "tokenizer.json").unlink()
    (source / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)), encoding="utf-8")
    path = source / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer_class": "BertTokenizer"}))
    report = import_model(source, tmp_path / "ours")
    assert report.notes == ["it has no tokenizer.json: the tokenizer is as transformers makes it (BertTokenizer)"]
    ours, theirs = transom.load(tmp_path / "ours"), transom.load(source)
    assert [ours.encode_fitting(text) for text in TEXTS] == [theirs.encode_fitting(text) for text in TEXTS]


def test_what_cannot_be_imported_or_exported_is_one_line(tmp_path):
    source = save("llama", tmp_path / "theirs")
    import_model(source, tmp_path / "ours")
    again = (
        f"{tmp_path / 'ours'} should be a model of Hugging Face's, but it is one of Transom's; it can be used as it is"
    )
    assert_misfit(again, import_model, tmp_path / "ours", tmp_path / "new")
    message = f"{source} should become the exported folder, but it is there already; choose a new or an empty folder"
    assert_misfit(message, export_model, tmp_path / "ours", source)
    with pytest.raises(transom.Misfit, match="dtype must be one of float32, float16, bfloat16, int8, but got 'f8'"):
        import_model(source, tmp_path / "new", "f8")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (source / name).unlink()
    with pytest.raises(transom.Misfit, match="should have a tokenizer, but it cannot be loaded from this machine"):
        import_model(source, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_special_tokens_that_are_not_there_are_named(tmp_path):
    source = save("gpt2", tmp_path / "theirs")
    path = source / "tokenizer_config.json"
    path.write_text(json.dumps({"pad_token": "<nothing>"}))
    assert_misfit(
        f"{path} names '<nothing>' as pad_token, but no token is called so; correct it",
        OwnTokenizer.load,
        source / "tokenizer.json",
    )
    path.write_text(json.dumps({"pad_token": 3}))
    assert_misfit(
        f"{path} should name its pad_token by a text, but it says 3; correct it",
        OwnTokenizer.load,
        source / "tokenizer.json",
    )
    path.write_text("{}")
    tokenizer = OwnTokenizer.load(source / "tokenizer.json")
    assert_misfit(
        "this needs a token for padding, but the tokenizer has none; name one as pad_token in its"
        " tokenizer_config.json",
        lambda: tokenizer.padding,
    )
