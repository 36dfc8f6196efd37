"""generate beside transformers' own: random small models, random prompts, random rules, the same tokens and scores."""

import random

import pytest
import torch
from models.small import assert_misfit, decoder

from transom.models import from_hugging_face
from transom.models.generation import sample

transformers = pytest.importorskip("transformers")

VOCABULARY = 23
TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 17}
SIDES = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 2), ("ffn_dim", 17))}
BART = {"d_model": 12, "encoder_attention_heads": 2, "decoder_attention_heads": 2, **SIDES}
MODELS = {
    "GPT2LMHeadModel": {"n_embd": 12, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "LlamaForCausalLM": {**LLAMA, "num_key_value_heads": 1},
    "Qwen3ForCausalLM": {**LLAMA, "num_key_value_heads": 1, "head_dim": 6},
    "BartForConditionalGeneration": {**BART, "decoder_start_token_id": 2},
    "MarianMTModel": {**BART, "decoder_start_token_id": 0, "scale_embedding": True},
    "T5ForConditionalGeneration": {"d_model": 12, "d_kv": 6, "d_ff": 17, "num_heads": 2, "decoder_start_token_id": 0},
}
FORCED = (2, 7, 13, 17)  # never suppressed, which would be an error
OPTIONS = {
    "min_new_tokens": lambda rng: rng.randint(1, 8),
    "min_length": lambda rng: rng.randint(1, 14),
    "repetition_penalty": lambda rng: rng.choice([0.7, 1.3, 2.0]),
    "no_repeat_ngram_size": lambda rng: rng.randint(1, 3),
    "bad_words_ids": lambda rng: [tokens(rng, 3) for _ in range(rng.randint(1, 4))],
    "suppress_tokens": lambda rng: [token for token in tokens(rng, 4) if token not in FORCED],
    "begin_suppress_tokens": lambda rng: tokens(rng, 4),
    "forced_bos_token_id": lambda rng: rng.choice(FORCED),
    "forced_eos_token_id": lambda rng: rng.choice([2, [2], *FORCED]),
}
SEARCHES = {
    "greedy": {},
    "beams": {
        "length_penalty": lambda rng: rng.choice([-1.0, 0.0, 0.5, 2.0]),
        "early_stopping": lambda rng: rng.choice([True, False, "never"]),
    },
    "sampling": {
        "temperature": lambda rng: rng.choice([0.3, 0.8, 1.7]),
        "top_p": lambda rng: rng.choice([0.1, 0.5, 0.9, 1.0]),
        "min_p": lambda rng: rng.choice([0.01, 0.1, 0.5]),
        "num_return_sequences": lambda rng: rng.randint(2, 3),
    },
}


def tokens(rng, most):
    return [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, most))]


def build(rng):
    """A model of transformers with large parameters, which write varied tokens."""
    name = rng.choice(list(MODELS))
    torch.manual_seed(rng.randrange(10**6))
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**MODELS[name], **TOKENS))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "embed_positions" not in parameter_name:
                parameter.mul_(rng.choice([1.0, 6.0, 20.0]))
    # transformers 5 keeps the start token in the generation settings.
    start = getattr(model.config, "decoder_start_token_id", None)
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=start
    )
    return model.eval()


def draw_prompts(rng, padded_in_front):
    rows, width = rng.randint(1, 3), rng.randint(1, 6)
    ids = torch.tensor([[rng.randrange(3, VOCABULARY) for _ in range(width)] for _ in range(rows)])
    mask = torch.ones_like(ids)
    if rng.random() < 0.5:
        for row in range(rows):
            padding = rng.randrange(width)
            hidden = slice(padding) if padded_in_front else slice(width - padding, width)
            mask[row, hidden] = ids[row, hidden] = 0
    return ids, mask


def draw_options(rng, search, width):
    options = {"eos_token_id": rng.choice([2, [2, 7], [2, 7, 11], None]), "pad_token_id": rng.choice([0, 3])}
    limit = {"max_new_tokens": rng.randint(1, 12)} if rng.random() < 0.7 else {"max_length": rng.randint(9, 20) + width}
    options |= limit | {name: draw(rng) for name, draw in OPTIONS.items() if rng.random() < 0.3}
    options |= {name: draw(rng) for name, draw in SEARCHES[search].items() if rng.random() < 0.5}
    if search == "sampling":
        options |= {"do_sample": True, "top_k": rng.choice([0, rng.randint(1, 10)])}
    if search == "beams":
        beams = rng.randint(2, 5)
        options |= {"num_beams": beams, "num_return_sequences": rng.randint(1, beams)}
    return options


class Prefer(transformers.LogitsProcessor):
    """A rule of the caller's: the token that is so many after the last one."""

    def __init__(self, step):
        self.step = step

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        scores[torch.arange(len(scores)), (input_ids[:, -1] + self.step) % VOCABULARY] += 1.5
        return scores


def least_likely(logits):
    """The least likely token that is left to sample from: what a filter leaves decides."""
    return logits.masked_fill(logits == -torch.inf, torch.inf).argmin(dim=-1)


def cut(rows, start, ends):
    """Each row up to its end; transformers fills the rest with an end token if padding is token 0."""
    ends = [ends] if isinstance(ends, int) else ends or []
    return [row[: next((i + 1 for i in range(start, len(row)) if row[i] in ends), None)] for row in rows.tolist()]


def compare(seed):
    """Both write by the same rules; what differs is shown with them."""
    rng = random.Random(seed)
    theirs, search = build(rng), rng.choice(["greedy", "beams", "beams", "sampling"])
    has_source = theirs.config.is_encoder_decoder
    ids, mask = draw_prompts(rng, padded_in_front=not has_source)
    options = draw_options(rng, search, ids.shape[1])
    if not has_source and not bool(mask.all()):
        # transformers' rules read padding as tokens, ours do not: it matters for that token alone
        options["suppress_tokens"] = [*options.get("suppress_tokens", []), 0]
    custom = [Prefer(rng.randint(1, 4))] if rng.random() < 0.25 else []
    ours = from_hugging_face(theirs)
    case = {"seed": seed, "model": type(theirs).__name__, "ids": ids.tolist(), "mask": mask.tolist(), **options}
    found = ours.generate(ids, attention_mask=mask, return_scores=True, logits_processor=custom, **options)
    settings = {"do_sample": False, "return_dict_in_generate": True, "output_scores": True, **options}
    processors = transformers.LogitsProcessorList(custom)
    expected = theirs.generate(ids, attention_mask=mask, logits_processor=processors, **settings)
    start = 1 if has_source else ids.shape[1]
    sequences = [cut(rows, start, options["eos_token_id"]) for rows in (found.sequences, expected.sequences)]
    if search == "beams":
        scores = expected.sequences_scores
        possible = scores > -1e6  # rules can leave fewer sequences than were asked for
        assert torch.equal(possible, found.scores > -1e6), case
        torch.testing.assert_close(found.scores[possible], scores[possible], rtol=1e-4, atol=1e-4, msg=str(case))
        sequences = [[row for row, there in zip(rows, possible, strict=True) if there] for rows in sequences]
    assert sequences[0] == sequences[1], case


@pytest.fixture
def choose_least_likely(monkeypatch):
    def multinomial(probabilities, num_samples, **_):
        return least_likely(probabilities.log())[:, None]

    monkeypatch.setattr(torch, "multinomial", multinomial)
    monkeypatch.setattr(sample, "sample_token", lambda logits, _: least_likely(logits.softmax(dim=-1).log()))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("first", range(0, 60, 20))
@torch.no_grad()
def test_random_rules_give_the_tokens_of_transformers(first, choose_least_likely):
    for seed in range(first, first + 20):
        compare(seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("first", range(1000, 2000, 100))
@torch.no_grad()
def test_many_random_rules_give_the_tokens_of_transformers(first, choose_least_likely):
    for seed in range(first, first + 100):
        compare(seed)


def test_min_new_tokens_takes_precedence_over_min_length():
    model, prompt, ends = decoder(), [[4, 6, 8]], list(range(23))
    rows = model.generate(prompt, min_new_tokens=2, min_length=9, max_new_tokens=9, eos_token_id=ends[:22])
    assert rows.shape == (1, 6), "two new tokens that end nothing, and one that does"


def test_a_token_that_is_forced_and_suppressed_is_an_error():
    for name, value in (("forced_eos_token_id", (5, 7)), ("forced_bos_token_id", 5)):
        message = f"generate: {name}={value!r} can be forced only if it may be chosen, but suppress_tokens has it too"
        settings = {name: value, "suppress_tokens": [5, 7, 11]}
        assert_misfit(f"{message}; take it out of one of the two", decoder().generate, [[4]], **settings)
    assert decoder().generate([[4]], forced_eos_token_id=(5, 7), suppress_tokens=[5], max_new_tokens=1)[0, 1] == 7
