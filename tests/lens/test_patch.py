"""`patch` beside hooks written by hand: W_O's input replaced, in float64, in GPT-2 and in Transom's decoder."""

import pytest
import torch

import transom
from transom import Misfit
from transom.models import Decoder, DecoderConfig

CLEAN = torch.randint(4, 23, (1, 7), generator=torch.Generator().manual_seed(1))
OTHER = torch.randint(4, 23, (1, 7), generator=torch.Generator().manual_seed(2))
LONGER = torch.randint(4, 23, (1, 9), generator=torch.Generator().manual_seed(3))
HEAD = 1


def build(kind):
    torch.manual_seed(5)
    if kind == "transom":
        config = DecoderConfig(vocabulary=23, layers=2, d_model=12, heads=3, d_hidden=17)
        model = Decoder(config).double().eval()
        return model, [block.attention.W_O for block in model.stack.blocks], 4, lambda tokens: model(tokens)
    transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
    config = transformers.GPT2Config(vocab_size=23, n_embd=12, n_layer=2, n_head=3, n_positions=16)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation=kind).double().eval()
    for parameter in model.parameters():
        parameter.data.mul_(4.0)
    run = lambda tokens: model(tokens, use_cache=False).logits  # noqa: E731
    return model, [block.attn.c_proj for block in model.transformer.h], 4, run


@pytest.fixture(params=["transom", "sdpa", "eager"])
def case(request):
    return build(request.param)


def watched(model, run, tokens):
    with torch.no_grad(), transom.watch(model) as trace:
        run(tokens)
    return trace


def heads_by_hand(projections, run, tokens):
    """What goes into each W_O."""
    kept = []
    hooks = [one.register_forward_pre_hook(lambda _, args: kept.append(args[0].clone())) for one in projections]
    with torch.no_grad():
        run(tokens)
    for hook in hooks:
        hook.remove()
    return kept


def run_by_hand(projection, run, tokens, change):
    hook = projection.register_forward_pre_hook(lambda _, args: (change(args[0].clone()),))
    with torch.no_grad():
        result = run(tokens)
    hook.remove()
    return result


def patched(model, run, *args, **options):
    with torch.no_grad(), transom.patch(model, *args, **options):
        return run(CLEAN)


def test_a_head_of_another_run_is_what_a_hook_puts_there(case):
    model, projections, width, run = case
    trace = watched(model, run, OTHER)
    other = heads_by_hand(projections, run, OTHER)
    columns = slice(HEAD * width, (HEAD + 1) * width)
    for layer, name in enumerate(trace.names):

        def change(x, layer=layer):
            x[0, 3, columns] = other[layer][0, 3, columns]
            return x

        expected = run_by_hand(projections[layer], run, CLEAN, change)
        torch.testing.assert_close(patched(model, run, trace, name, HEAD, 3), expected, rtol=1e-9, atol=1e-11)
        whole = run_by_hand(projections[layer], run, CLEAN, lambda x, layer=layer: other[layer])
        torch.testing.assert_close(patched(model, run, trace, name), whole, rtol=1e-9, atol=1e-11)


def test_all_attention_of_the_same_run_changes_nothing(case):
    model, _, _, run = case
    with torch.no_grad():
        before = run(CLEAN)
    torch.testing.assert_close(patched(model, run, watched(model, run, CLEAN)), before, rtol=1e-9, atol=1e-11)


def test_an_edge_carries_the_value_of_another_run(case):
    model, projections, width, run = case
    trace, own = watched(model, run, OTHER), watched(model, run, CLEAN)
    name, columns = trace.names[1], slice(HEAD * width, (HEAD + 1) * width)
    weight = own[name].weights(batch=0, head=HEAD, rows=5, keys=2)

    def change(x):
        x[0, 5, columns] += weight * (trace[name].V[0, HEAD, 2] - own[name].V[0, HEAD, 2])
        return x

    if own[name].V.shape[3] == 0:
        pytest.skip("eager attention shows no values here")
    expected = run_by_hand(projections[1], run, CLEAN, change)
    torch.testing.assert_close(patched(model, run, trace, name, HEAD, 5, 2), expected, rtol=1e-9, atol=1e-11)


def test_pairs_say_which_position_is_which(case):
    model, projections, width, run = case
    trace, other = watched(model, run, LONGER), heads_by_hand(projections, run, LONGER)
    columns = slice(HEAD * width, (HEAD + 1) * width)

    def change(x):
        x[0, 6, columns], x[0, 2, columns] = other[1][0, 8, columns], other[1][0, 4, columns]
        return x

    expected = run_by_hand(projections[1], run, CLEAN, change)
    found = patched(model, run, trace, trace.names[1], HEAD, pairs=[(6, 8), (2, 4)])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("by_position", [True, False])
def test_a_mean_over_texts_is_the_mean_of_what_hooks_see(case, by_position):
    model, projections, width, run = case
    texts = [CLEAN, OTHER] if by_position else [CLEAN, LONGER]
    name_of = {"input_ids": None} if hasattr(model, "transformer") else None
    inputs = [{"input_ids": text, "use_cache": False} if name_of else text for text in texts]
    means = transom.mean_outputs(model, inputs, by_position)
    seen = [heads_by_hand(projections, run, text)[1][0] for text in texts]
    mean = torch.stack(seen).mean(dim=0) if by_position else torch.cat(seen).mean(dim=0, keepdim=True).expand(7, -1)
    columns = slice(HEAD * width, (HEAD + 1) * width)

    def change(x):
        x[0, :, columns] = mean[:, columns]
        return x

    expected = run_by_hand(projections[1], run, CLEAN, change)
    assert means.texts == 2
    torch.testing.assert_close(patched(model, run, means, means.names[1], HEAD), expected, rtol=1e-9, atol=1e-11)


def test_gradients_flow_and_a_patched_attention_has_no_receipt():
    model, _, _, run = build("transom")
    trace = watched(model, run, OTHER)
    with transom.patch(model, trace, trace.names[0], HEAD), transom.watch(model) as seen:
        run(CLEAN).sum().backward()
    assert model.stack.blocks[1].attention.W_Q.weight.grad.abs().sum() > 0
    assert "patched from another run" in str(seen[trace.names[0]].receipt())
    assert seen[trace.names[1]].receipt().holds


def test_what_cannot_be_patched_is_an_error():
    model, _, _, run = build("transom")
    trace = watched(model, run, OTHER)
    name = trace.names[0]
    wrong = [
        (("nowhere",), {}, r"layer 'nowhere' was to be patched, but no attention ran in it"),
        ((name, 9), {}, r"head 9 was to be patched, but there are 3; count from 0"),
        ((name, 1), {"pairs": [(3, 11)]}, r"position 11 of the other run was to be taken, but it has queries=7"),
        ((name, 1, 2), {"pairs": [(3, 1)]}, r"no pair names a position that is to be patched"),
    ]
    for args, options, message in wrong:
        with pytest.raises(Misfit, match=message):
            patched(model, run, trace, *args, **options)
    means = transom.mean_outputs(model, [CLEAN])
    with pytest.raises(Misfit, match=r"a mean has outputs of heads, but key asks for the values of edges"):
        patched(model, run, means, name, 1, 2, 1)
    with pytest.raises(Misfit, match=r"a mean for each position needs texts of one length, but .* queries=9 after 7"):
        transom.mean_outputs(model, [CLEAN, LONGER])
    with pytest.raises(Misfit, match=r"needs at least one text, but got none"):
        transom.mean_outputs(model, [])
