"""Loading a Hugging Face model for the commands: from this machine, safetensors only, and none of its code."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transom.names import Misfit

if TYPE_CHECKING:
    from torch import nn

WRITERS = ("ForCausalLM", "LMHeadModel")  # how the classes of models that write on are named


def loaded(name: str) -> tuple["nn.Module", Any, str]:
    """Model, tokenizer and kind, by a folder or by an id that is in the local cache."""
    offline()
    try:
        import transformers
    except ImportError as error:
        raise Misfit(
            f"{name} is a Hugging Face model, which needs the extra hf; install it with pip install 'transom[hf]'"
        ) from error
    quiet(transformers)
    here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with complaining(name, "be a Hugging Face model"):
        config = transformers.AutoConfig.from_pretrained(name, **here)
    with complaining(name, "have a tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **here)
    with complaining(name, "hold a model in safetensors"):
        model = builder(transformers, config).from_pretrained(name, use_safetensors=True, local_files_only=True)
    kind = "encoder_decoder" if config.is_encoder_decoder else "decoder" if writes(model) else "encoder"
    return model.eval(), tokenizer, kind


def offline() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the library is imported


def cached(name: str) -> bool:
    """Whether a model of that id is in the local cache; nothing is fetched."""
    offline()
    try:
        from huggingface_hub import try_to_load_from_cache

        return isinstance(try_to_load_from_cache(name, "config.json"), str)
    except (ImportError, ValueError):  # ValueError: no id could be so
        return False


def builder(library: Any, config: Any) -> Any:
    """The class a config names, if the library itself has it; with two sides always one that can write."""
    if config.is_encoder_decoder:
        return library.AutoModelForSeq2SeqLM
    named = getattr(library, next(iter(config.architectures or ()), ""), None)
    known = isinstance(named, type) and issubclass(named, library.PreTrainedModel)
    return named if known else library.AutoModel


def writes(model: "nn.Module") -> bool:
    return type(model).__name__.endswith(WRITERS)


def quiet(library: Any) -> None:
    """Neither bars nor hints: stderr is the command's own."""
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()


@contextmanager
def complaining(name: str, what: str) -> Iterator[None]:
    """Whatever the library makes of a folder as a Misfit of one line."""
    try:
        yield
    except Exception as error:  # it raises OSError, ValueError, ImportError, KeyError and those of safetensors
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise Misfit(
            f"{name} should {what}, but it cannot be loaded from this machine: {first:.200};"
            " name a folder, or fetch it into the local cache first"
        ) from error
