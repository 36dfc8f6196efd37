"""Any model on any text: load it, encode the text, run it watched, continue the text."""

from pathlib import Path

from transom.files.model_paths import check_model_folder, is_gguf, path_exists
from transom.names import Misfit
from transom.runner.hugging_face import HuggingFaceTextModel
from transom.runner.pretrained import CONFIG, find_cached, read_settings
from transom.runner.text_model import EncodedText, TextModel
from transom.runner.transom_model import TransomTextModel

__all__ = ["EncodedText", "TextModel", "load", "load_text_model"]


def load(folder: str | Path | None = None) -> TextModel:
    """Load a model for plain text: it can `translate`, `generate` or `classify`, depending on its kind.

    folder   a Transom folder, a Hugging Face folder, a GGUF file, or a Hugging Face id in the local cache; by default
             the translator from English to French that comes with Transom
    """
    return load_text_model(folder)


def load_text_model(name: str | Path | None = None, text: str | None = None) -> TextModel:
    """Load a model as `load` does; a text that does not fit it is an error before a large model is loaded."""
    if name is None:
        from transom.models.embedded import embedded_folder

        return TransomTextModel(embedded_folder(), "the embedded translator")
    from transom.training.inference import check_is_finished

    folder = Path(name)
    if is_gguf(folder):
        return TransomTextModel(folder)
    check_is_finished(folder)
    if path_exists(folder):
        return TransomTextModel(folder) if is_transom_folder(folder) else HuggingFaceTextModel(str(name), text)
    could_be_id = str(name).count("/") < 2 and not str(name).startswith((".", "/", "~"))
    if could_be_id and ("/" in str(name) or find_cached(str(name)) is not None):
        return HuggingFaceTextModel(str(name), text)
    no_id = ", nor is it in the local Hugging Face cache; Transom downloads nothing" if could_be_id else ""
    raise Misfit(f"{name} should be the folder of a model, but there is no such folder{no_id}; check the path")


def is_transom_folder(folder: Path) -> bool:
    """Whether a folder holds a Transom model, not a Hugging Face one; an error if it holds neither."""
    check_model_folder(folder, CONFIG)
    config = read_settings(str(folder), CONFIG)
    if "model_type" in config:
        return False
    if "format" in config and "model" in config:
        return True
    raise Misfit(
        f"{folder / CONFIG} should describe a model of Transom's (format, model) or of Hugging Face's (model_type), but"
        " it does neither; is it the folder of a model?"
    )
