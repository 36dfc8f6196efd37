"""`transom.load`: what the commands print and what Hugging Face's own `generate` gives, and every complaint."""

import json

import pytest
import torch
from model_folders import MAKERS, TEXTS

import transom
from transom.cli import main
from transom.names import Misfit

pytestmark = [
    pytest.mark.usefixtures("own_errors"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
CALLS = {"encoder": "classify", "decoder": "generate", "encoder_decoder": "translate"}
SPOKEN = {"encoder": "an encoder", "decoder": "a decoder", "encoder_decoder": "an encoder–decoder"}


@pytest.fixture
def printed(capsys):
    """The JSON that a command prints."""

    def run(*words):
        capsys.readouterr()
        assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run


def complaint(function, *args, **settings):
    with pytest.raises(Misfit) as caught:
        function(*args, **settings)
    return str(caught.value)


def test_the_translator_inside_translates_as_the_command_does(printed):
    texts = ["We are going home.", "Where do you live?"]
    found = transom.load().translate(texts)
    assert found == [row["target"] for row in printed("translate", *texts)]
    assert transom.load().translate(texts, beams=1) == [
        row["target"] for row in printed("translate", *texts, "--beams", 1)
    ]


def test_a_folder_of_transoms_translates_as_the_command_does(model_folder, printed):
    folder = model_folder("transom", "encoder_decoder")
    found = transom.load(folder).translate(TEXTS)
    assert found == [row["target"] for row in printed("translate", *TEXTS, "--model", folder)]


def test_a_folder_of_transoms_writes_as_the_command_does(model_folder, printed):
    folder = model_folder("transom", "decoder")
    model, command = transom.load(str(folder)), ("generate", "--model", folder, "--tokens", 9)
    found = model.generate(TEXTS, max_new_tokens=9)
    assert found == [printed(*command, text, "--temperature", 0)[0]["text"] for text in TEXTS]
    drawn = model.generate(TEXTS, max_new_tokens=9, do_sample=True, temperature=0.8, seed=3)
    assert drawn == [printed(*command, text, "--seed", 3)[0]["text"] for text in TEXTS]
    assert drawn != found


def test_a_folder_of_transoms_classifies_as_the_command_does(model_folder, printed):
    folder = model_folder("transom", "encoder")
    found = transom.load(folder).classify(TEXTS)
    rows = printed("classify", *TEXTS, "--model", folder)
    assert [(one.label, one.chances) for one in found] == [(row["label"], row["chances"]) for row in rows]


def theirs(folder, kind):
    """Model and tokenizer, by Hugging Face's own classes."""
    import transformers

    return getattr(transformers, kind).from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)


def test_a_hugging_face_folder_translates_as_its_own_generate_does(model_folder):
    folder = model_folder("hf", "encoder_decoder")
    model, tokenizer = theirs(folder, "AutoModelForSeq2SeqLM")
    for beams in (1, 4):
        written = [model.generate(**tokenizer(text, return_tensors="pt"), num_beams=beams)[0] for text in TEXTS]
        found = transom.load(folder).translate(TEXTS, beams=beams)
        assert found == [tokenizer.decode(row, skip_special_tokens=True) for row in written]
        assert any(found)


def test_a_hugging_face_folder_writes_as_its_own_generate_does(model_folder):
    folder = model_folder("hf", "decoder")
    model, tokenizer = theirs(folder, "AutoModelForCausalLM")
    for settings in ({}, {"do_sample": True, "temperature": 1.7}):
        expected = []
        for text in TEXTS:
            inputs = tokenizer(text, return_tensors="pt")
            torch.manual_seed(5)
            written = model.generate(**inputs, max_new_tokens=7, **{"do_sample": False, **settings})[0]
            prompt, whole = (
                tokenizer.decode(ids, skip_special_tokens=True) for ids in (inputs["input_ids"][0], written)
            )
            expected.append(whole.removeprefix(prompt))
        state = torch.get_rng_state()
        assert transom.load(folder).generate(TEXTS, max_new_tokens=7, seed=5, **settings) == expected
        assert torch.equal(torch.get_rng_state(), state), "the caller's random numbers are left alone"
        assert any(expected)


def test_a_hugging_face_classifier_gives_its_own_labels(model_folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder("hf", "encoder"))
    torch.manual_seed(17)
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 17}
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), pad_token_id=0, **sizes, id2label={0: "bad", 1: "so-so", 2: "good"}
    )
    model = transformers.BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    found = transom.load(tmp_path).classify(TEXTS)
    for text, one in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            chances = model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1)
        assert list(one.chances) == ["bad", "so-so", "good"]
        torch.testing.assert_close(torch.tensor(list(one.chances.values())), chances)
        assert one.label == config.id2label[int(chances.argmax())]


@pytest.mark.parametrize("origin", MAKERS)
@pytest.mark.parametrize("kind", CALLS)
def test_a_model_of_another_kind_says_what_it_is_for(model_folder, origin, kind):
    model = transom.load(model_folder(origin, kind))
    for wanted, call in CALLS.items():
        if wanted != kind:
            assert complaint(getattr(model, call), TEXTS) == (
                f"{call} takes {SPOKEN[wanted]}, but {model.name} is {SPOKEN[kind]}; use {CALLS[kind]}, or name another"
                " model"
            )
    assert complaint(getattr(model, CALLS[kind]), "the cat") == (
        f"{CALLS[kind]} takes a list of texts, but got one text; put it in a list"
    )


def test_the_commands_take_a_hugging_face_folder(model_folder, printed, capsys):
    folder = model_folder("hf", "encoder_decoder")
    rows = printed("translate", *TEXTS, "--model", folder)
    assert [row["target"] for row in rows] == transom.load(folder).translate(TEXTS)
    folder = model_folder("hf", "decoder")
    expected = transom.load(folder).generate(TEXTS[:1], max_new_tokens=7, do_sample=True, temperature=0.8, seed=3)
    command = ("generate", TEXTS[0], "--model", folder, "--tokens", 7, "--seed", 3)
    assert [row["text"] for row in printed(*command)] == expected
    assert main([*map(str, command)]) == 0
    assert capsys.readouterr().out == f"{TEXTS[0]}{expected[0]}\n"


def test_empty_texts_stay_empty_and_each_finished_text_is_counted(model_folder):
    for origin in ("hf", "transom"):
        model, counts = transom.load(model_folder(origin, "encoder_decoder")), []
        found = model.translate(["", TEXTS[0], " "], on_batch=counts.append, blanks=True)
        assert found == ["", *model.translate(TEXTS[:1]), ""]
        assert counts == [1]


def test_a_hugging_face_model_without_labels_is_said(model_folder):
    model = transom.load(model_folder("hf", "encoder"))
    assert complaint(model.classify, TEXTS) == (
        f"classify takes a model that finds one of several labels, but {model.name} is a BertForMaskedLM that does not;"
        " run it with run(encode_text(text))"
    )


def test_a_prompt_without_room_and_a_setting_that_is_unknown_are_said(model_folder):
    model = transom.load(model_folder("hf", "decoder"))
    count = len(model.encode_pieces("cat " * 29)[0])
    assert complaint(model.generate, ["cat " * 29]) == (
        f"the prompt has {count} tokens, but {model.name} takes 29 with those it writes; give a shorter one"
    )
    assert complaint(model.generate, TEXTS, tempo=3).startswith(
        f"{model.name} should write with max_new_tokens, tempo, but its generate does not allow it: "
    )


def test_a_folder_of_pickled_parameters_is_said(tmp_path):
    folder = MAKERS["hf"]("encoder", tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert complaint(transom.load, folder).startswith(
        f"{folder} should hold model.safetensors, but its parameters are in 'pytorch_model.bin', pickled objects, which"
    )


@pytest.mark.parametrize("command", ["see", "effect", "logits", "generate", "heads"])
def test_commands_take_a_gguf_file(command, tmp_path, capsys):
    pytest.importorskip("gguf", reason="gguf comes with the extra gguf")
    from models.test_gguf import llama, write

    file, text = write(tmp_path / "model.gguf", llama()), tmp_path / "text.txt"
    text.write_text("abc abc", encoding="utf-8")
    asked = ["--text", str(text), "--lines"] if command == "heads" else ["abc abc"]
    assert main([command, *asked, "--model", str(file), "--json"]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)
