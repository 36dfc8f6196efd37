"""A text through a model, with every token it writes and all of its attention."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transom.runner.text_model import EncodedText, OnToken, TextModel

if TYPE_CHECKING:
    from torch import Tensor

    from transom.lens import Sight, Trace
    from transom.lens.capture.head_origin import HeadOrigin

LIKELY = 5  # predictions listed for each row
LIKELY_LABELS = 3


@dataclass(frozen=True, eq=False)
class TextRun:
    """A text as a model read it, and the tokens that the model wrote after it."""

    model: TextModel
    text: str
    encoded: EncodedText
    new_ids: list[int]
    note: str  # what could not be done as it was asked

    @property
    def last_token(self) -> list[str]:
        """The last token that a decoder wrote, which it did not read; empty if it wrote none."""
        return self.model.token_strings(self.new_ids[-1:])

    @property
    def output(self) -> str:
        """What the model wrote, as it follows the text, or the target it was given."""
        return self.model.written_decoder(self.text)(self.encoded.target_ids[1:] or self.new_ids)

    def find_origin(self, layer: str, sight: "Sight", head: int) -> "HeadOrigin":
        """The input and the parameters of a head, found by running the model again."""
        from transom.lens.capture.head_origin import find_origin

        return find_origin(self.model.model, lambda: self.model.run(self.encoded), layer, sight, head)

    def to_dict(self) -> dict[str, Any]:
        """The tokens of the run, and the output."""
        encoded, is_decoder = self.encoded, self.model.kind == "decoder"
        return {
            "text": self.text,
            "tokens": encoded.tokens,
            "targets": encoded.targets,
            "written": encoded.written or ([*encoded.tokens[1:], *self.last_token] if is_decoder else []),
            "output": self.output,
            "likely": [],
            "seconds": None,
            "note": self.note or None,
        }


def encode_and_continue(
    model: TextModel, text: str, target: str | None = None, max_new_tokens: int = 0, on_token: OnToken | None = None
) -> TextRun:
    """Encode a text for a model, and let a decoder write up to `max_new_tokens` after it."""
    encoded = model.encode_text(text, target, on_token)
    if not max_new_tokens:
        return TextRun(model, text, encoded, [], "")
    new_ids = model.continue_tokens(encoded.ids, max_new_tokens, on_token)
    encoded = model.prepare_inputs([*encoded.ids, *new_ids[:-1]])  # the last token is predicted, and not read
    return TextRun(model, text, encoded, new_ids, model.truncation_note(encoded, new_ids, max_new_tokens))


def watch_run(run: TextRun) -> tuple["Trace", "Tensor"]:
    """Run the model and record every attention, and what is unseen; returns the output too, logits or vectors."""
    from transom.lens import watch
    from transom.lens.capture.evidence import require_attention

    encoded = run.encoded
    targets = [*encoded.targets, *encoded.written[-1:]] or None  # the last is written, and not read
    tokens = [*encoded.tokens, *run.last_token]
    with watch(run.model.model, tokens=tokens, targets=targets, unseen="allow") as trace:
        output = run.model.run(encoded)
    return require_attention(trace), output


def likely_labels(model: TextModel, logits: "Tensor") -> str:
    """The most likely labels of a text with their probabilities; empty for a model without labels."""
    if not model.labels:
        return ""
    chances, places = logits[0].float().softmax(dim=-1).topk(min(LIKELY_LABELS, len(model.labels)))
    pairs = zip(places.tolist(), chances.tolist(), strict=True)
    return ", ".join(f"{model.labels[place]} ({chance:.3f})" for place, chance in pairs)


def likely_tokens(model: TextModel, logits: "Tensor") -> list[list[dict[str, Any]]]:
    """The most likely next tokens of each row; empty for an encoder."""
    if model.kind == "encoder":
        return []
    top = logits[0].float().softmax(dim=-1).topk(min(LIKELY, logits.shape[-1]))
    tokens = [model.token_strings(row) for row in top.indices.tolist()]
    return [
        [{"token": token, "probability": chance} for token, chance in zip(row, chances, strict=True)]
        for row, chances in zip(tokens, top.values.tolist(), strict=True)
    ]
