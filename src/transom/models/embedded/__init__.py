"""The models that come with Transom: small, trained by a recipe of the repository, and there without a network."""

from pathlib import Path

from transom.files.strict_settings import check_choice

HERE = Path(__file__).parent
EMBEDDED = {"en-fr": "English to French"}


def embedded_folder(name: str = "en-fr") -> Path:
    """The folder of a model that comes with Transom; see EMBEDDED."""
    check_choice("the embedded model", name, EMBEDDED)
    return HERE / name
