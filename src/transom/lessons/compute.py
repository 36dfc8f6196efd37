"""Compute every step of a lesson in float64: embeddings, encoder, layers, logits, and tokens written one by one."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from transom.lessons.attention_steps import Cache, LayerInputs, given_head_steps
from transom.lessons.block_steps import layer_steps
from transom.lessons.head_steps import AT_EMBEDDING, EMBEDDING, VALUE_EMBEDDING
from transom.lessons.lesson_setup import LessonSetup, Vocabulary
from transom.lessons.step_builders import StepInfo, function_step, given_step, product_step, softmax_step, sum_step
from transom.lessons.steps import Labels, Matrix, Step, Steps


def compute_steps(setup: LessonSetup) -> Steps:
    """All steps of a setup, in order."""
    steps, start = encoder_steps(setup)
    steps += start_steps(setup, start)
    if "embedding" not in start:
        inputs = LayerInputs(
            setup, setup.layers[0], 0, np.zeros((0, 0)), start, rows=setup.tokens, keys=setup.key_tokens
        )
        return Steps(steps + given_head_steps(inputs), setup.tokens, setup.key_tokens)
    cache: Cache | None = None if setup.decoding is None else {}
    steps += stack_steps(setup, start, steps[-1].values, setup.tokens, cache=cache)
    if setup.vocabulary is not None:
        steps += vocabulary_steps(setup, setup.vocabulary, steps[-1])
    if cache is not None:
        probabilities = next(step for step in reversed(steps) if step.name == "probabilities")
        steps += decoding_steps(setup, start, probabilities, cache)
    return Steps(steps, setup.tokens, setup.key_tokens)


def encoder_steps(setup: LessonSetup) -> tuple[list[Step], Mapping[str, Matrix]]:
    """The steps of the encoder, and what the setup starts from: the output of the encoder is what is looked at."""
    if setup.encoder is None:
        return [], setup.start
    steps = list(compute_steps(replace(setup.encoder, change=setup.change)))
    named = [replace(step, name=f"encoder_{step.name}") for step in steps]
    return named, {**setup.start, "at_embedding": steps[-1].values}


def start_steps(setup: LessonSetup, start: Mapping[str, Matrix]) -> list[Step]:
    """The embeddings, with positions added."""
    steps = []
    if "at_embedding" in start and setup.encoder is None:
        steps.append(given_step(AT_EMBEDDING, start["at_embedding"], setup.key_tokens))
    if "value_embedding" in start:
        steps.append(given_step(VALUE_EMBEDDING, start["value_embedding"], setup.key_tokens))
    if "embedding" in start:
        positions = start.get("positions")
        used = None if positions is None else positions[: len(setup.tokens)]
        steps += placed_steps(start["embedding"], used, setup.tokens)
    return steps


def placed_steps(embedding: Matrix, positions: Matrix | None, rows: Labels) -> list[Step]:
    """Tokens as vectors, and with the vectors of their places added."""
    steps = [given_step(EMBEDDING, embedding, rows)]
    if positions is not None:
        steps.append(given_step(StepInfo("positions", "each place as a vector", "P"), positions, rows))
        parts = {"embedding": embedding, "position": positions}
        info = StepInfo("placed", "tokens with their places", "X + P")
        steps.append(sum_step(info, parts, rows, steps[-1].columns))
    return steps


def stack_steps(
    setup: LessonSetup,
    start: Mapping[str, Matrix],
    x: Matrix,
    rows: Labels,
    earlier: Labels = (),
    cache: Cache | None = None,
) -> list[Step]:
    """All layers, each on the output of the last; `earlier` are the tokens whose K and V are in the cache."""
    steps = list[Step]()
    for number, layer in enumerate(setup.layers):
        elsewhere = layer.cross is None and "at_embedding" in start
        keys = setup.key_tokens if elsewhere else (*earlier, *rows)
        inputs = LayerInputs(setup, layer, number, x, start, rows, keys, len(earlier), cache)
        steps += layer_steps(inputs)
        x = steps[-1].values
    return steps


def vocabulary_steps(setup: LessonSetup, vocabulary: Vocabulary, before: Step) -> list[Step]:
    """Logits of the next token, their softmax, and the loss if the right tokens are known."""
    info = StepInfo("logits", "how well each vector fits each token", "X · vector of the token", None, before.layer)
    info = replace(info, change=setup.change)
    columns = vocabulary.tokens
    logits = product_step(info, before.values, vocabulary.vectors.T, before.rows, columns, bias=vocabulary.b)
    info = replace(info, name="probabilities", title="how likely each next token is", equation="softmax(logits)")
    steps = [logits, softmax_step(info, logits)]
    if vocabulary.targets is not None:
        rows = before.rows
        chosen = [columns.index(target) for target in vocabulary.targets]
        right = steps[-1].values[np.arange(len(rows)), chosen][:, None]
        info = replace(info, name="loss", title="how far the right token is from certain", equation="−log p(target)")
        picked = replace(steps[-1], values=right, columns=("loss",))
        steps.append(function_step(info, picked, -np.log(right), "−log"))
    return steps


def decoding_steps(setup: LessonSetup, start: Mapping[str, Matrix], last: Step, cache: Cache) -> list[Step]:
    """Tokens written one by one, the likeliest each time: only the newest goes through the layers, with the cache.

    The steps of the first token that was written are called step1_embedding, step1_Q …
    """
    assert setup.vocabulary is not None
    assert setup.decoding is not None
    vocabulary, steps, earlier = setup.vocabulary, list[Step](), setup.tokens
    for number in range(1, setup.decoding.steps + 1):
        chosen = int(np.argmax(last.values[-1]))
        token = vocabulary.tokens[chosen]
        if token == setup.decoding.stop:
            break
        positions = start.get("positions")
        place = None if positions is None else positions[len(earlier) : len(earlier) + 1]
        new = placed_steps(vocabulary.embeddings[chosen][None], place, (token,))
        new += stack_steps(setup, start, new[-1].values, (token,), earlier, cache)
        new += vocabulary_steps(setup, replace(vocabulary, targets=None), new[-1])
        steps += [replace(step, name=f"step{number}_{step.name}") for step in new]
        last, earlier = new[-1], (*earlier, token)
    return steps
