"""The steps of a generation, stitched: the very weights of a model that reads the written text at once."""

import pytest
import torch
from watched import Plain, Stack

import transom
from transom.equations.masks import Causal
from transom.lens.attention.stitching import group_runs
from transom.models import Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig

torch.manual_seed(37)
PROMPT = torch.randint(1, 19, (1, 3))
SIZES = {"vocabulary": 19, "d_model": 14, "heads": 2, "d_hidden": 23}
ASKED = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
WRITERS = {
    "rotary": {"positions": "rotary", "d_head": 4},
    "alibi": {"positions": "alibi"},
    "shared keys": {"kv_heads": 1},
}


def writer(**named):
    torch.manual_seed(41)
    return Decoder(DecoderConfig(layers=3, **SIZES, **named)).eval()


def both_ways(model, prompt, **asked):
    """A generation stitched, and the same text read at once."""
    with torch.no_grad(), transom.watch(model) as trace:
        written = model.generate(prompt, **asked)
    with torch.no_grad(), transom.watch(model) as read:
        model(written[:, :-1])
    return written, trace, read


@pytest.mark.parametrize("kind", WRITERS)
def test_stitched_steps_are_the_text_read_at_once(kind):
    written, trace, read = both_ways(writer(**WRITERS[kind]), PROMPT, **ASKED)
    whole = trace.stitched()
    assert whole.names == read.names
    for name in read.names:
        assert torch.allclose(whole[name].weights(), read[name].weights(), atol=1e-5)
        assert whole[name].receipt().holds
        assert whole[name].problem.mask == Causal()
        assert whole[name].K.shape[2] == written.shape[1] - 1


def test_an_encoder_decoder_is_stitched_on_all_three_sides():
    torch.manual_seed(43)
    model = EncoderDecoder(EncoderDecoderConfig(encoder_layers=2, decoder_layers=3, **SIZES)).eval()
    source = torch.randint(3, 19, (1, 5))
    with torch.no_grad(), transom.watch(model) as trace:
        written = model.generate(source, **ASKED)
    with torch.no_grad(), transom.watch(model) as read:
        model(source, written[:, :-1])
    whole = trace.stitched()
    assert whole.names == read.names
    for name in read.names:
        assert torch.allclose(whole[name].weights(), read[name].weights(), atol=1e-5), name
    whole.tokens, whole.targets = list("abcde"), [str(token) for token in written[0].tolist()]
    labels = whole.labels("decoder.blocks.2.cross")
    assert labels.at == list("abcde")
    assert labels.reads == whole.targets[0][:-1]
    assert labels.predicts == whole.targets[0][1:]
    assert whole.labels("decoder.blocks.0.attention").at == whole.targets[0][:-1]
    assert whole.labels("encoder.blocks.0.attention").predicts is None


def test_each_key_is_kept_once():
    model = writer()
    _, trace, _ = both_ways(model, PROMPT, **{**ASKED, "max_new_tokens": 23, "min_new_tokens": 23})
    steps = trace.all(trace.names[0])
    assert len(steps) == 23
    held = {step.K.untyped_storage().data_ptr(): step.K.untyped_storage().nbytes() for step in steps}
    assert sum(held.values()) <= 4 * steps[-1].K.nbytes, "of all steps together, not of each"


def test_rows_say_what_they_read_and_what_they_predict():
    written, trace, _ = both_ways(writer(), PROMPT, **ASKED)
    trace.tokens = [str(token) for token in written[0].tolist()]
    labels = trace.stitched().labels("stack.blocks.1.attention")
    assert labels.reads == labels.at == trace.tokens[0][:-1]
    assert labels.predicts == trace.tokens[0][1:]
    trace.tokens = trace.tokens[0][:-1]
    assert trace.stitched().labels("stack.blocks.1.attention").predicts[-1] is None


def test_a_file_holds_each_key_once_and_is_stitched_again(tmp_path):
    _, trace, _ = both_ways(writer(), PROMPT, **ASKED)
    trace.save(tmp_path / "steps.safetensors")
    again = transom.Trace.load(tmp_path / "steps.safetensors")
    for name in trace.names:
        assert torch.equal(again.stitched()[name].weights(), trace.stitched()[name].weights())
        steps = again.all(name)
        assert steps[0].K.untyped_storage().data_ptr() == steps[-1].K.untyped_storage().data_ptr()


def test_a_cache_of_fixed_size_is_known_by_what_nobody_saw():
    class Fixed(Plain):
        """Keys and values in room for 7 tokens, masked where nothing is yet."""

        def __init__(self):
            super().__init__()
            self.K, self.V = torch.zeros(1, 2, 7, 7), torch.zeros(1, 2, 7, 7)

        def forward(self, x, at):
            Q, K, V = self.project(x)
            last = at + x.shape[1]
            self.K[:, :, at:last], self.V[:, :, at:last] = K, V
            seen = torch.arange(7) <= torch.arange(at, last)[:, None]
            out = torch.nn.functional.scaled_dot_product_attention(Q, self.K, self.V, attn_mask=seen[None, None])
            return out.transpose(1, 2).flatten(2)

    model, x = Fixed(), torch.randn(1, 5, 14)
    with torch.no_grad(), transom.watch(model) as trace:
        model(x[:, :2], 0)
        for at in (2, 3, 4):
            model(x[:, at : at + 1], at)
    with torch.no_grad(), transom.watch(model) as read:
        torch.nn.functional.scaled_dot_product_attention(*model.project(x), is_causal=True)
    whole = trace.stitched()["(model)"]
    assert whole.weights().shape == (1, 2, 5, 5)
    assert torch.allclose(whole.weights(), read[0].weights(), atol=1e-6)
    assert whole.receipt().holds
    assert all(step.receipt().holds for step in trace)
    assert len({step.K.untyped_storage().data_ptr() for step in trace}) == 1


def test_one_forward_pass_is_stitched_as_it_is():
    model = Stack(Plain(), Plain(is_causal=True))
    with transom.watch(model) as trace:
        model(torch.randn(2, 5, 14))
    assert [*trace.stitched()] == [*trace]


def test_beams_that_change_places_and_several_texts_are_an_error_with_a_way_out(own_errors):
    model = writer()
    with torch.no_grad(), transom.watch(model) as trace:
        for prompt in (PROMPT, PROMPT.flip(1)):
            model.generate(prompt, **ASKED)
    with pytest.raises(transom.Misfit) as caught:
        trace.stitched()
    assert str(caught.value) == (
        "the 12 attentions of 'stack.blocks.0.attention' do not continue one another: they are 2 runs (several texts,"
        " or beams that changed places); take stitched(run=-1) for the last, generate with num_beams=1, or watch the"
        " model read the finished text"
    )
    assert trace.stitched(run=1)["stack.blocks.0.attention"].K.shape[2] == 8
    with pytest.raises(transom.Misfit) as caught:
        trace.stitched(run=2)
    assert str(caught.value) == "there are runs=2, so 2 is none of them; count from 0 to 1, or back from -1"


def test_a_text_that_is_read_again_is_a_run_of_its_own():
    model = writer()
    with torch.no_grad(), transom.watch(model) as trace:
        for length in (3, 3, 2):
            model(PROMPT[:, :length])
    assert [len(found) for found in group_runs(trace.all("stack.blocks.0.attention"))] == [1, 1, 1]
    with pytest.raises(transom.Misfit, match="they are 3 runs"):
        trace.stitched()


def test_words_that_do_not_fit_are_an_error(own_errors):
    _, _, read = both_ways(writer(), PROMPT, **ASKED)
    read.tokens = ["a", "b"]
    with pytest.raises(transom.Misfit) as caught:
        read.labels("stack.blocks.0.attention")
    assert str(caught.value) == (
        "'stack.blocks.0.attention' has keys=8, but there are 2 tokens for them; give one string per token, and"
        " targets for what a decoder reads"
    )
    read.tokens = None
    assert read.labels("stack.blocks.0.attention").at == [str(number) for number in range(8)]
    read.tokens = list("abcdefgh")
    with pytest.raises(transom.Misfit) as caught:
        read.labels("stack.blocks.0.attention", batch=1)
    assert str(caught.value) == "there are sequences=1, so 1 is none of them; count from 0 to 0, or back from -1"


def test_a_trace_whose_receipt_fails_is_not_proven(own_errors):
    _, _, read = both_ways(writer(), PROMPT, **ASKED)
    assert read.proven() is read
    read["stack.blocks.1.attention"].output += 1.0
    with pytest.raises(transom.Misfit) as caught:
        read.proven()
    start, end = str(caught.value).split(" they are off by 1.0e+00, but ")
    assert start == "the weights of 'stack.blocks.1.attention' do not reproduce the model's output:"
    assert end.endswith(" is allowed; nothing of this run is drawn")
