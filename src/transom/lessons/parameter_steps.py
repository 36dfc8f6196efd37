"""The parameters of a lesson as matrices that can be shown beside its steps: W_Q, W_K, W_V, W_O and the rest."""

from dataclasses import replace

import numpy as np

from transom.lessons.lesson_setup import LessonLayer, LessonSetup
from transom.lessons.step_builders import number_labels
from transom.lessons.steps import Step, Steps

TITLES = {
    "W_Q": "learned: makes the queries",
    "W_K": "learned: makes the keys",
    "W_V": "learned: makes the values",
    "W_O": "learned: mixes the heads",
    "V_down": "learned: makes the waist",
    "V_up": "learned: makes the values from the waist",
}


def parameter_steps(setup: LessonSetup | None) -> Steps:
    """Every parameter of a setup; those of the encoder and of cross-attention have its name before theirs."""
    if setup is None:
        return Steps((), ())
    steps = [] if setup.encoder is None else with_prefix(parameter_steps(setup.encoder), "encoder_")
    for number, layer in enumerate(setup.layers):
        steps += layer_parameters(layer, number)
        if layer.cross is not None:
            steps += with_prefix(layer_parameters(layer.cross, number), "cross_")
    if setup.vocabulary is not None:
        vectors = setup.vocabulary.vectors
        title = "learned: a vector for each token that may come next"
        steps.append(Step("vectors", title, "", vectors, setup.vocabulary.tokens, number_labels(vectors.shape[1])))
    return Steps(steps, setup.tokens, setup.key_tokens)


def with_prefix(steps: "Steps | list[Step]", prefix: str) -> list[Step]:
    return [replace(step, name=prefix + step.name) for step in steps]


def layer_parameters(layer: LessonLayer, number: int) -> list[Step]:
    """W_Q, W_K and W_V of each head, then what all heads share."""
    steps = []
    for key, values in layer.parameters.items():
        name = "V_up" if key == "W_V" and "V_down" in layer.parameters else key
        title = TITLES.get(name, "learned")
        matrices = values if values.ndim == 3 else [np.atleast_2d(values)]
        for head, matrix in enumerate(matrices):
            rows, columns = number_labels(matrix.shape[0]), number_labels(matrix.shape[1])
            steps.append(Step(name, title, "", matrix, rows, columns, head if values.ndim == 3 else None, number))
    return steps
