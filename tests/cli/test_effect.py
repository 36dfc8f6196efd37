"""`transom effect` and `transom sources`: what they print is what the library gives."""

import json

import pytest
import torch

import transom
from transom.cli import main
from transom.runner import load_text_model


def answer(capsys, *args):
    assert main([*map(str, args)]) == 0
    return capsys.readouterr().out


def test_edges_and_heads_are_those_of_the_library(model_folder, capsys):
    folder = model_folder("transom", "decoder")
    loaded = load_text_model(str(folder))
    encoded = loaded.encode_text("the cat sat")
    name = transom.influence(loaded.model, encoded.inputs).names[-1]
    told = json.loads(answer(capsys, "effect", "the cat sat", "--model", folder, "--edge", f"{name},1,-1,0", "--json"))
    (row,) = transom.effect(loaded.model, encoded.inputs, [(name, 1, -1, 0)])
    assert told["rows"][0]["change"] == pytest.approx(row.change, abs=1e-6)
    assert told["rows"][0]["at"] == encoded.tokens[0]
    told = json.loads(answer(capsys, "effect", "the cat sat", "--model", folder, "--head", f"{name},0", "--json"))
    found = transom.influence(loaded.model, encoded.inputs)
    (expected,) = [row for row in found.heads(refine=99) if (row.layer, row.head) == (name, 0)]
    assert told["rows"][0] == {**vars(expected), "change": pytest.approx(expected.change, abs=1e-6)}
    text = answer(capsys, "effect", "the cat sat", "--model", folder, "--strongest", 3, "--how", "after")
    assert len(text.splitlines()) == 5
    assert text.splitlines()[-1].endswith("knocked out after the softmax")


def test_the_embedded_translator_is_the_default(capsys):
    told = json.loads(answer(capsys, "effect", "The cat sat.", "--strongest", 1, "--json"))
    assert told["rows"][0]["change"] * told["rows"][0]["estimate"] > 0


def test_sources_are_passages_of_the_prompt(model_folder, capsys, tmp_path):
    folder = model_folder("transom", "decoder")
    (tmp_path / "a.txt").write_text("the cat sat")
    (tmp_path / "b.txt").write_text("a mat")
    files = ["--context", tmp_path / "a.txt", "--context", tmp_path / "b.txt"]
    asked = ["sources", "--model", folder, *files, "--question", "w", "--tokens", 2, "--samples", 4]
    told = json.loads(answer(capsys, *asked, "--json"))
    rows = {row["name"]: row for row in told["rows"]}
    assert set(rows) == {str(tmp_path / "a.txt"), str(tmp_path / "b.txt")}
    loaded = load_text_model(str(folder))
    texts = ("Context:", "Context:\n\nthe cat sat", "Context:\n\nthe cat sat\n\na mat")
    head, first, both = (len(loaded.encode_fitting(text)) for text in texts)
    assert head > 0, "no passage has the first token, which may be a sink"
    spans = [(rows[str(tmp_path / name)]["first"], rows[str(tmp_path / name)]["last"]) for name in ("a.txt", "b.txt")]
    assert spans == [(head, first - 1), (first, both - 1)]
    prompt = loaded.encode_fitting(f"{texts[-1]}\n\nQuestion: w\nAnswer:")
    new = loaded.continue_tokens(prompt, 2)
    ids = torch.tensor([[*prompt, *new]])

    def log_probability():
        with torch.no_grad():
            logs = loaded.model(ids[:, :-1])[0].log_softmax(dim=-1)
        return float(logs[len(prompt) - 1 :][range(len(new)), new].sum())

    assert told["value"] == pytest.approx(log_probability(), abs=1e-4)
    baseline, outside = log_probability(), [*range(first, ids.shape[1] - 1)]
    with transom.knock_out(loaded.model, query=outside, key=[*range(head, first)]):
        change = log_probability() - baseline
    assert rows[str(tmp_path / "a.txt")]["change"] == pytest.approx(change, abs=1e-4)
    assert len(told["agreement"]["rows"]) == 4
    text = answer(capsys, *asked, "--html", tmp_path / "why.html")
    assert "estimates beside 4 true knock-outs" in text.splitlines()[-1]
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert page.index('<p class="text">the cat sat</p>') < page.index('<p class="text">a mat</p>')
    for row in told["rows"]:
        assert f"change {row['change']:+.4f}; estimate {row['estimate']:+.4f}; mass {row['mass']:.4f}" in page
    assert "Estimates beside 4 true knock-outs" in page


CHAT = "{% for m in messages %}<|im_start|>user\n{{ m.content }}<|im_end|>\n<|im_start|>assistant\n{% endfor %}"


@pytest.mark.parametrize("plain", [False, True])
def test_sources_ask_as_in_a_chat_where_the_model_knows_chats(plain, model_folder, capsys, tmp_path):
    folder = model_folder("hf", "decoder")
    (folder / "chat_template.jinja").write_text(CHAT)
    (tmp_path / "a.txt").write_text("the cat sat")
    asked = ["sources", "--model", folder, "--context", tmp_path / "a.txt", "--question", "w", "--begin", "the cat"]
    options = ["--tokens", 2, "--samples", 0, *(["--plain"] if plain else [])]
    told = json.loads(answer(capsys, *asked, *options, "--json"))
    before, after = ("", "\nAnswer: ") if plain else ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")
    loaded = load_text_model(str(folder))
    ids = loaded.encode_fitting(f"{before}Context:\n\nthe cat sat\n\nQuestion: w{after}the cat")
    new = loaded.continue_tokens(ids, 2)
    assert told["answer"].startswith("the cat ")
    assert loaded.decode([*ids, *new]).endswith(told["answer"])
    with torch.no_grad():
        logs = loaded.model(torch.tensor([[*ids, *new[:-1]]])).logits[0].log_softmax(dim=-1)
    assert told["value"] == pytest.approx(float(logs[len(ids) - 1 :][range(len(new)), new].sum()), abs=1e-4)
    assert told["rows"][0]["first"] == len(loaded.encode_fitting(f"{before}Context:"))


WRONG = {
    "--edge takes LAYER,HEAD,FROM,AT, but got '1,2'; as in 0,2,5,3": ["--edge", "1,2"],
    "--head takes LAYER,HEAD, but got 'x'; as in 0,2": ["--head", "x"],
    "--edge names edges and --head a whole head, but both were given; leave one of the two out": [
        *["--edge", "0,0,0,0"],
        *["--head", "0,0"],
    ],
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_knocked_out_is_an_error(message, model_folder, capsys):
    folder = model_folder("transom", "decoder")
    assert main(["effect", "the cat", "--model", str(folder), *WRONG[message]]) == 2
    assert message in capsys.readouterr().err


def test_sources_need_a_decoder(model_folder, capsys, tmp_path):
    (tmp_path / "a.txt").write_text("the cat")
    folder = model_folder("transom", "encoder")
    args = ["sources", "--model", str(folder), "--context", str(tmp_path / "a.txt"), "--question", "who"]
    assert main(args) == 2
    assert "sources takes a decoder, which writes an answer, but" in capsys.readouterr().err
