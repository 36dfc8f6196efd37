"""Configs and presets: their values, and every error with its whole message."""

import subprocess
import sys

import msgspec
import pytest
import torch
from models.small import assert_misfit, decoder, encoder, encoder_decoder

from transom.equations.rotary_scaling import YarnScaling
from transom.files.strict_settings import parse_json_object, parse_settings
from transom.models import MODELS, PRESETS, Decoder, DecoderConfig, EncoderConfig, EncoderDecoder, EncoderDecoderConfig
from transom.models.config import LATER

ENCODER = {"vocabulary": 23, "layers": 2, "d_model": 12, "heads": 2, "d_hidden": 17}
PAIR = {"vocabulary": 23, "encoder_layers": 2, "decoder_layers": 3, "d_model": 12, "heads": 2, "d_hidden": 17}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 0}, "d_model must be a whole number from 1 to 262144, but got 0; give another size"),
        ({"heads": 2.0}, "heads must be a whole number from 1 to 4096, but got 2.0; give another size"),
        ({"layers": 1001}, "layers must be a whole number from 1 to 1000, but got 1001; give another size"),
        ({"longest": True}, "longest must be a whole number from 1 to 16777216, but got True; give another size"),
        ({"narrow": 1}, "narrow must be true or false, but got 1; choose one"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, but got 1.0; 0.1 drops a tenth"),
        ({"hidden_dropout": "0"}, "hidden_dropout must be at least 0 and below 1, but got '0'; 0.1 drops a tenth"),
        ({"padding": 23}, "padding must be a token from 0 to 22, but got 23; None means no padding"),
        (
            {"positions": "rotery"},
            "positions must be one of none, sinusoidal, learned, rotary, alibi, relative, buckets, but got 'rotery';"
            " did you mean 'rotary'?",
        ),
        ({"norm": "batch"}, "norm must be one of layer, rms, but got 'batch'; there are layer, rms"),
        (
            {"arrangement": "postnorm"},
            "arrangement must be one of post_norm, pre_norm, no_skip, but got 'postnorm'; did you mean 'post_norm'?",
        ),
        ({"norm_eps": 0.0}, "norm_eps must be a number above 0, but got 0.0; give another"),
        ({"attention_scale": "1"}, "attention_scale must be a number above 0, but got '1'; give another"),
        (
            {"position_offset": -1},
            "position_offset must be a whole number from 0 to 16777216, but got -1; give another",
        ),
        (
            {"sliding_layers": (1,)},
            "sliding_layers=(1,) say where the window is, but sliding_window says of no size; give sliding_window, or"
            " leave sliding_layers out",
        ),
        (
            {"feed_forward": "gelu_new"},
            "feed_forward must be one of relu, gelu, gelu_tanh, silu, swiglu, geglu, geglu_tanh, but got 'gelu_new';"
            " did you mean 'gelu_tanh'?",
        ),
        ({"initial": "x"}, "initial must be one of xavier, gpt2, but got 'x'; there are xavier, gpt2"),
        ({"pooling": "max"}, "pooling must be one of mean, first, but got 'max'; there are mean, first"),
        ({"labels": ("a", "b", "a")}, "labels must differ, but 'a' comes twice; leave one out"),
        (
            {"labels": tuple(map(str, range(10_001)))},
            "there may be 10000 labels or fewer, but 10001 came; are they labels?",
        ),
    ],
)
def test_a_config_refuses_invalid_settings(change, message):
    assert_misfit(message, EncoderConfig, **ENCODER | change)


def test_tying_needs_one_vocabulary():
    assert_misfit(
        "tying='all' needs one vocabulary, but source_vocabulary=29 and vocabulary=23;"
        " use tying='target', or one tokenizer for both",
        EncoderDecoderConfig,
        **PAIR | {"source_vocabulary": 29},
    )
    assert_misfit(
        "tying must be one of target, none, but got 'all'; there are target, none",
        DecoderConfig,
        **ENCODER | {"tying": "all"},
    )


def test_a_config_stays_as_it_is():
    config = EncoderConfig(**ENCODER)
    with pytest.raises(AttributeError):
        config.heads = 3  # pyright: ignore


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": 2}, "here has no setting 'head'; did you mean 'heads'?"),
        ({"heads": "2"}, "here does not fit: Expected `int`, got `str` - at `$.heads`; correct that setting"),
        ({"labels": "yes"}, "here does not fit: Expected `array`, got `str` - at `$.labels`; correct that setting"),
        ({"heads": 0}, "here: heads must be a whole number from 1 to 4096, but got 0; give another size"),
    ],
)
def test_settings_from_outside_are_read_strictly(change, message):
    assert_misfit(message, parse_settings, EncoderConfig, ENCODER | change, "here")


def test_a_missing_setting_is_named():
    assert_misfit(
        "here does not fit: Object missing required field `heads`; correct that setting",
        parse_settings,
        EncoderConfig,
        {name: value for name, value in ENCODER.items() if name != "heads"},
        "here",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1]", "here should hold one JSON object, but it holds a list; write {…}"),
        (
            b"{",
            "here should be JSON, but it cannot be read (Input data was truncated); write it again",
        ),
    ],
)
def test_json_that_is_no_object(content, message):
    assert_misfit(message, parse_json_object, content, "here")


@pytest.mark.parametrize("config", [EncoderConfig(**ENCODER, labels=("a", "b")), EncoderDecoderConfig(**PAIR)])
def test_a_config_survives_json(config):
    decoded = msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(config)))
    assert parse_settings(type(config), decoded, "here") == config


def test_a_file_names_later_settings_only_where_they_differ():
    assert set(EncoderConfig(**ENCODER).to_dict()).isdisjoint(LATER)
    config = EncoderConfig(**ENCODER, rotary_scaling=YarnScaling(factor=2.0, original_longest=7), pooler="tanh")
    assert set(config.to_dict()) & LATER == {"rotary_scaling", "pooler"}
    written = msgspec.json.decode(msgspec.json.encode(config.to_dict()))
    assert parse_settings(EncoderConfig, written, "here") == config
    fields = {field.name for kind in MODELS.values() for field in msgspec.structs.fields(kind.config_class)}
    assert fields >= LATER


def projections(d_model: int, count: int) -> int:
    return count * (d_model * d_model + d_model)


def feed_forward(d_model: int, d_hidden: int) -> int:
    return 2 * d_model * d_hidden + d_hidden + d_model


@pytest.mark.parametrize(
    ("name", "vocabulary", "layers", "d_model", "d_hidden", "published"),
    [("base", 37_000, 6, 512, 2048, 63.1e6), ("tiny", 9_712, 4, 128, 256, 2.57e6)],
)
def test_presets_have_the_papers_number_of_parameters(name, vocabulary, layers, d_model, d_hidden, published):
    encoder_block = projections(d_model, 4) + feed_forward(d_model, d_hidden) + 2 * 2 * d_model
    decoder_block = projections(d_model, 8) + feed_forward(d_model, d_hidden) + 3 * 2 * d_model
    expected = vocabulary * d_model + layers * (encoder_block + decoder_block)
    with torch.device("meta"):
        count = EncoderDecoder(PRESETS[name](vocabulary)).count()
    assert count == expected
    assert count == pytest.approx(published, rel=0.003)


def test_the_character_preset_has_nanogpts_number_of_parameters():
    model = Decoder(PRESETS["shakespeare_char"](65))
    block = 4 * 128 * 128 + 2 * 128 * 512 + 2 * 128
    assert model.count() == (65 + 64) * 128 + 4 * block + 128
    assert model.count() - 64 * 128 == pytest.approx(0.80e6, rel=0.006)  # it counts without positions
    tokens = torch.randint(0, 65, (2, 64))
    assert model(tokens).shape == (2, 64, 65)


def test_every_preset_is_a_config_of_a_model():
    kinds = {model.config_class for model in MODELS.values()}
    assert {type(preset(101)) for preset in PRESETS.values()} <= kinds


def test_every_model_is_in_the_table_under_its_name():
    assert {name: kind.kind for name, kind in MODELS.items()} == {name: name for name in MODELS}
    assert [type(build()) for build in (encoder, decoder, encoder_decoder)] == list(MODELS.values())


REAL_SHAPE = (
    "real must be (batch=2, token=5), as tokens are (batch=2, token=5), but it is (batch=2, token=4);"
    " give one entry per token, cached ones included"
)


@pytest.mark.usefixtures("own_errors")
def test_inputs_of_a_model_must_fit():
    model, tokens = decoder(), torch.full((2, 5), 7)
    assert_misfit(REAL_SHAPE, model, tokens, torch.ones(2, 4, dtype=torch.bool))
    assert_misfit(REAL_SHAPE, encoder(), tokens, torch.ones(2, 4, dtype=torch.bool))
    assert_misfit(
        "real must be bool, True for real tokens, but it is torch.int64; use real.bool()",
        model,
        tokens,
        torch.ones(2, 5, dtype=torch.int64),
    )
    assert_misfit(
        "source_real must be (batch=2, token=5), as source are (batch=2, token=5), but it is (batch=1, token=5);"
        " give one entry per token, cached ones included",
        encoder_decoder(),
        tokens,
        tokens,
        torch.ones(1, 5, dtype=torch.bool),
    )
    cache = model.new_cache()
    model(tokens, cache=cache)
    assert_misfit(
        "real must be (batch=2, token=10), as tokens are (batch=2, token=5) behind 5 cached ones, but it is"
        " (batch=2, token=5); give one entry per token, cached ones included",
        model,
        tokens,
        torch.ones(2, 5, dtype=torch.bool),
        cache,
    )
    assert_misfit(
        "documents are packed for training, but a cache came too; leave one of the two out",
        model,
        tokens,
        cache=cache,
        documents=tokens,
    )
    assert_misfit(
        "documents must hold a whole number per token, but tokens are (batch=2, token=5) and documents"
        " (batch=1, token=5) of torch.int64; give ids of the same shape",
        model,
        tokens,
        documents=tokens[:1],
    )


def test_an_encoder_without_labels_has_no_logits():
    assert_misfit(
        "this encoder has no labels; use hidden or pool, or build it with labels",
        encoder(labels=()),
        torch.full((2, 5), 7),
    )


def test_models_load_no_hub_and_no_tokenizer():
    code = "import sys, transom; transom.models; print(sorted({'transformers', 'tokenizers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
