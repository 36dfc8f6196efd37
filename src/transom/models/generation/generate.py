"""`generate`: tokens after prompts, by greedy search, sampling or beam search, in evaluation mode."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transom.models.generation.beam_search import beam_search
from transom.models.generation.config import ArgumentContext, GenerationConfig, warn_without_effect
from transom.models.generation.decoding_steps import DecodingSteps, StepLogits, has_hooks
from transom.models.generation.logits_processors import CustomProcessor
from transom.models.generation.prompts import (
    MaskRows,
    Prompts,
    TokenRows,
    append_to_prompts,
    parse_prompts,
    warn_of_padding,
)
from transom.models.generation.request import GenerationRequest, Streamer
from transom.models.generation.sample import sample
from transom.models.generation.stopping_criteria import TokenDecoder
from transom.models.model import Model


class GenerateOutput(NamedTuple):
    """The sequences, padded behind their ends, and the score of each."""

    sequences: Int[Tensor, "batch token"]
    scores: Float[Tensor, " batch"]


class GenerativeModel(Model):
    """A model that can generate tokens; it has an `embedding` of what it generates."""

    generation: GenerationConfig
    output: nn.Parameter | None  # None if it is tied to the embedding
    logits_bias: nn.Parameter | None

    @property
    def unembedding(self) -> nn.Parameter:
        """(vocabulary, d_model): logits = hidden @ unembedding.mT, times `logits_scale`, plus `logits_bias`."""
        embedding: Any = self.embedding
        return embedding.vectors if self.output is None else self.output

    @property
    def logits_scale(self) -> float:
        """What vectors are multiplied by before the unembedding."""
        config: Any = self.config
        return config.logits_scale

    def logits(self, hidden: Float[Tensor, "... d_model"]) -> Float[Tensor, "... vocabulary"]:
        """The logits of the token that follows each vector."""
        hidden = hidden if self.logits_scale == 1.0 else hidden * self.logits_scale
        logits = hidden @ self.unembedding.mT
        return logits if self.logits_bias is None else logits + self.logits_bias

    def linear_output(
        self, hidden: Float[Tensor, "... d_model"]
    ) -> tuple[Float[Tensor, "... any"], Float[Tensor, "vocabulary any"]]:
        """Vectors and a matrix whose product is the logits: a bias is one more column, to a number that is 1."""
        hidden = hidden if self.logits_scale == 1.0 else hidden * self.logits_scale
        if self.logits_bias is None:
            return hidden, self.unembedding
        ones = hidden.new_ones((*hidden.shape[:-1], 1))
        return torch.cat([hidden, ones], dim=-1), torch.cat([self.unembedding, self.logits_bias[:, None]], dim=1)

    def start_steps(self, request: GenerationRequest) -> tuple[DecodingSteps, StepLogits]:
        """Read the prompts of a request: the steps that follow, and the first logits."""
        raise NotImplementedError

    def generate(
        self,
        tokens: TokenRows,
        real: Tensor | None = None,
        *,
        attention_mask: MaskRows | None = None,
        seed: int | list[int] | None = None,
        streamer: Streamer | None = None,
        logits_processor: CustomProcessor | Sequence[CustomProcessor] = (),
        tokenizer: TokenDecoder | None = None,
        return_scores: bool = False,
        **settings: Any,
    ) -> Tensor | GenerateOutput:
        """Each prompt exactly as it came, and new tokens, padded behind the end; an encoder–decoder takes sources.

        Names and meanings are Hugging Face's.

        tokens          a tensor, in which every number is a token unless a mask says it is padding; or a list of tokens
                        for each prompt
        real            True for tokens, False for padding, which may stand in front of a prompt or behind it
        attention_mask  the same as 1 and 0
        seed            of sampling: row i uses seed + i, or the i-th of a list; random by default
        streamer        called with (row, token) as each token is chosen; or, for one sequence, a streamer of Hugging
                        Face's, with `put` and `end`
        logits_processor   functions of the tokens so far and the logits, which return changed logits; as
                        Hugging Face's, they come after the other rules and before those of sampling
        tokenizer       for `stop_strings`
        return_scores   return `GenerateOutput`: sequences, and the score of each (see `length_penalty`)
        settings        as in `GenerationConfig`, in place of those in `model.generation`
        """
        config = self.generation.replace(settings)
        call = ArgumentContext(config, return_scores, self.kind, len(self.unembedding))
        warn_without_effect({**settings, "seed": seed}, call)
        prompts, source = self.parse_rows(tokens, real, attention_mask, config.decoder_start_token_id)
        request = GenerationRequest(
            settings=config,
            longest=self.config.longest,
            prompts=prompts,
            source=source,
            seed=seed,
            streamer=streamer,
            logits_processor=(logits_processor,) if callable(logits_processor) else tuple(logits_processor),
            tokenizer=tokenizer,
            scored=return_scores,
        )
        return self.run(request)

    def parse_rows(
        self, rows: TokenRows, real: Tensor | None, attention_mask: MaskRows | None, start_token: int
    ) -> tuple[Prompts, Prompts | None]:
        """The prompts, and the sources of an encoder–decoder, whose prompts are the start token."""
        has_source = self.kind == "encoder_decoder"
        name, device = "source" if has_source else "tokens", self.unembedding.device
        prompts = parse_prompts(rows, real, attention_mask, device, name)
        if isinstance(rows, Tensor) and real is None and attention_mask is None:
            warn_of_padding(rows, self.config.padding)
        if not has_source:
            return prompts, None
        return Prompts(prompts.tokens.new_full((len(prompts.tokens), 1), start_token)), prompts

    def run(self, request: GenerationRequest) -> Tensor | GenerateOutput:
        """Generate what a request asks for, without gradients and dropout."""
        # Inference mode makes every operation cheaper; a hook on the model gets tensors that can be used anywhere.
        mode = torch.no_grad if has_hooks(self) else torch.inference_mode
        with evaluation_mode(self):
            with mode():
                steps, logits = self.start_steps(request)
                search = beam_search if request.settings.num_beams > 1 else sample
                result = search(request, steps, logits)
            padding = request.settings.pad_token_id
            sequences = append_to_prompts(request.prompts, result.new.clone(), result.ends, padding)
        return GenerateOutput(sequences, result.scores.clone()) if request.scored else sequences


@dataclass
class EvaluationCount:
    """How many calls need a model to stay in evaluation mode, and which of its modules were training before."""

    calls: int = 0
    training: list[nn.Module] = field(default_factory=list)


LOCK = Lock()
IN_USE: WeakKeyDictionary[nn.Module, EvaluationCount] = WeakKeyDictionary()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """No gradients and no dropout; the last of several simultaneous calls restores the model's mode."""
    with LOCK:
        count = IN_USE.setdefault(model, EvaluationCount())
        count.calls += 1
        for module in model.modules():
            if module.training:
                module.training = False
                count.training.append(module)
    try:
        with torch.no_grad():
            yield
    finally:
        with LOCK:
            count.calls -= 1
            if count.calls == 0:
                del IN_USE[model]
                for module in count.training:
                    module.training = True
