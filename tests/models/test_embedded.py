"""The model that comes with Transom: small, whole, described, and able to translate."""

import pytest

from transom.files.atomic_files import verify_manifest
from transom.models import EncoderDecoder
from transom.models.embedded import EMBEDDED, embedded_folder
from transom.names import Misfit
from transom.training.inference import load_for_task, translate


@pytest.fixture(scope="module")
def model():
    return load_for_task(embedded_folder(), "encoder_decoder")


@pytest.mark.parametrize("name", EMBEDDED)
def test_it_is_small_whole_and_says_where_it_comes_from(name):
    folder = embedded_folder(name)
    verify_manifest(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 13 * 10**6
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for word in (
        "recipes/en-fr.toml",
        "recipes/en-fr/everyday.toml",
        "recipes/en-fr/robust.toml",
        "Tatoeba",
        "CC-BY 2.0",
        "seed",
        "sacreBLEU",
        "transom evaluate",
    ):
        assert word in readme


def test_it_translates_plain_sentences(model):
    """Not how well, which is measured by `transom evaluate`; only that it is the trained model and not another."""
    assert isinstance(model.model, EncoderDecoder)
    known = {"It is raining.": "Il pleut.", "He is my friend.": "C'est mon ami.", "What is your name?": "nom"}
    known |= {"yes": "Oui", "WHERE DO YOU LIVE?": "OÙ VIVEZ-VOUS ?", "1,250 students": "1 250 étudiants"}
    translations = translate(model.model, model.tokenizer, list(known), beams=4)
    for expected, translation in zip(known.values(), translations, strict=True):
        assert expected in translation


def test_an_unknown_name_raises_an_error():
    with pytest.raises(Misfit) as error:
        embedded_folder("en-de")
    assert str(error.value) == "the embedded model must be one of en-fr, but got 'en-de'; did you mean 'en-fr'?"
