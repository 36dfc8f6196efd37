"""What every model of the runner can do with text, and a text as a model takes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from transom.names import Misfit, count_noun

if TYPE_CHECKING:
    from torch import Tensor, nn

    from transom.training.inference import Classification

OnToken = Callable[[int], object]  # called with each token id as soon as the model has chosen it
OnBatch = Callable[[int], object]  # called with the number of texts that are finished
OnText = Callable[[str], object]  # called with each new piece of text
BEAMS = 4  # of a beam search
MOST_NEW = 200  # tokens to write after a prompt
KINDS = {"encoder": "an encoder", "decoder": "a decoder", "encoder_decoder": "an encoder–decoder"}


@dataclass(frozen=True, eq=False)
class EncodedText:
    """One text as a model takes it: the inputs by name, and the tokens behind them.

    An encoder–decoder has a target too: `targets` are the tokens its decoder reads, `written` the token that each of
    them should be followed by. For other models both are empty.
    """

    inputs: dict[str, Any]
    ids: list[int]
    tokens: list[str]
    target_ids: list[int] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)


class TextModel:
    """A model that runs on text.

    name      the name it was loaded by
    origin    "transom" or "hf"
    kind      "encoder", "decoder" or "encoder_decoder"
    longest   the most tokens it takes, special ones included; None if it sets no limit
    """

    origin: str
    name: str
    kind: str
    model: "nn.Module"
    longest: int | None

    def translate(
        self,
        texts: Sequence[str],
        beams: int = BEAMS,
        on_batch: OnBatch | None = None,
        blanks: bool = False,
        **settings: Any,
    ) -> list[str]:
        """Translate each text with an encoder–decoder; the settings are those of the model's own `generate`.

        on_batch   called with the number of texts in each finished batch
        blanks     let an empty text stay empty, instead of raising an error
        """
        raise NotImplementedError

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int = MOST_NEW, stream: OnText | None = None, **settings: Any
    ) -> list[str]:
        """Continue each prompt with a decoder: greedily, or by the settings of the model's own `generate` (do_sample,
        seed, temperature, top_k, top_p and others).

        stream   called with each piece of text as soon as its characters are complete, prompt after prompt
        """
        raise NotImplementedError

    def classify(self, texts: Sequence[str]) -> "list[Classification]":
        """The label that an encoder gives each text, and the probability of every label."""
        raise NotImplementedError

    @property
    def labels(self) -> list[str]:
        """The labels of which an encoder finds one; empty for any other model."""
        return []

    @property
    def chat_template(self) -> str | None:
        """The program that comes with a model and writes its chats: shown as text, never run; None if there is none."""
        return None

    def encode_pieces(self, text: str, longest: int | None = None) -> list[list[int]]:
        """A text in pieces of at most `longest` tokens, each with its special tokens; none for an empty text."""
        raise NotImplementedError

    def make_inputs(self, ids: list[int], target_ids: list[int] | None = None) -> dict[str, Any]:
        """Token ids as the tensors that the model takes, by name."""
        raise NotImplementedError

    def inputs_for_last(self, inputs: dict[str, Any], rows: int) -> dict[str, Any]:
        """The same inputs; a model that can compute the logits of its last rows alone is asked for that many."""
        return inputs

    def find_target(self, ids: list[int], target: str | None, on_token: OnToken | None) -> tuple[int, list[int]]:
        """The start token of an encoder–decoder and the tokens of its target: the given one, or its own greedy one."""
        raise NotImplementedError

    def generate_ids(self, ids: list[int], on_token: OnToken | None = None, **settings: int) -> list[int]:
        """The prompt and the tokens that greedy search writes after it (for an encoder–decoder, the start token)."""
        raise NotImplementedError

    def run(self, encoded: EncodedText) -> "Tensor":
        """Run the model: logits, or vectors if it has no head."""
        raise NotImplementedError

    def token_strings(self, ids: list[int]) -> list[str]:
        """The text of each token."""
        raise NotImplementedError

    def decode(self, ids: list[int]) -> str:
        """The text of the tokens together, without special ones."""
        raise NotImplementedError

    def written_decoder(self, prompt: str) -> Callable[[list[int]], str]:
        """What turns the tokens that the model writes into text: of a decoder, as it follows the prompt."""
        from transom.training.inference import decode_continuation

        if self.kind != "decoder":
            return self.decode
        return partial(decode_continuation, self.decode, prompt, self.encode_fitting(prompt))

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that the model reads as its unknown token."""
        raise NotImplementedError

    def encode_text(self, text: str, target: str | None = None, on_token: OnToken | None = None) -> EncodedText:
        """A text that fits the model, as the model takes it."""
        return self.prepare_inputs(self.encode_fitting(text), target, on_token)

    def encode_fitting(self, text: str) -> list[int]:
        """The tokens of a text that must not be empty, nor longer than the model takes."""
        pieces = self.encode_pieces(text)
        if not pieces:
            raise Misfit("the text is empty, but there must be something to read; give a word or more")
        if len(pieces) > 1:
            count = sum(map(len, pieces))
            raise Misfit(
                f"the text has {count} tokens, but {self.name} takes {self.longest} at most; give a shorter one"
            )
        return pieces[0]

    def prepare_inputs(self, ids: list[int], target: str | None = None, on_token: OnToken | None = None) -> EncodedText:
        """Token ids as the model takes them; by default the target is what the model itself writes, greedily."""
        if self.kind == "encoder_decoder":
            start, written = self.find_target(ids, target, on_token)
            read = [start, *written[:-1]]
            target_tokens = (read, self.token_strings(read), self.token_strings(written))
            return EncodedText(self.make_inputs(ids, read), ids, self.token_strings(ids), *target_tokens)
        if target is not None:
            raise Misfit(
                f"a target is for an encoder–decoder, but {self.name} is {KINDS[self.kind]}; leave the target out"
            )
        return EncodedText(self.make_inputs(ids), ids, self.token_strings(ids))

    def continue_tokens(self, ids: list[int], max_new_tokens: int, on_token: OnToken | None = None) -> list[int]:
        """What a decoder writes after these tokens, greedily, as far as it has room."""
        if self.kind != "decoder":
            raise Misfit(f"only a decoder continues a text, but {self.name} is {KINDS[self.kind]}; leave it out")
        count = self.room_for(max_new_tokens, len(ids))
        return self.generate_ids(ids, on_token, max_new_tokens=count)[len(ids) :] if count > 0 else []

    def room_for(self, wanted: int, length: int) -> int:
        """How many of the wanted new tokens fit after a sequence of this length."""
        return wanted if self.longest is None else min(wanted, self.longest - length)

    def truncation_note(self, encoded: EncodedText, new_ids: list[int], wanted: int) -> str:
        """A note if the model had no room for all the tokens asked for; empty if it ended by itself."""
        # The last new token is not read.
        is_full = self.longest is not None and len(encoded.ids) + bool(new_ids) >= self.longest
        if len(new_ids) >= wanted or not is_full:
            return ""
        room = f"{self.name} has room for {len(new_ids)}: it takes {self.longest} in all"
        return f"asked to write {count_noun(wanted, 'token')}, {room}"

    def check_task(self, task: str, texts: Sequence[str]) -> None:
        """Complain of a model of another kind, and of a single string, which would be read letter by letter."""
        from transom.training.inference import TASKS

        if TASKS[self.kind] != task:
            wanted = next(KINDS[kind] for kind, its_task in TASKS.items() if its_task == task)
            raise Misfit(
                f"{task} takes {wanted}, but {self.name} is {KINDS[self.kind]}; use {TASKS[self.kind]}, or name"
                " another model"
            )
        if isinstance(texts, str):
            raise Misfit(f"{task} takes a list of texts, but got one text; put it in a list")


def split_pieces(ids: list[int], longest: int | None, room: int) -> list[list[int]]:
    """Token ids in pieces of at most `longest`, with `room` of it left free for special tokens."""
    if longest is not None and longest <= room:
        raise Misfit(f"pieces need {room + 1} tokens or more, but got longest={longest}; give a larger number")
    width = len(ids) if longest is None else longest - room
    return [ids[first : first + width] for first in range(0, len(ids), width)] if ids else []


def smallest(*numbers: int | None) -> int | None:
    """The smallest number that is not None."""
    return min((number for number in numbers if number is not None), default=None)
