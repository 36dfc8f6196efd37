"""Generation by Hugging Face's models, stitched, with each kind of cache; and images by their patches."""

import pytest
import torch

pytest.importorskip("transformers")

from architectures import BY_HAND, IDS, INTERFACE, PIXELS, SDPA

import transom
from transom.lens import PatchGrid

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")

ASKED = {"max_new_tokens": 7, "min_new_tokens": 7, "do_sample": False, "num_beams": 1, "pad_token_id": 0}
# A model, how its attention is computed, and what is asked of its cache.
WRITERS = {
    "grown": ("Llama, grouped", "sdpa", {}),
    "of fixed size": ("Llama, grouped", "sdpa", {"cache_implementation": "static"}),
    "of a window": ("Mistral, sliding window", "sdpa", {}),
    "soft-capped, of a window": ("Gemma 2, soft-capped", "eager", {}),
    "by hand": ("BLOOM, ALiBi", "eager", {}),
}


@pytest.mark.parametrize(
    "kind", [kind if "size" in kind else pytest.param(kind, marks=pytest.mark.slow) for kind in WRITERS]
)
def test_what_was_written_with_a_cache_is_what_is_read_at_once(kind):
    name, attention, asked = WRITERS[kind]
    model = {**SDPA, **INTERFACE, **BY_HAND}[name].build(attention)
    with torch.no_grad(), transom.watch(model) as trace:
        written = model.generate(IDS[:1], **ASKED, **asked)
    with torch.no_grad(), transom.watch(model) as read:
        model(written[:, :-1])
    whole = trace.stitched()
    assert whole.names == read.names
    for path in whole.names:
        assert torch.allclose(whole[path].weights(), read[path].weights(), atol=1e-5), path
        assert not whole[path].receipt().fails
    tokens = [str(token) for token in written[0].tolist()]
    trace.tokens = tokens
    labels = trace.stitched().labels(whole.names[1])
    assert (labels.reads, labels.at, labels.predicts) == (tokens[:-1], tokens[:-1], tokens[1:])


@pytest.mark.slow
def test_a_cache_of_fixed_size_is_kept_once():
    model = SDPA["Llama, grouped"].build("sdpa")
    with torch.no_grad(), transom.watch(model) as trace:
        model.generate(IDS[:1], **ASKED, cache_implementation="static")
    for name in trace.names:
        steps = trace.all(name)
        assert {step.K.shape[1] for step in steps} == {2}, "later steps repeat each head of keys"
        assert len({step.K.untyped_storage().data_ptr() for step in steps[1:]}) == 1


def test_all_three_sides_of_an_encoder_decoder_are_stitched():
    one = SDPA["T5, relative bias"]
    model = one.build("sdpa")
    with torch.no_grad(), transom.watch(model) as trace:
        written = model.generate(IDS[:1], **ASKED)
    with torch.no_grad(), transom.watch(model) as read:
        model(input_ids=IDS[:1], decoder_input_ids=written[:, :-1])
    whole = trace.stitched()
    assert whole.names == read.names
    for path in whole.names:
        assert torch.allclose(whole[path].weights(), read[path].weights(), atol=1e-5), path
    whole.tokens, whole.targets = ([str(token) for token in row.tolist()] for row in (IDS[0], written[0]))
    cross = whole.labels("decoder.block.1.layer.1.EncDecAttention")
    assert cross.at == whole.tokens[0]
    assert cross.predicts == whole.targets[0][1:]
    assert whole.labels("decoder.block.1.layer.0.SelfAttention").at == whole.targets[0][:-1]


@pytest.mark.slow
def test_beams_that_change_places_are_not_stitched():
    model = SDPA["GPT-2"].build("sdpa")
    with torch.no_grad(), transom.watch(model) as trace:
        model.generate(IDS[:1], **{**ASKED, "num_beams": 3})
    with pytest.raises(transom.Misfit, match=r"do not continue one another: they are \d+ runs"):
        trace.stitched()


# How many tokens stand before the nine patches, and what they are.
VISION = {"ViT": ["[cls]"], "DeiT": ["[cls]", "[dist]"], "DINOv2": ["[cls]"], "CLIP, vision": ["[cls]"]}


@pytest.mark.parametrize("name", VISION)
def test_patches_are_tokens_with_their_place_in_the_image(name, tmp_path):
    model = SDPA[name].build("sdpa")
    with torch.no_grad(), transom.watch(model) as trace:
        model(**PIXELS)
    grid, before = trace.grid, len(VISION[name])
    assert isinstance(grid, PatchGrid)
    assert (grid.rows, grid.columns, list(grid.before), grid.after) == (3, 3, VISION[name], ())
    assert trace.tokens is not None
    assert trace.tokens[1] == [*VISION[name], *(f"patch {row},{column}" for row in range(3) for column in range(3))]
    labels = trace.labels(trace.names[1])
    assert labels.reads == labels.at == trace.tokens[0]
    assert labels.predicts is None
    weights = trace[0].weights(batch=0, head=1, rows=0)
    assert grid.to_image_grid(weights)[1, 2] == weights[before + 5]
    assert (grid.place(before + 5), grid.place(0)) == ((1, 2), None)
    trace.save(tmp_path / "image.safetensors")
    assert transom.Trace.load(tmp_path / "image.safetensors").grid == grid


@pytest.mark.slow
def test_registers_and_images_of_other_sizes():
    import transformers

    sizes = {**SDPA["DINOv2"].sizes, "num_register_tokens": 3}
    model = transformers.Dinov2WithRegistersModel(transformers.Dinov2WithRegistersConfig(**sizes)).eval()
    with torch.no_grad(), transom.watch(model) as trace:
        model(**PIXELS)
    assert trace.grid.before == ("[cls]", "[reg 0]", "[reg 1]", "[reg 2]")
    model, wide = SDPA["DINOv2"].build("sdpa"), torch.randn(1, 3, 8, 20)
    with torch.no_grad(), transom.watch(model, grid=(2, 5)) as trace:
        model(pixel_values=wide)
    assert (trace.grid.rows, trace.grid.columns, trace.grid.before) == (2, 5, ("[cls]",))
    with torch.no_grad(), transom.watch(model) as trace:
        model(pixel_values=wide)
    assert trace.grid is None, "its config tells of another image"


@pytest.mark.slow
def test_a_model_of_images_and_texts_has_the_grid_on_its_side_alone():
    import transformers

    sizes = {"text_config": SDPA["CLIP, text"].sizes, "vision_config": SDPA["CLIP, vision"].sizes}
    model = transformers.CLIPModel(transformers.CLIPConfig(**sizes)).eval()
    with torch.no_grad(), transom.watch(model, tokens=[str(token) for token in IDS[0, :10].tolist()]) as trace:
        model(input_ids=IDS[:1, :10], pixel_values=PIXELS["pixel_values"][:1])
    of_text, of_image = "text_model.encoder.layers.0.self_attn", "vision_model.encoder.layers.0.self_attn"
    assert trace.labels(of_image).at[0] == "[cls]"
    assert trace.labels(of_text).at == trace.tokens[0]
