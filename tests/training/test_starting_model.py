"""A run that starts from a trained model: the same numbers, another tokenizer, more layers, other sizes refused."""

import pytest
import torch
from msgspec.structs import replace
from small_runs import pairs_file, small_recipe

from transom.models import EncoderDecoder
from transom.names import Misfit
from transom.text.tokenizer import Tokenizer
from transom.training.inference import load_for_task
from transom.training.starting_model import start_from_model
from transom.training.train import train

pytestmark = pytest.mark.usefixtures("own_errors")
SIZES = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_hidden": 32, "heads": 2, "arrangement": "pre_norm"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    return train(small_recipe(folder / "run", pairs_file(folder), model=SIZES, train={"updates": 2}))


def new_model(folder, **changes) -> EncoderDecoder:
    torch.manual_seed(5)
    return EncoderDecoder(replace(load_for_task(folder).model.config, **changes)).eval()


def test_more_layers_compute_the_same_at_first(trained):
    old = load_for_task(trained)
    model = new_model(trained, encoder_layers=3, decoder_layers=2)
    note = start_from_model(model, old.tokenizer, str(trained))
    assert note == f"{trained}: the same {old.tokenizer.size} tokens"
    source, target = torch.randint(4, old.tokenizer.size, (3, 7)), torch.randint(4, old.tokenizer.size, (3, 5))
    with torch.no_grad():
        assert torch.equal(model(source, target), old.model(source, target))


def test_another_tokenizer_starts_from_the_means_of_old_tokens(trained):
    old = load_for_task(trained)
    tokenizer = Tokenizer.train("bpe", ["a b c", "a b", "d e"], 290, case=True)
    model = new_model(trained, vocabulary=tokenizer.size)
    before = model.unembedding.detach().clone()
    note = start_from_model(model, tokenizer, str(trained))
    count = int((model.unembedding != before).any(dim=1).sum())
    assert note == f"{trained}: {count} of {tokenizer.size} tokens start from its tokens"
    vectors, found = old.model.unembedding, model.unembedding
    a = tokenizer.tokens.index("Ġa")
    unknown = old.tokenizer.unknown  # " a" is a, and "A" is not in the vocabulary
    assert torch.equal(found[a], vectors[[old.tokenizer.tokens.index("a"), unknown]].mean(dim=0))
    assert torch.equal(found[:4], vectors[:4])
    mark = tokenizer.tokens.index("Ď")  # the byte 0x0e, the mark of a capital
    assert tokenizer.pieces([mark]) == ["↑"]
    assert torch.equal(found[mark], before[mark])


@pytest.mark.parametrize(("changes", "words"), [({"d_hidden": 31}, "d_hidden=32"), ({"heads": 4}, "heads=2")])
def test_other_sizes_are_refused(trained, changes, words):
    tokenizer = load_for_task(trained).tokenizer
    ((_, value),) = changes.items()
    with pytest.raises(Misfit) as error:
        start_from_model(new_model(trained, **changes), tokenizer, str(trained))
    assert str(error.value) == f"the model in {trained} has {words}, but the recipe's [model] has {value}; set the same"


def test_a_run_starts_from_it_and_resumes_only_with_it(trained, tmp_path):
    start = {"start": {"model": str(trained)}, "model": SIZES}
    recipe = small_recipe(tmp_path / "run", pairs_file(tmp_path), train={"updates": 3}, **start)
    train(recipe)
    parameters = trained / "model.safetensors"
    saved = parameters.read_bytes()
    parameters.write_bytes(saved + b" ")
    try:
        with pytest.raises(Misfit, match=f"holds a run that started with another {parameters}"):
            train(replace(recipe, train=replace(recipe.train, updates=5)))
    finally:
        parameters.write_bytes(saved)
