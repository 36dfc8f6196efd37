"""`transom see`: the numbers are those of the model, the picture fits the terminal, and bad use is told."""

import json

import pytest
import torch
from model_folders import of_hugging_face, of_transom

import transom
from transom.cli import main
from transom.cli.any_model import opened
from transom.cli.seen import Asked, seen
from transom.cli.seen_text import lines, number
from transom.show.visible import cells

pytestmark = [
    pytest.mark.usefixtures("own_errors"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
TEXT = "the cat sat on the mat"
MAKERS = {"transom": of_transom, "hf": of_hugging_face}
KINDS = [(origin, kind) for origin in MAKERS for kind in ("encoder", "decoder", "encoder_decoder")]
QUICK_AND_SLOW = [
    pytest.param(*one, marks=[] if one in {("transom", "decoder"), ("hf", "encoder")} else pytest.mark.slow)
    for one in KINDS
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a model of each kind and origin, made when it is first asked for."""
    made = {}

    def one(origin, kind):
        if origin == "hf":
            pytest.importorskip("transformers")
        if (origin, kind) not in made:
            made[origin, kind] = str(MAKERS[origin](kind, tmp_path_factory.mktemp("models") / f"{origin}-{kind}"))
        return made[origin, kind]

    return one


def said(capsys, *words, code=0):
    capsys.readouterr()
    assert main(["see", *(str(word) for word in words)]) == code
    return capsys.readouterr()


@pytest.mark.parametrize(("origin", "kind"), QUICK_AND_SLOW)
def test_weights_and_effects_are_those_of_the_model(folders, capsys, origin, kind):
    folder = folders(origin, kind)
    found = json.loads(said(capsys, TEXT, "--model", folder, "--json", "--arrows", 5).out)
    one = opened(folder)
    fed = one.encode(TEXT)
    with transom.watch(one.model) as trace:
        whole = one.run(fed)
    weights = trace[found["layer"]].weights(batch=0, head=found["head"])
    assert torch.allclose(torch.tensor(found["weights"]), weights, atol=1e-6)
    assert [arrow["weight"] for arrow in found["arrows"]] == pytest.approx(
        weights.flatten().sort(descending=True).values[:5].tolist()
    )
    assert found["receipt"]["holds"]
    for arrow in found["arrows"]:
        place = {name: arrow[name] for name in ("query", "key")}
        assert weights[arrow["query"], arrow["key"]] == pytest.approx(arrow["weight"])
        assert (found["reads"][arrow["query"]], found["at"][arrow["key"]]) == (arrow["from"], arrow["at"])
        with transom.knock_out(one.model, layer=found["layer"], head=found["head"], **place):
            without = one.run(fed)
        p, q = whole.double().log_softmax(-1), without.double().log_softmax(-1)
        assert arrow["effect"] == pytest.approx(float((p.exp() * (p - q)).sum()), abs=1e-6)


@pytest.mark.parametrize(("origin", "kind"), QUICK_AND_SLOW)
def test_it_is_short_and_fits_the_terminal(folders, capsys, monkeypatch, origin, kind):
    monkeypatch.setenv("COLUMNS", "100")
    printed = said(capsys, TEXT, "--model", folders(origin, kind)).out
    assert len(printed.splitlines()) <= 40
    assert "This head: entropy (of log n) " in printed
    assert max(map(cells, printed.splitlines())) <= 100
    assert "\x1b" not in printed, "no colour where there is no terminal"
    found = seen(Asked(TEXT, folders(origin, kind)))
    for width in (40, 72):
        for everything in (False, True):
            assert max(cells(line) for line in lines(found, width, False, everything)) <= width
    coloured = "\n".join(lines(found, 100, True, False))
    assert "\x1b[" in coloured


def test_the_head_is_the_one_whose_loss_matters_most_or_the_one_asked_for(folders):
    folder = folders("transom", "decoder")
    one = opened(folder)
    fed = one.encode(TEXT)
    with transom.watch(one.model) as trace:
        whole = one.run(fed).double().log_softmax(-1)
    lost = {}
    for name in trace.names:
        for head in range(3):
            with transom.knock_out(one.model, layer=name, head=head, how="after"):
                lost[name, head] = float((whole.exp() * (whole - one.run(fed).double().log_softmax(-1))).sum())
    found = seen(Asked(TEXT, folder))
    assert (found.layer, found.head) == max(lost, key=lambda place: lost[place])
    asked = seen(Asked(TEXT, folder, layer="1", head=-1))
    assert (asked.layer, asked.head, asked.chosen) == (trace.names[1], 2, "as asked")


def test_a_decoder_writes_on_and_rows_say_what_they_predict(folders):
    folder = folders("transom", "decoder")
    one = opened(folder)
    ids = one.encode(TEXT).ids
    written = one.model.generate(torch.tensor([ids]), max_new_tokens=5, do_sample=False)[0].tolist()
    found = seen(Asked(TEXT, folder, generate=5))
    assert found.labels.reads == one.strings(written[:-1])
    assert found.labels.predicts == one.strings(written[1:])
    assert found.written == one.tokenizer.decode(written[len(ids) :])


def test_it_is_told_where_a_decoder_has_no_room_for_all_that_is_asked(folders, capsys):
    folder = folders("transom", "decoder")
    one = opened(folder)
    room = one.longest - len(one.encode(TEXT).ids)
    note = f"asked to write 1,009 tokens, {folder} has room for {room}: it takes {one.longest} in all"
    printed = said(capsys, TEXT, "--model", folder, "--generate", 1009, "--json")
    assert printed.err == f"transom: {note}\n"
    found = json.loads(printed.out)
    assert found["note"] == note
    assert len(found["reads"]) == one.longest - 1, "the last token is written, and not read"
    steps = json.loads(said(capsys, TEXT, "--model", folder, "--generate", 1009, "--steps", "--json").out)
    assert steps["note"] == note
    for few in (0, room):
        printed = said(capsys, TEXT, "--model", folder, "--generate", few, "--json")
        assert (printed.err, json.loads(printed.out)["note"]) == ("", None)


def test_an_encoder_decoder_reads_the_target_it_is_given(folders):
    found = seen(Asked(TEXT, folders("transom", "encoder_decoder"), target="a dog", layer="*cross"))
    assert found.labels.at == opened(folders("transom", "encoder_decoder")).encode(TEXT).tokens
    assert found.written == "a dog"
    assert found.labels.predicts is not None
    assert found.labels.predicts[-1] == "</s>"


def test_a_run_is_kept_and_seen_again_without_its_model(folders, capsys, tmp_path):
    file = tmp_path / "run.safetensors"
    folder = folders("transom", "encoder_decoder")
    first = said(capsys, TEXT, "--model", folder, "--save", file, "--layer", "*cross", "--head", 1, "--json")
    again = said(capsys, "--trace", file, "--layer", "*cross", "--head", 1, "--json")
    first, again = json.loads(first.out), json.loads(again.out)
    for what in ("reads", "predicts", "at", "weights", "layer", "head", "measures"):
        assert first[what] == again[what], what
    assert {arrow["effect"] for arrow in again["arrows"]} == {None}
    printed = said(capsys, "--trace", file).out
    assert "Effects are not known here" in printed


@pytest.mark.parametrize(
    ("effect", "told"),
    [
        (0.00099, "0.00099"),
        (0.00101, " 0.0010"),
        (0.0301, "  0.030"),
        (1.04, "    1.0"),
        (9.96, "     10"),
        (123.4, "    123"),
        (0.0000512, "5.1e-05"),
        (0.0, "      0"),
        (None, "      –"),
    ],
)
def test_an_effect_has_two_digits(effect, told):
    assert number(effect) == told


def test_heads_are_counted_that_were_compared(folders, capsys):
    model = ["--model", folders("transom", "decoder")]
    assert ", of 6 heads: without it, " in " ".join(said(capsys, TEXT, *model).out.split())
    printed = " ".join(said(capsys, TEXT, *model, "--layer", 0, "--arrows", 1).out.split())
    assert ", of the 3 heads asked for: without it, " in printed
    assert "weight effect the strongest arrow " in printed
    assert "In brackets: the token that comes next, which the row is to predict." in printed
    assert ", of 6 heads: as asked; " in " ".join(said(capsys, TEXT, *model, "--layer", 0, "--head", 1).out.split())


COMPLAINTS = {
    (): "there should be a text to look into, but none came; give one, or --trace FILE",
    (TEXT, "--head", "1"): "--head 1 is a head of a layer, but none is named; give --layer too",
    (TEXT, "--layer", "7"): (
        "no attention ran in layer '7'; those that did are 'stack.blocks.0.attention', 'stack.blocks.1.attention'"
    ),
    (TEXT, "--layer", "stack.*", "--head", "1"): (
        "--layer stack.* could be 'stack.blocks.0.attention', 'stack.blocks.1.attention'; name one of them, or leave"
        " --head out to see the most telling"
    ),
    (TEXT, "--layer", "0", "--head", "3"): (
        "there are heads=3, so 3 is none of them; count from 0 to 2, or back from -1"
    ),
}


@pytest.mark.parametrize("words", COMPLAINTS, ids=lambda words: " ".join(words[1:]) or "nothing")
def test_bad_use_is_one_line(folders, capsys, words):
    printed = said(capsys, *words, "--model", folders("transom", "decoder"), code=2)
    assert printed.out == ""
    assert printed.err == f"transom: {COMPLAINTS[words]}\n"


def test_writing_on_takes_a_decoder_and_a_trace_takes_no_text(folders, capsys, tmp_path):
    printed = said(capsys, TEXT, "--model", folders("transom", "encoder"), "--generate", 3, code=2)
    assert printed.err == (
        f"transom: --generate writes on, which takes a decoder, but {folders('transom', 'encoder')} is an encoder;"
        " leave it out\n"
    )
    printed = said(capsys, TEXT, "--trace", tmp_path / "run.safetensors", code=2)
    assert printed.err == (
        "transom: --trace shows a run that was saved, but a text or a model came too; leave one of the two out\n"
    )


def test_hostile_text_steers_no_terminal(folders, capsys):
    printed = said(capsys, "the \x1b[31mcat\u202e sat", "--model", folders("transom", "decoder")).out
    assert "\x1b" not in printed
    assert "\u202e" not in printed


def test_a_receipt_that_fails_is_a_finding_and_nothing_is_shown(folders, capsys, tmp_path):
    file = tmp_path / "run.safetensors"
    said(capsys, TEXT, "--model", folders("transom", "decoder"), "--save", file)
    trace = transom.Trace.load(file)
    trace[1].output += 1.0
    trace.save(file)
    printed = said(capsys, "--trace", file, code=1)
    assert printed.out == ""
    assert printed.err.startswith(f"transom: the weights of {trace.names[1]!r} do not make the output")
