"""Transom's own models on text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.files.tokenizer_files import read_chat_template
from transom.names import Misfit
from transom.runner.text_model import (
    BEAMS,
    MOST_NEW,
    EncodedText,
    OnBatch,
    OnText,
    OnToken,
    TextModel,
    smallest,
    split_pieces,
)

if TYPE_CHECKING:
    from torch import Tensor

    from transom.text.tokenizer import Tokenizer
    from transom.training.inference import Classification

EXTRA_TOKENS = 10  # a translation may have twice the tokens of its source, and these


class TransomTextModel(TextModel):
    """A model of Transom's, with its tokenizer."""

    origin = "transom"

    def __init__(self, folder: Path, name: str | None = None) -> None:
        from transom.training.inference import load_for_task

        loaded = load_for_task(folder)
        self.model = loaded.model
        self.tokenizer: Tokenizer = loaded.tokenizer
        self.name, self.kind = name or str(folder), loaded.model.kind
        self.longest = int(loaded.model.config.longest)

    def translate(
        self,
        texts: Sequence[str],
        beams: int = BEAMS,
        on_batch: OnBatch | None = None,
        blanks: bool = False,
        **settings: Any,
    ) -> list[str]:
        from transom.models import EncoderDecoder
        from transom.training.inference import translate

        self.check_task("translate", texts)
        assert isinstance(self.model, EncoderDecoder)
        return translate(self.model, self.tokenizer, texts, beams, on_batch, blanks, **settings)

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int = MOST_NEW, stream: OnText | None = None, **settings: Any
    ) -> list[str]:
        from transom.models import Decoder
        from transom.training.inference import continue_text

        self.check_task("generate", prompts)
        assert isinstance(self.model, Decoder)
        settings = {"max_new_tokens": max_new_tokens, **settings}
        return [continue_text(self.model, self.tokenizer, prompt, stream, **settings) for prompt in prompts]

    def classify(self, texts: Sequence[str]) -> "list[Classification]":
        from transom.models import Encoder
        from transom.training.inference import classify

        self.check_task("classify", texts)
        assert isinstance(self.model, Encoder)
        return classify(self.model, self.tokenizer, texts)

    @property
    def labels(self) -> list[str]:
        return list(getattr(self.model.config, "labels", ()))

    @property
    def chat_template(self) -> str | None:
        return read_chat_template(self.tokenizer.settings, self.tokenizer.files)

    def encode_pieces(self, text: str, longest: int | None = None) -> list[list[int]]:
        wrapping = self.tokenizer.wrapping(self.kind)
        ids = self.tokenizer.encode(text) if text.strip() else []
        return [wrapping.wrap(piece) for piece in split_pieces(ids, smallest(longest, self.longest), wrapping.room)]

    def make_inputs(self, ids: list[int], target_ids: list[int] | None = None) -> dict[str, Any]:
        import torch

        if target_ids is None:
            return {"tokens": torch.tensor([ids])}
        return {"source": torch.tensor([ids]), "target": torch.tensor([target_ids])}

    def find_target(self, ids: list[int], target: str | None, on_token: OnToken | None) -> tuple[int, list[int]]:
        settings: Any = self.model.generation
        if target is None:
            written = self.generate_ids(ids, on_token, max_length=self.room_for(2 * len(ids) + EXTRA_TOKENS, 0))[1:]
            last = next((place for place, token in enumerate(written) if token in settings.ends), len(written))
            written = written[: last + 1]
        else:
            written = self.tokenizer.wrapping(self.kind).wrap(self.tokenizer.encode(target))
        if self.room_for(len(written), 0) < len(written):
            raise Misfit(
                f"the target has {len(written)} tokens, but {self.name} takes {self.longest} at most;"
                " give a shorter one"
            )
        return settings.decoder_start_token_id, written

    def generate_ids(self, ids: list[int], on_token: OnToken | None = None, **settings: int) -> list[int]:
        model: Any = self.model
        streamer = None if on_token is None else lambda row, token: on_token(token)
        return model.generate([ids], num_beams=1, do_sample=False, streamer=streamer, **settings)[0].tolist()

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids)

    def unknown_words(self, text: str) -> list[str]:
        return self.tokenizer.unknown_words(text)

    def run(self, encoded: EncodedText) -> "Tensor":
        import torch

        model: Any = self.model
        headless = self.kind == "encoder" and model.head is None
        with torch.no_grad():
            return (model.hidden if headless else model)(**encoded.inputs)

    def token_strings(self, ids: list[int]) -> list[str]:
        return self.tokenizer.pieces(ids)
