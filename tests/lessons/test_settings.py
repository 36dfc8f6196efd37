"""Every setting of a lesson in every form: it changes a figure, or it is refused by its name."""

import math
from copy import deepcopy

import numpy as np
import pytest

from transom.lessons import check_lesson, parse_lesson
from transom.lessons.lesson_setup import ATTENTION, BLOCK, PARAMETERS, SETUP
from transom.names import Misfit

FORMS = {
    "embeddings": {
        "": {"tokens": '["a", "b", "c"]', "embeddings": "{ random = 1 }", "d_model": "6"},
        "attention": {"heads": "2", "d_head": "3", "d_value": "3"},
        "parameters": {"W_Q": "{ random = 2 }", "W_K": "{ random = 3 }", "W_V": "{ random = 4 }"},
    },
    "given Q, K, V": {
        "": {"tokens": '["a", "b", "c"]'},
        "given": {"Q": "[[1, 2], [0, 3], [2, 1]]", "K": "[[2, 0], [1, 1], [0, 5]]", "V": "[[1], [3], [4]]"},
    },
    "given scores": {
        "": {"tokens": '["a", "b", "c"]'},
        "given": {"scores": "[[1, 2, 3], [0, 3, 5], [2, 1, 7]]", "V": "[[1], [3], [4]]"},
    },
    "experiment": {"": {}, "experiment": {"name": '"parameter_counts"'}},
    "model": {
        "": {"tokens": '["where", "Ġwhere"]', "embeddings": '{ model = "embedded/en-fr" }'},
        "parameters": {"model": '"embedded/en-fr"', "layer": '"encoder.blocks.0.attention"'},
    },
}
VALUES = {  # a value of each setting that is not its default
    "": {
        "tokens": '["a", "b"]',
        "embeddings": "{ random = 5 }",
        "d_model": "5",
        "positions": '"sinusoidal"',
        "at": '["x"]',
        "at_embeddings": "[[1, 2, 3, 4, 5, 6]]",
        "value_embeddings": "[[6, 5, 4, 3, 2, 1]]",
        "encoder": '{ tokens = ["x"], embeddings = [[1, 2, 3, 4, 5, 6]], parameters = { all = "identity" } }',
        "cross": '{ parameters = { all = "identity" } }',
        "vocabulary": '{ tokens = ["x"], vectors = [[1, 2, 3, 4, 5, 6]] }',
        "decoding": "{ steps = 1 }",
        "given": "{ scores = [[1, 2, 3], [4, 5, 6], [7, 8, 8]] }",
        "layer": "[{}, {}]",
    },
    "attention": {
        "heads": "3",
        "kv_heads": "1",
        "d_head": "64",
        "d_value": "11",
        "scale": "false",
        "temperature": "2.0",
        "similarity": '"cosine"',
        "narrow": "true",
        "fold": "true",
        "mask": '"causal"',
    },
    "parameters": {
        "all": '"identity"',
        "model": '"embedded/none"',
        "layer": '"decoder.blocks.0.attention"',
        "W_Q": "{ random = 7 }",
        "W_K": "{ random = 7 }",
        "W_V": "{ random = 7 }",
        "W_O": "{ random = 7 }",
        "b_Q": "{ random = 7 }",
        "b_K": "{ random = 7 }",
        "b_V": "{ random = 7 }",
        "b_O": "{ random = 7 }",
        "V_down": "[[1], [0], [0], [2], [0], [0]]",
        "V_up": "{ random = 7 }",
        "w": "[1, 2, 3]",
        "W_1": "{ random = 7 }",
        "b_1": "{ random = 7 }",
        "W_2": "{ random = 7 }",
        "b_2": "{ random = 7 }",
        "gain": "{ random = 7 }",
        "bias": "{ random = 7 }",
        "gain_2": "{ random = 7 }",
        "bias_2": "{ random = 7 }",
    },
    "block": {
        "residual": "true",
        "norm": '"layer"',
        "norm_first": "true",
        "around": '"feed_forward"',
        "activation": '"tanh"',
    },
}
CASES = [
    pytest.param(form, section, name, marks=[pytest.mark.slow] if "model" in (form, name) else [])
    for form in FORMS
    for section, names in VALUES.items()
    for name in names
    if not (name == "given" and "given" in form)
]
FORWARD = {"W_1": "{ random = 8 }", "W_2": "{ random = 9 }"}
NEEDS = {  # what a setting needs beside it to have an effect on embeddings and parameters
    "d_head": {"attention": {"d_head": "5"}},
    "at": {"": {"at_embeddings": "[[1, 2, 3, 4, 5, 6]]"}},
    "at_embeddings": {"": {"at": '["x"]'}},
    "value_embeddings": {"": {"at": '["x"]', "at_embeddings": "[[1, 2, 3, 4, 5, 6]]"}},
    "cross": {
        "": {
            "at": '["x"]',
            "at_embeddings": "[[1, 2, 3, 4, 5, 6]]",
            "cross": '{ attention = { heads = 1, d_head = 6 }, parameters = { all = "identity" } }',
        }
    },
    "kv_heads": {
        "attention": {"kv_heads": "1", "heads": "2", "d_head": "3"},
        "parameters": {"W_K": "{ random = 3 }", "W_V": "{ random = 4 }"},
    },
    "around": {"block": {"residual": "true"}, "parameters": FORWARD},
    "all": {"parameters": {"W_V": None}, "attention": {"heads": None, "d_head": "6", "d_value": "6"}},
    "b_O": {"parameters": {"W_O": "{ random = 8 }"}},
    "V_down": {"parameters": {"W_V": None, "V_up": "{ random = 8 }"}},
    "V_up": {"parameters": {"W_V": None, "V_down": "[[1], [0], [0], [2], [0], [0]]"}},
    "w": {"attention": {"similarity": '"additive"'}},
    "W_1": {"parameters": {"W_2": "{ random = 8 }"}},
    "W_2": {"parameters": {"W_1": "{ random = 8 }"}},
    "b_1": {"parameters": FORWARD},
    "b_2": {"parameters": FORWARD},
    "gain": {"block": {"norm": '"layer"'}},
    "bias": {"block": {"norm": '"layer"'}},
    "gain_2": {"block": {"norm": '"layer"'}, "parameters": FORWARD},
    "bias_2": {"block": {"norm": '"layer"'}, "parameters": FORWARD},
    "norm_first": {"block": {"norm": '"layer"'}},
    "activation": {"parameters": FORWARD},
}


def lesson_text(form, *changes):
    """The text of a lesson of a form, with settings changed; None removes one."""
    sections = deepcopy(FORMS[form])
    for change in changes:
        for section, settings in change.items():
            sections.setdefault(section, {}).update(settings)
    text = 'title = "x"\n'
    for section, settings in sections.items():
        lines = [f"{name} = {value}\n" for name, value in settings.items() if value is not None]
        text += (f"[{section}]\n" if section else "") + "".join(lines)
    return text


def figures(text):
    """Every number that a lesson computes, by the name of its step."""
    steps = parse_lesson(text, "x.toml").steps()
    return [(step.name, step.head, step.layer, step.values) for step in steps]


def figures_or_error(text):
    """The figures of a lesson, or the complaint about it."""
    try:
        return figures(text)
    except Misfit as error:
        return str(error)


def differ(first, second):
    if isinstance(first, str) or isinstance(second, str):
        return all(error.startswith("x.toml, line ") for error in (first, second) if isinstance(error, str))
    if [figure[:3] for figure in first] != [figure[:3] for figure in second]:
        return True
    return any(
        a[3].shape != b[3].shape or not np.array_equal(a[3], b[3], equal_nan=True)
        for a, b in zip(first, second, strict=True)
    )


def test_every_setting_is_in_the_table():
    assert set(VALUES[""]) | {"attention", "parameters", "block"} == set(SETUP)
    assert [set(VALUES[name]) for name in ("attention", "parameters", "block")] == [
        set(ATTENTION),
        set(PARAMETERS),
        set(BLOCK),
    ]


@pytest.mark.parametrize(("form", "section", "name"), CASES)
def test_a_setting_changes_a_figure_or_is_refused_by_its_name(form, section, name):
    before = figures(lesson_text(form))  # the form by itself is fine, so what is refused is refused for this setting
    value = "true" if (form, name) == ("given scores", "scale") else VALUES[section][name]
    after = figures_or_error(lesson_text(form, {section: {name: value}}))
    # `all` fills in what is not given: here everything is given.
    assert differ(before, after) or (form, name) == ("embeddings", "all")


@pytest.mark.parametrize("name", NEEDS)
def test_a_setting_has_its_effect_beside_what_it_needs(name):
    section = next(section for section, names in VALUES.items() if name in names)
    additive = {"attention": {"similarity": '"additive"'}} if name == "w" else {}
    needed = NEEDS[name]
    value = {section: {name: needed.get(section, {}).get(name) or VALUES[section][name]}}
    after = figures(lesson_text("embeddings", additive, needed, value))
    without = {"w": {"parameters": {"w": "[1, 1, 1]"}}, "d_head": {}}.get(name, {section: {name: None}})
    before = figures_or_error(lesson_text("embeddings", additive, {} if name == "d_head" else needed, without))
    assert differ(before, after)  # or what it is beside cannot do without it


SCORES = """title = "Scores"
tokens = ["q"]
at = ["x", "y"]
[given]
scores = [[112, 56]]
[attention]
{settings}
[[claim]]
of = "scaled"
value = [[14, 7]]
"""


def test_given_scores_are_divided_by_the_root_of_the_d_head_that_is_given():
    lesson = parse_lesson(SCORES.format(settings="scale = true\nd_head = 64"), "x.toml")
    (finding,) = check_lesson(lesson)
    assert (finding.verdict, finding.first) == ("right", None)
    steps = lesson.steps()
    assert steps["scaled"].cell("q", "x").to_text() == "112 / √64 = 14"
    assert steps["weights"].values[0, 0] == pytest.approx(1 / (1 + math.exp(-7)), rel=1e-12)
    assert lesson.notes == {}


REFUSED = {
    "scale without d_head": (
        "given scores",
        {"attention": {"scale": "true"}},
        "x.toml, line 7: scale = true divides the given scores by √d_head, but nothing says what d_head is;"
        " give d_head, or write scale = false",
    ),
    "d_head without scale": (
        "given scores",
        {"attention": {"d_head": "64"}},
        "x.toml, line 7: d_head should have an effect, but it has none here: given scores are divided by √d_head"
        " only with scale = true; write that, or leave it out",
    ),
    "d_head of unscaled scores": (
        "given scores",
        {"attention": {"d_head": "64", "scale": "false"}},
        "x.toml, line 7: d_head should have an effect, but it has none here: given scores are divided by √d_head"
        " only with scale = true; write that, or leave it out",
    ),
    "d_head of given Q": (
        "given Q, K, V",
        {"attention": {"d_head": "64"}},
        "x.toml, line 8: d_head must be 2, the width of the given Q and K, but 64 came; leave it out",
    ),
    "d_value of given V": (
        "given scores",
        {"attention": {"d_value": "3"}},
        "x.toml, line 7: d_value must be 1, the width of the given V, but 3 came; leave it out",
    ),
    "d_value without V": (
        "given scores",
        {"given": {"V": None}, "attention": {"d_value": "3"}},
        "x.toml, line 6: d_value is the width of V, but no V is given; give V, or leave it out",
    ),
    "similarity of given scores": (
        "given scores",
        {"attention": {"similarity": '"cosine"'}},
        "x.toml, line 7: similarity should have an effect, but it has none here: the scores are given, so nothing is"
        " compared; leave it out",
    ),
    "positions of given Q": (
        "given Q, K, V",
        {"": {"positions": '"sinusoidal"'}},
        "x.toml, line 3: positions should have an effect, but it has none here: Q and K are given, so nothing is made"
        " of it; leave it out",
    ),
    "residual around given Q": (
        "given Q, K, V",
        {"block": {"residual": "true"}},
        "x.toml, line 8: residual should have an effect, but it has none here: what is given has no block around it;"
        " give embeddings, or leave it out",
    ),
    "parameters of given Q": (
        "given Q, K, V",
        {"parameters": {"W_O": '"identity"'}},
        "x.toml, line 3: what is given is for one head without parameters; leave heads and parameters out",
    ),
    "weights cannot be given": (
        "given Q, K, V",
        {"given": {"weights": "[[1, 0, 0]]"}},
        "x.toml, line 7: there is no setting 'weights' here; there are Q, K, V, scores",
    ),
    "b_O alone": (
        "embeddings",
        {"parameters": {"b_O": "{ random = 1 }"}},
        "x.toml, line 13: b_O should have an effect, but it has none here: it is added after W_O, which is not given;"
        " give W_O, or leave it out",
    ),
    "V_up alone": (
        "embeddings",
        {"parameters": {"V_up": "{ random = 1 }"}},
        "x.toml, line 13: V_up should have an effect, but it has none here: values are made by W_V; give V_down and"
        " V_up, or leave it out",
    ),
    "w of the dot product": (
        "embeddings",
        {"parameters": {"w": "[1, 1, 1]"}},
        "x.toml, line 13: w should have an effect, but it has none here: only additive similarity uses it; write"
        ' similarity = "additive", or leave it out',
    ),
    "gain without a norm": (
        "embeddings",
        {"parameters": {"gain": "{ random = 1 }"}},
        "x.toml, line 13: gain should have an effect, but it has none here: there is no norm; give norm in [block], or"
        " leave it out",
    ),
    "second gain without a feed-forward": (
        "embeddings",
        {"parameters": {"gain_2": "{ random = 1 }"}, "block": {"norm": '"rms"'}},
        "x.toml, line 13: gain_2 should have an effect, but it has none here: there is no second norm; give norm in"
        " [block] and a feed-forward W_1 and W_2, or leave it out",
    ),
    "norm_first without a norm": (
        "embeddings",
        {"block": {"norm_first": "true"}},
        "x.toml, line 14: norm_first should have an effect, but it has none here: there is no norm; give norm, or leave"
        " it out",
    ),
    "activation without a feed-forward": (
        "embeddings",
        {"block": {"activation": '"tanh"'}},
        "x.toml, line 14: activation should have an effect, but it has none here: there is no feed-forward; give W_1"
        " and W_2, or leave it out",
    ),
    "layer without a model": (
        "embeddings",
        {"parameters": {"layer": '"x"'}},
        "x.toml, line 13: layer should have an effect, but it has none here: no model is named whose layer it is; give"
        " model, or leave it out",
    ),
    "vectors of no tokens": (
        "embeddings",
        {"": {"at_embeddings": "[[1, 2]]"}},
        "x.toml, line 5: at_embeddings should have an effect, but it has none here: no tokens are named to look at;"
        " give at, or leave it out",
    ),
    "attention beside an experiment": (
        "experiment",
        {"attention": {"mask": '"causal"'}},
        "x.toml, line 4: attention should have an effect, but it has none here: without tokens no attention is"
        " computed; give tokens, or leave it out",
    ),
    "a waist of narrow heads": (
        "embeddings",
        {
            "attention": {"narrow": "true"},
            "parameters": {"W_V": None, "V_down": "[[1], [0], [0], [2], [0], [0]]", "V_up": "{ random = 7 }"},
        },
        "x.toml, line 9: a waist takes the whole vector, but narrow heads see a slice; leave one out",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_effect_is_refused(name):
    form, changes, message = REFUSED[name]
    with pytest.raises(Misfit) as caught:
        parse_lesson(lesson_text(form, changes), "x.toml")
    assert str(caught.value) == message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"attention": {"heads": "3"}},
            "x.toml, line 8: heads must be HEADS, as many as encoder.blocks.0.attention has, but 3 came; leave it out",
        ),
        (
            {"parameters": {"W_O": '"identity"'}},
            "x.toml, line 7: W_O should have an effect, but it has none here: the parameters come from the model; leave"
            " it out, or leave model out",
        ),
        (
            {"": {"embeddings": "[[1, 2], [3, 4]]"}},
            "x.toml, line 6: W_Q of encoder.blocks.0.attention takes WIDTH numbers, but the vectors have 2",
        ),
        (
            {"": {"d_model": "7"}},
            "x.toml, line 4: d_model must be WIDTH, the width of the model's vectors, but 7 came; leave it out",
        ),
    ],
)
def test_sizes_of_a_model_are_its_own(changes, message):
    from transom.lessons.matrix_sources import load_lesson_model
    from transom.models.embedded import embedded_folder

    attention = dict(load_lesson_model(embedded_folder()).model.named_modules())["encoder.blocks.0.attention"]
    message = message.replace("HEADS", str(attention.heads)).replace("WIDTH", str(attention.W_Q.weight.shape[1]))
    with pytest.raises(Misfit) as caught:
        parse_lesson(lesson_text("model", changes), "x.toml")
    assert str(caught.value) == message


def test_a_setting_that_only_another_case_uses_is_fine():
    text = lesson_text("embeddings", {"parameters": {"w": "[1, 2, 3]"}})
    text += '[[case]]\nname = "additive"\n[case.attention]\nsimilarity = "additive"\n'
    lesson = parse_lesson(text, "x.toml")
    assert differ(
        [("", None, 0, lesson.steps()["scores"].values)], [("", None, 0, lesson.steps("additive")["scores"].values)]
    )
    with pytest.raises(Misfit) as caught:
        parse_lesson(text.replace('similarity = "additive"', "temperature = 2"), "x.toml")
    assert str(caught.value).startswith("x.toml, line 13: w should have an effect, but it has none here: ")


def test_a_default_may_be_stated():
    plain = {"attention": {"heads": "1", "narrow": "false"}, "block": {"residual": "false", "norm": '"none"'}}
    assert not differ(figures(lesson_text("given Q, K, V")), figures(lesson_text("given Q, K, V", plain)))
    widths = {"attention": {"d_head": "2", "d_value": "1", "similarity": '"dot"'}}
    assert not differ(figures(lesson_text("given Q, K, V")), figures(lesson_text("given Q, K, V", widths)))


def test_scores_that_are_not_scaled_because_scale_is_not_set_have_a_note():
    lesson = parse_lesson(lesson_text("given scores"), "x.toml")
    assert lesson.notes == {
        "": "scale is not set, so the given scores go into the softmax as they are; write scale = false if they should,"
        " or scale = true and d_head if they should be divided by √d_head"
    }
    assert lesson.steps()["scores"].title == "scores, as given, and taken as they are: scale is not set"
    stated = parse_lesson(lesson_text("given scores", {"attention": {"scale": "false"}}), "x.toml")
    assert stated.notes == {}
    assert stated.steps()["scores"].title == "scores, as given"
    assert not differ(
        figures(lesson_text("given scores")), [(s.name, s.head, s.layer, s.values) for s in stated.steps()]
    )
