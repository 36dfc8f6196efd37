"""Several threads that generate at once, with one model or several, get what each would get alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from models.small import rows
from models.writers import WAYS, decoder, encoder_decoder

THREADS, CALLS = 5, 10


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(67)


def calls(models):
    """Calls of the models: with every setting of WAYS, and prompts of many lengths."""
    ways = [settings | ({"seed": 3} if settings.get("do_sample") else {}) for settings in WAYS.values()]
    for number in range(CALLS):
        prompts = [row.tolist() for row in rows(*[3 + (number * 5 + row) % 11 for row in range(1 + number % 3)])]
        settings = {"max_new_tokens": 7, "eos_token_id": (2, 7)} | ways[number % len(ways)]
        yield models[number % len(models)], prompts, settings


@pytest.mark.parametrize("engine", ["native where it is", "torch"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.usefixtures("own_errors")
def test_threads_generate_what_one_would(several, training, engine, monkeypatch):
    if engine == "torch":
        monkeypatch.setenv("TRANSOM_ENGINE", "torch")
    models = [decoder(positions="rotary", dropout=0.5)]
    if several:
        models += [decoder(dropout=0.5), encoder_decoder(positions="alibi", dropout=0.5)]
    for model in models:
        model.train(training)
    all_calls = list(calls(models))

    def generate(call):
        model, prompts, settings = call
        return model.generate(prompts, **settings)

    expected = [generate(call) for call in all_calls]
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(generate, all_calls * 2))
    for result, alone in zip(results, expected * 2, strict=True):
        assert torch.equal(result, alone)
    assert all(module.training == training for model in models for module in model.modules())
