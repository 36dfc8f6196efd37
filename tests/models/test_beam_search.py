"""Beam search compared with Hugging Face's, with all possible sequences, and with greedy search."""

import itertools

import pytest
import torch
from models.small import padded, rows
from models.writers import decoder, encoder_decoder

from transom.models.generation.beam_search import beam_search
from transom.models.generation.request import GenerationRequest


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(47)


def every_sequence(model, source, ends, depth):
    """Each sequence that a model can generate, with the sum of its log-probabilities."""
    vocabulary = model.config.vocabulary
    others = [token for token in range(vocabulary) if token not in ends]
    for length in range(1, depth + 1):
        last = range(vocabulary) if length == depth else ends
        new = torch.tensor(list(itertools.product(*[others] * (length - 1), last)))
        prompt = source if model.kind == "decoder" else torch.tensor([[1]])
        sequences = torch.cat([prompt.expand(len(new), -1), new], dim=1)
        logits = model(sequences) if model.kind == "decoder" else model(source.expand(len(new), -1), sequences)
        log_probabilities = logits[:, -length - 1 : -1].log_softmax(dim=2).gather(2, new[..., None])
        sums = log_probabilities.sum(dim=(1, 2)).tolist()
        yield from zip(sequences.tolist(), sums, [length] * len(new), strict=True)


@pytest.mark.parametrize("build", [decoder, encoder_decoder])
@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 1.0, 2.0])
@torch.no_grad()
def test_enough_beams_find_the_best_of_all_sequences(build, length_penalty):
    model, ends, depth = build(vocabulary=5), (2,), 4
    source = torch.tensor([[3, 4, 1]])
    result = model.generate(
        source,
        num_beams=64,
        num_return_sequences=7,
        eos_token_id=ends,
        max_new_tokens=depth,
        length_penalty=length_penalty,
        early_stopping="never",
        return_scores=True,
    )
    scored = [
        (total / length**length_penalty, tokens) for tokens, total, length in every_sequence(model, source, ends, depth)
    ]
    best = sorted(scored, reverse=True)[:7]
    torch.testing.assert_close(result.scores, torch.tensor([score for score, _ in best]), rtol=0, atol=1e-5)
    width = result.sequences.shape[1]
    assert result.sequences.tolist() == [(tokens + [0] * width)[:width] for _, tokens in best]


@pytest.mark.parametrize("build", [decoder, encoder_decoder])
@torch.no_grad()
def test_one_beam_is_greedy(build):
    model, (tokens, real) = build(), padded(rows(7, 3, 5), "left")
    options = {"max_new_tokens": 9, "eos_token_id": (2, 7)}
    greedy = model.generate(tokens, real, **options, return_scores=True)
    settings = model.generation.replace({**options, "early_stopping": True})
    prompts, source = model.parse_rows(tokens, real, None, settings.decoder_start_token_id)
    request = GenerationRequest(settings=settings, longest=model.config.longest, prompts=prompts, source=source)
    result = beam_search(request, *model.start_steps(request))
    start = prompts.tokens.shape[1]
    assert torch.equal(result.new, greedy.sequences[:, start:])
    torch.testing.assert_close(result.scores, greedy.scores, rtol=0, atol=1e-5)


def hugging_face(model):
    """Our decoder as a model of Hugging Face: logits for all tokens, no cache."""
    transformers = pytest.importorskip("transformers", reason="needs the extra hf")
    from transformers.modeling_outputs import CausalLMOutput

    class Settings(transformers.PretrainedConfig):
        model_type = "transom_twin"

    class Twin(transformers.PreTrainedModel, transformers.GenerationMixin):
        config_class = Settings
        main_input_name = "input_ids"

        def __init__(self, config):
            super().__init__(config)
            self.parameter = torch.nn.Parameter(torch.zeros(1))
            self.post_init()

        def forward(self, input_ids, attention_mask=None, **_):
            return CausalLMOutput(logits=model(input_ids, None if attention_mask is None else attention_mask.bool()))

    return Twin(Settings(vocab_size=model.config.vocabulary, num_hidden_layers=2))


CASES = {
    "greedy": {},
    "greedy, penalties": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2, "min_new_tokens": 5},
    "beams": {"num_beams": 4, "num_return_sequences": 3},
    "two ends": {"num_beams": 3, "num_return_sequences": 3, "eos_token_id": [2, 7]},
    "many beams": {"num_beams": 11, "num_return_sequences": 11},
    "long": {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 2.0},
    "short": {"num_beams": 4, "num_return_sequences": 4, "length_penalty": -1.0},
    "no penalty": {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 0.0},
    "early": {"num_beams": 4, "num_return_sequences": 4, "early_stopping": True},
    "never": {"num_beams": 4, "num_return_sequences": 4, "early_stopping": "never", "length_penalty": 1.5},
    "never, no penalty": {"num_beams": 4, "early_stopping": "never", "length_penalty": 0.0},
    "penalties": {"num_beams": 4, "repetition_penalty": 1.4, "no_repeat_ngram_size": 2, "min_new_tokens": 5},
    "one step": {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 1},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
@torch.no_grad()
def test_the_same_as_hugging_face(case, positions):
    model = decoder(positions=positions)
    twin, tokens = hugging_face(model), torch.stack(rows(5, 5, 5, 5, 5))
    settings = {"max_new_tokens": 9, "eos_token_id": [2, 7, 11], "pad_token_id": 3} | CASES[case]
    ours = model.generate(tokens, return_scores=True, **settings)
    options = {"return_dict_in_generate": True, "output_scores": True, "do_sample": False, "use_cache": False}
    theirs = twin.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), **options, **settings)
    assert torch.equal(ours.sequences, theirs.sequences)
    if "num_beams" in settings:
        torch.testing.assert_close(ours.scores, theirs.sequences_scores, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_the_same_as_hugging_face_with_padding():
    model = decoder(positions="relative")
    twin, (tokens, real) = hugging_face(model), padded(rows(7, 3, 5), "left")
    settings = {"max_new_tokens": 9, "eos_token_id": [2, 7, 11], "pad_token_id": 3, "num_beams": 4}
    ours = model.generate(tokens, real, **settings)
    theirs = twin.generate(input_ids=tokens, attention_mask=real.long(), do_sample=False, use_cache=False, **settings)
    assert torch.equal(ours, theirs)


@torch.no_grad()
def test_too_few_sequences_are_filled_up():
    model = decoder(vocabulary=5)
    result = model.generate(
        torch.tensor([[3, 4]]), num_beams=7, num_return_sequences=7, max_new_tokens=1, return_scores=True
    )
    assert result.scores.isfinite().tolist() == [True] * 5 + [False] * 2
    assert result.sequences[5:].tolist() == [[3, 4, 0]] * 2
