"""The model that comes with Transom: small, whole, described, and able to translate."""

import pytest

from transom.files.durable import checked
from transom.models import EncoderDecoder
from transom.models.embedded import EMBEDDED, embedded
from transom.names import Misfit
from transom.run.texts import ready, translated


@pytest.fixture(scope="module")
def model():
    return ready(embedded(), "encoder_decoder")


@pytest.mark.parametrize("name", EMBEDDED)
def test_it_is_small_whole_and_says_where_it_comes_from(name):
    folder = embedded(name)
    checked(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 12 * 10**6
    told = (folder / "README.md").read_text(encoding="utf-8")
    for word in ("recipes/en-fr.toml", "Tatoeba", "CC-BY 2.0", "seed", "sacreBLEU", "transom evaluate"):
        assert word in told


def test_it_translates_plain_sentences(model):
    """Not how well, which is measured by `transom evaluate`; only that it is the trained model and not another."""
    assert isinstance(model.model, EncoderDecoder)
    known = {"It is raining.": "Il pleut.", "He is my friend.": "C'est mon ami.", "What is your name?": "nom"}
    said = translated(model.model, model.tokenizer, list(known), beams=4)
    for expected, found in zip(known.values(), said, strict=True):
        assert expected in found


def test_another_name_is_told():
    with pytest.raises(Misfit) as error:
        embedded("en-de")
    assert str(error.value) == "the embedded model must be one of en-fr, but got 'en-de'; did you mean 'en-fr'?"
