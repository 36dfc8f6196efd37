"""Several threads that write at once, with one model and with several, write what one after another would."""

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
    """What to ask of which model: every way of writing, prompts of many lengths."""
    ways = [settings | ({"seed": 3} if settings.get("do_sample") else {}) for settings in WAYS.values()]
    for number in range(CALLS):
        prompts = [row.tolist() for row in rows(*[3 + (number * 5 + place) % 11 for place in range(1 + number % 3)])]
        told = {"max_new_tokens": 7, "eos_token_id": (2, 7)} | ways[number % len(ways)]
        yield models[number % len(models)], prompts, told


@pytest.mark.parametrize("engine", ["native where it is", "torch"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.usefixtures("own_errors")
def test_threads_write_what_one_would(several, training, engine, monkeypatch):
    if engine == "torch":
        monkeypatch.setenv("TRANSOM_ENGINE", "torch")
    models = [decoder(positions="rotary", dropout=0.5)]
    if several:
        models += [decoder(dropout=0.5), encoder_decoder(positions="alibi", dropout=0.5)]
    for model in models:
        model.train(training)
    asked = list(calls(models))

    def write(call):
        model, prompts, told = call
        return model.generate(prompts, **told)

    expected = [write(call) for call in asked]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(write, asked * 2))
    for one, other in zip(found, expected * 2, strict=True):
        assert torch.equal(one, other)
    assert all(module.training == training for model in models for module in model.modules())
