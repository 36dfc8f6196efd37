"""Hugging Face models on text: from this machine, safetensors only, and none of their code."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transom.files.model_paths import check_no_pickle
from transom.names import Misfit
from transom.runner.pretrained import empty_stdin, first_line, import_transformers, load_pretrained
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
    from torch import Tensor, nn

    from transom.training.inference import Classification

GENERATE_ERRORS = (ValueError, TypeError, KeyError, AttributeError, IndexError, ImportError, RuntimeError)
WRITERS = ("ForCausalLM", "LMHeadModel")  # how the classes of decoders end
CLASSIFIERS = ("ForSequenceClassification",)


def load_model(name: str, config: Any) -> tuple["nn.Module", str]:
    """The model, and its kind."""
    if Path(name).is_dir():
        check_no_pickle(Path(name))
    model = load_pretrained(model_class(name, config), name, "hold a model in safetensors", use_safetensors=True)
    can_write = type(model).__name__.endswith(WRITERS)
    kind = "encoder_decoder" if config.is_encoder_decoder else "decoder" if can_write else "encoder"
    return model.eval(), kind


def model_class(name: str, config: Any) -> str:
    """The class that a config names, if the library has it; for an encoder–decoder always one that can write."""
    if config.is_encoder_decoder:
        return "AutoModelForSeq2SeqLM"
    library = import_transformers(name)
    architectures = config.architectures
    wanted = str(next(iter(architectures), "")) if isinstance(architectures, list | tuple) else ""
    found = getattr(library, wanted, None) if wanted.isidentifier() else None
    is_model = isinstance(found, type) and issubclass(found, library.PreTrainedModel)
    return wanted if is_model else "AutoModel"


def max_tokens(name: str, config: Any, tokenizer: Any) -> int | None:
    """The most tokens that a model takes, special ones included; None if it sets no limit."""
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    for limit in (positions, tokenizer.model_max_length):
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise Misfit(
                f"{name} should say in a number how many tokens it takes, but it says {limit!r:.40};"
                " correct config.json or tokenizer_config.json"
            )
    longest = smallest(positions, tokenizer.model_max_length)
    return None if longest is None or longest > 2**31 else int(longest)


def readable_tokens(tokenizer: Any, ids: list[int]) -> list[str]:
    """The text of each token, as Transom's own tokenizer gives it: a space for Ġ and ▁, and letters where the
    vocabulary has a character for each of their bytes. Special tokens stay as they are."""
    from tokenizers import decoders

    from transom.text.tokenizer import decode_bytes

    special = set(tokenizer.all_special_ids)
    by_byte = isinstance(getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None), decoders.ByteLevel)

    def readable(number: int, token: str) -> str:
        if number in special:
            return token
        return decode_bytes(token) if by_byte else token.replace("▁", " ")

    return list(map(readable, ids, tokenizer.convert_ids_to_tokens(ids)))


class TokenStreamer:
    """Passes on each token that `generate` writes; the first thing that the library puts is the prompt."""

    def __init__(self, on_token: OnToken) -> None:
        self.on_token, self.has_prompt = on_token, False

    def put(self, ids: Any) -> None:
        if self.has_prompt:
            self.on_token(int(ids.flatten()[0]))
        self.has_prompt = True

    def end(self) -> None:
        """Called by the library after the last token; nothing is held back until then."""


class HuggingFaceTextModel(TextModel):
    """A Hugging Face model from this machine: safetensors only, none of its code, nothing downloaded."""

    origin = "hf"

    def __init__(self, name: str, text: str | None = None) -> None:
        self.name = name
        config = load_pretrained("AutoConfig", name, "be a Hugging Face model")
        self.tokenizer = load_pretrained("AutoTokenizer", name, "have a tokenizer")
        self.longest = max_tokens(name, config, self.tokenizer)
        if text is not None:
            self.encode_fitting(text)
        self.model, self.kind = load_model(name, config)

    def translate(
        self,
        texts: Sequence[str],
        beams: int = BEAMS,
        on_batch: OnBatch | None = None,
        blanks: bool = False,
        **settings: Any,
    ) -> list[str]:
        self.check_task("translate", texts)
        translations = []
        for text in texts:
            if blanks and not text.strip():
                translations.append("")
                continue
            ids = self.encode_fitting(text)
            translations.append(self.decode(self.call_generate(ids, num_beams=beams, **settings)))
            if on_batch is not None:
                on_batch(1)
        return translations

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int = MOST_NEW, stream: OnText | None = None, **settings: Any
    ) -> list[str]:
        self.check_task("generate", prompts)
        return [self.continue_prompt(prompt, max_new_tokens, stream, settings) for prompt in prompts]

    def continue_prompt(self, prompt: str, max_new_tokens: int, stream: OnText | None, settings: dict[str, Any]) -> str:
        from transom.training.inference import TextStreamer

        ids = self.encode_fitting(prompt)
        count = self.room_for(max_new_tokens, len(ids))
        if count < 1 <= max_new_tokens:
            raise Misfit(
                f"the prompt has {len(ids)} tokens, but {self.name} takes {self.longest} with those it writes;"
                " give a shorter one"
            )
        decode = self.written_decoder(prompt)
        streamer = TextStreamer(decode, stream)
        if stream is not None:
            settings = {**settings, "streamer": TokenStreamer(lambda token: streamer.on_token(0, token))}
        continuation = decode(self.call_generate(ids, max_new_tokens=count, **settings)[len(ids) :])
        streamer.send(continuation)
        return continuation

    def classify(self, texts: Sequence[str]) -> "list[Classification]":
        from transom.training.inference import Classification

        self.check_task("classify", texts)
        labels = self.labels
        if not labels:
            raise Misfit(
                f"classify takes a model that finds one of several labels, but {self.name} is a"
                f" {type(self.model).__name__} that does not; run it with run(encode_text(text))"
            )
        results = []
        for text in texts:
            chances = self.run(self.encode_text(text))[0].float().softmax(dim=-1).tolist()
            by_label = dict(zip(labels, chances, strict=True))
            results.append(Classification(max(by_label, key=lambda label: by_label[label]), by_label))
        return results

    @property
    def labels(self) -> list[str]:
        config: Any = self.model.config
        if not type(self.model).__name__.endswith(CLASSIFIERS) or config.num_labels < 2:
            return []
        if config.problem_type not in (None, "single_label_classification"):
            return []
        return [config.id2label[number] for number in range(config.num_labels)]

    def encode_pieces(self, text: str, longest: int | None = None) -> list[list[int]]:
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"] if text.strip() else []
        room = self.tokenizer.num_special_tokens_to_add(pair=False)
        longest = smallest(longest, self.longest)
        if not ids or longest is None or len(ids) + room <= longest:
            return [list(self.tokenizer(text)["input_ids"])] if ids else []
        plain_pieces = split_pieces(ids, longest, room)  # complains if there is no room at all
        # The tokenizer itself puts its special tokens around each piece.
        pieces = self.tokenizer(text, max_length=longest, truncation=True, return_overflowing_tokens=True)["input_ids"]
        return [list(piece) for piece in pieces] if isinstance(pieces[0], list) else plain_pieces

    def make_inputs(self, ids: list[int], target_ids: list[int] | None = None) -> dict[str, Any]:
        import torch

        tokens = torch.tensor([ids])
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        return inputs if target_ids is None else inputs | {"decoder_input_ids": torch.tensor([target_ids])}

    def inputs_for_last(self, inputs: dict[str, Any], rows: int) -> dict[str, Any]:
        can_choose = "logits_to_keep" in signature(self.model.forward).parameters
        return {**inputs, "logits_to_keep": rows} if can_choose else inputs

    @property
    def chat_template(self) -> str | None:
        template = self.tokenizer.chat_template
        return template if isinstance(template, str) and template else None  # some have several, by name

    def find_target(self, ids: list[int], target: str | None, on_token: OnToken | None) -> tuple[int, list[int]]:
        if target is None:
            start, *written = self.generate_ids(ids, on_token)
            return start, written
        model: Any = self.model
        settings = (model.generation_config, model.config)
        starts = [getattr(each, "decoder_start_token_id", None) for each in settings]
        start = next((number for number in starts if number is not None), None)
        if start is None:
            raise Misfit(
                f"{self.name} does not say which token its decoder begins with;"
                " set decoder_start_token_id in its config"
            )
        return start, list(self.tokenizer(text_target=target)["input_ids"])

    def generate_ids(self, ids: list[int], on_token: OnToken | None = None, **settings: int) -> list[int]:
        streamer = None if on_token is None else TokenStreamer(on_token)
        try:
            return self.call_library(ids, do_sample=False, num_beams=1, streamer=streamer, **settings)
        except GENERATE_ERRORS as error:
            raise Misfit(
                f"{self.name} should write greedily, but its generation settings do not allow it:"
                f" {first_line(error)}; correct generation_config.json"
            ) from error

    def call_generate(self, ids: list[int], **settings: Any) -> list[int]:
        """The prompt and what is written after it by the caller's settings; greedily by default."""
        try:
            return self.call_library(ids, **{"do_sample": False, **settings})
        except GENERATE_ERRORS as error:
            raise Misfit(
                f"{self.name} should write with {', '.join(settings)}, but its generate does not allow it:"
                f" {first_line(error)}; leave out what it does not know"
            ) from error

    def call_library(self, ids: list[int], seed: int | None = None, **settings: Any) -> list[int]:
        import torch

        model: Any = self.model
        with torch.no_grad(), empty_stdin(), use_seed(seed):
            return model.generate(**self.make_inputs(ids), **settings)[0].tolist()

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def unknown_words(self, text: str) -> list[str]:
        unknown = self.tokenizer.unk_token_id
        if not self.tokenizer.is_fast or unknown is None:
            return []
        encoding = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        offsets = zip(encoding["input_ids"], encoding["offset_mapping"], strict=True)
        return [text[first:last] for number, (first, last) in offsets if number == unknown]

    def run(self, encoded: EncodedText) -> "Tensor":
        import torch

        with torch.no_grad():
            result = self.model(**encoded.inputs)
        logits = getattr(result, "logits", None)
        return result[0] if logits is None else logits

    def token_strings(self, ids: list[int]) -> list[str]:
        return readable_tokens(self.tokenizer, ids)


@contextmanager
def use_seed(seed: int | None) -> Iterator[None]:
    """Draw random numbers from a seed in this block; the caller's own random state is left as it was."""
    import torch

    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
