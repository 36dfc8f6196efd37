"""The models that come with Transom: small, trained by a recipe of the repository, and there without a network."""

from pathlib import Path

from transom.files.strict import chosen

HERE = Path(__file__).parent
EMBEDDED = {"en-fr": "English to French"}


def embedded(name: str = "en-fr") -> Path:
    """The folder of a model that comes with Transom; see EMBEDDED."""
    chosen("the embedded model", name, EMBEDDED)
    return HERE / name
