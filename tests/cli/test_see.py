"""`transom see`: the numbers are those of the model, the picture fits the terminal, and bad use is an error."""

import json
from functools import partial

import pytest
import torch
from model_folders import KINDS

import transom
from transom.cli.see import format_effect, result_lines
from transom.cli.see_analysis import SeeRequest, analyse
from transom.runner import load_text_model
from transom.show.formatting import display_width

pytestmark = [
    pytest.mark.usefixtures("own_errors"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
TEXT = "the cat sat on the mat"
QUICK_AND_SLOW = [
    pytest.param(*pair, marks=[] if pair in {("transom", "decoder"), ("hf", "encoder")} else pytest.mark.slow)
    for pair in KINDS
]


@pytest.fixture
def see(run_command):
    return partial(run_command, "see")


@pytest.mark.parametrize(("origin", "kind"), QUICK_AND_SLOW)
def test_weights_and_effects_are_those_of_the_model(model_folder, see, origin, kind):
    folder = model_folder(origin, kind)
    found = json.loads(see(TEXT, "--model", folder, "--json", "--arrows", 5, "--by", "weight").out)
    model = load_text_model(folder)
    encoded = model.encode_text(TEXT)
    with transom.watch(model.model) as trace:
        output = model.run(encoded)
    weights = trace[found["layer"]].weights(batch=0, head=found["head"])
    assert torch.allclose(torch.tensor(found["weights"]), weights, atol=1e-6)
    assert [arrow["weight"] for arrow in found["arrows"]] == pytest.approx(
        weights.flatten().sort(descending=True).values[:5].tolist()
    )
    assert found["receipt"]["holds"]
    for arrow in found["arrows"]:
        edge = {name: arrow[name] for name in ("query", "key")}
        assert weights[arrow["query"], arrow["key"]] == pytest.approx(arrow["weight"])
        assert (found["reads"][arrow["query"]], found["at"][arrow["key"]]) == (arrow["from"], arrow["at"])
        with transom.knock_out(model.model, layer=found["layer"], head=found["head"], **edge):
            without = model.run(encoded)
        p, q = output.double().log_softmax(-1), without.double().log_softmax(-1)
        assert arrow["effect"] == pytest.approx(float((p.exp() * (p - q)).sum()), abs=1e-6)


def test_arrows_that_matter_come_first_and_are_estimated_before_they_are_knocked_out(model_folder, see):
    folder = model_folder("transom", "decoder")
    ran = see(TEXT, "--model", folder, "--json", "--arrows", 4, "--refine", 2)
    assert "heads estimated by backward passes" in ran.err, "said also in a pipe"
    found, quick = json.loads(ran.out), json.loads(see(TEXT, "--model", folder, "--json", "--refine", 0).out)
    effects = [arrow["effect"] for arrow in found["arrows"]]
    assert effects == sorted(effects, reverse=True)
    assert found["by"] == "influence"
    assert sum(row["effect"] is not None for row in found["ranking"]) == 2
    assert {arrow["effect"] for arrow in quick["arrows"]} == {None}
    estimates = [arrow["estimate"] for arrow in quick["arrows"]]
    assert estimates == sorted(estimates, reverse=True)
    assert "estimate  the 8 arrows that matter most" in see(TEXT, "--model", folder, "--refine", 0).out


@pytest.mark.parametrize(("origin", "kind"), QUICK_AND_SLOW)
def test_it_is_short_and_fits_the_terminal(model_folder, see, monkeypatch, origin, kind):
    monkeypatch.setenv("COLUMNS", "100")
    printed = see(TEXT, "--model", model_folder(origin, kind)).out
    assert len(printed.splitlines()) <= 40
    assert "Its measures: entropy (of log n) " in " ".join(printed.split())
    assert max(map(display_width, printed.splitlines())) <= 100
    assert "\x1b" not in printed, "no colour where there is no terminal"
    result = analyse(SeeRequest(TEXT, model_folder(origin, kind)))
    for width in (40, 72):
        for everything in (False, True):
            assert max(display_width(line) for line in result_lines(result, width, False, everything)) <= width
    coloured = "\n".join(result_lines(result, 100, True, False))
    assert "\x1b[" in coloured


def test_the_head_is_the_one_that_matters_most_or_the_one_asked_for(model_folder):
    folder = model_folder("transom", "decoder")
    model = load_text_model(folder)
    encoded = model.encode_text(TEXT)
    with transom.watch(model.model) as trace:
        before = model.run(encoded).double().log_softmax(-1)
    changes = {}
    for name in trace.names:
        for head in range(3):
            with transom.knock_out(model.model, layer=name, head=head, how="after"):
                after = model.run(encoded).double().log_softmax(-1)
            changes[name, head] = float((before.exp() * (before - after)).sum())
    found = analyse(SeeRequest(TEXT, folder))
    assert (found.layer, found.head) == max(changes, key=lambda head: changes[head])
    asked = analyse(SeeRequest(TEXT, folder, layer="1", head=-1))
    assert (asked.layer, asked.head, asked.chosen) == (trace.names[1], 2, "as asked")


def test_a_decoder_continues_the_text_and_rows_have_their_predictions(model_folder):
    folder = model_folder("transom", "decoder")
    model = load_text_model(folder)
    ids = model.encode_text(TEXT).ids
    written = model.model.generate(torch.tensor([ids]), max_new_tokens=5, do_sample=False)[0].tolist()
    found = analyse(SeeRequest(TEXT, folder, generate=5))
    assert found.labels.reads == model.token_strings(written[:-1])
    assert found.labels.predicts == model.token_strings(written[1:])
    assert found.output == model.tokenizer.decode(written[len(ids) :])


def test_a_note_says_if_a_decoder_has_no_room_for_all_tokens(model_folder, see):
    folder = model_folder("transom", "decoder")
    model = load_text_model(folder)
    room = model.longest - len(model.encode_text(TEXT).ids)
    note = f"asked to write 1,009 tokens, {folder} has room for {room}: it takes {model.longest} in all"
    printed = see(TEXT, "--model", folder, "--generate", 1009, "--json")
    assert printed.err == f"transom: {note}\n"
    found = json.loads(printed.out)
    assert found["note"] == note
    assert len(found["reads"]) == model.longest - 1, "the last token is written but not read"
    steps = json.loads(see(TEXT, "--model", folder, "--generate", 1009, "--steps", "--json").out)
    assert steps["note"] == note
    for few in (0, room):
        printed = see(TEXT, "--model", folder, "--generate", few, "--json")
        assert (printed.err, json.loads(printed.out)["note"]) == ("", None)


def test_an_encoder_decoder_reads_the_given_target(model_folder):
    found = analyse(SeeRequest(TEXT, model_folder("transom", "encoder_decoder"), target="a dog", layer="*cross"))
    assert found.labels.at == load_text_model(model_folder("transom", "encoder_decoder")).encode_text(TEXT).tokens
    assert found.output == "a dog"
    assert found.labels.predicts is not None
    assert found.labels.predicts[-1] == "</s>"


def test_a_saved_run_is_shown_without_its_model(model_folder, see, tmp_path):
    file = tmp_path / "run.safetensors"
    folder = model_folder("transom", "encoder_decoder")
    first = see(TEXT, "--model", folder, "--save", file, "--layer", "*cross", "--head", 1, "--json")
    again = see("--trace", file, "--layer", "*cross", "--head", 1, "--json")
    first, again = json.loads(first.out), json.loads(again.out)
    for name in ("reads", "predicts", "at", "weights", "layer", "head", "measures"):
        assert first[name] == again[name], name
    assert {arrow["effect"] for arrow in again["arrows"]} == {None}
    printed = see("--trace", file).out
    assert "Effects are not known here" in printed


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (0.00099, "0.00099"),
        (0.00101, " 0.0010"),
        (0.0301, "  0.030"),
        (1.04, "    1.0"),
        (9.96, "     10"),
        (123.4, "    123"),
        (0.0000512, "5.1e-05"),
        (0.0, "      0"),
    ],
)
def test_an_effect_has_two_digits(effect, text):
    assert format_effect(effect) == text


def test_the_compared_heads_are_counted(model_folder, see):
    model = ["--model", model_folder("transom", "decoder")]
    assert ", of 6 heads: without it, " in " ".join(see(TEXT, *model).out.split())
    printed = " ".join(see(TEXT, *model, "--layer", 0, "--arrows", 1).out.split())
    assert ", of the 3 heads asked for: without it, " in printed
    assert "weight effect the arrow that matters most " in printed
    assert "In brackets: the token that comes next, which the row is to predict." in printed
    assert ", of 6 heads: as asked; " in " ".join(see(TEXT, *model, "--layer", 0, "--head", 1).out.split())


ERRORS = {
    (): "there should be a text to look into, but there is none; give one, or --trace FILE",
    (TEXT, "--head", "1"): "--head 1 is a head of a layer, but no layer is named; give --layer too",
    (TEXT, "--layer", "7"): (
        "no attention ran in layer '7'; those that did are 'stack.blocks.0.attention', 'stack.blocks.1.attention'"
    ),
    (TEXT, "--layer", "stack.*", "--head", "1"): (
        "--layer stack.* could be 'stack.blocks.0.attention', 'stack.blocks.1.attention'; name one of them, or leave"
        " --head out to see the one that matters most"
    ),
    (TEXT, "--layer", "0", "--head", "3"): (
        "there are heads=3, so 3 is none of them; count from 0 to 2, or back from -1"
    ),
}


@pytest.mark.parametrize("args", ERRORS, ids=lambda args: " ".join(args[1:]) or "nothing")
def test_bad_use_is_one_line(model_folder, see, args):
    printed = see(*args, "--model", model_folder("transom", "decoder"), code=2)
    assert printed.out == ""
    assert printed.err == f"transom: {ERRORS[args]}\n"


def test_generate_takes_a_decoder_and_trace_takes_no_text(model_folder, see, tmp_path):
    printed = see(TEXT, "--model", model_folder("transom", "encoder"), "--generate", 3, code=2)
    assert printed.err == (
        f"transom: --generate takes a decoder, but {model_folder('transom', 'encoder')} is an encoder; leave it out\n"
    )
    printed = see(TEXT, "--trace", tmp_path / "run.safetensors", code=2)
    assert printed.err == (
        "transom: --trace shows a saved run, but got a text or a model too; leave one of the two out\n"
    )


def test_hostile_text_cannot_control_the_terminal(model_folder, see):
    printed = see("the \x1b[31mcat\u202e sat", "--model", model_folder("transom", "decoder")).out
    assert "\x1b" not in printed
    assert "\u202e" not in printed


def test_if_a_receipt_fails_nothing_is_shown(model_folder, see, tmp_path):
    file = tmp_path / "run.safetensors"
    see(TEXT, "--model", model_folder("transom", "decoder"), "--save", file)
    trace = transom.Trace.load(file)
    trace[1].output += 1.0
    trace.save(file)
    printed = see("--trace", file, code=1)
    assert printed.out == ""
    assert printed.err.startswith(f"transom: the weights of {trace.names[1]!r} do not reproduce the model's output")
