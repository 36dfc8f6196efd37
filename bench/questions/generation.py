"""How fast does a translator generate, beside Hugging Face's generate and CTranslate2, with the same parameters?

`tiny` (4+4 layers, d_model 128, vocabulary 9,712) generates 32 tokens from sources of 16: greedy and with 5 beams, one
source and 32. Transom's parameters are copied to Hugging Face's Marian and from there to CTranslate2 (float32; if it is
not installed, it is left out and the table says so). The tokens are compared before anything is timed. Two rows show
where Transom's time goes: `· products` is only the matrix products of its steps, by its own engine, and `· encoder` is
the encoding of the sources.

    python -m bench generation [--json] [--quick] [--threads N]
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench.measuring.instruments import machine_info, note, print_answer
from bench.measuring.timing import Work, measure_interleaved, unsteady_contenders
from transom.kernels import native_library
from transom.kernels.decode_program import DecodeProgram, ProgramBuilder
from transom.kernels.packed_linear import LazyLogits, PackedMatrix
from transom.models import PRESETS, EncoderDecoder

VOCABULARY, PADDING, START, END = 9_712, 0, 1, 2
BAR = 3.0  # times Hugging Face's generate
CASES = {"greedy, 1": (1, 1), "greedy, 32": (1, 32), "5 beams, 1": (5, 1), "5 beams, 32": (5, 32)}  # beams, sources
INSTALL_COMMAND = "pip install -c constraints.txt 'transom[bench]'"
Generate = Callable[[int, Tensor, int], list[list[int]]]  # beams, sources, new tokens → generated tokens


def build_translator() -> EncoderDecoder:
    """`tiny` with larger random parameters than at initialisation, which would repeat one token for ever."""
    torch.manual_seed(0)
    model = EncoderDecoder(PRESETS["tiny"](VOCABULARY)).eval()  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0 if parameter.dim() == 2 else 1.0)
    return model


def prepare_transom(model: EncoderDecoder) -> Generate:
    def generate(beams: int, source: Tensor, new: int) -> list[list[int]]:
        found = model.generate(source, num_beams=beams, max_new_tokens=new, eos_token_id=None)
        assert isinstance(found, Tensor)
        return found[:, 1:].tolist()

    return generate


def build_marian(model: EncoderDecoder) -> nn.Module:
    """Hugging Face's Marian with our parameters."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=128, encoder_layers=4, decoder_layers=4, encoder_ffn_dim=256,
        decoder_ffn_dim=256, encoder_attention_heads=4, decoder_attention_heads=4, activation_function="relu",
        scale_embedding=True, pad_token_id=PADDING, decoder_start_token_id=START, eos_token_id=END,
        forced_eos_token_id=None, max_position_embeddings=512,
    )  # fmt: skip
    twin = MarianMTModel(config).eval()
    with torch.no_grad():
        for theirs, ours in parameter_pairs(twin.model, model):
            theirs.copy_(ours)
    return twin


def parameter_pairs(theirs: Any, ours: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Each parameter of Marian with ours, and its positions, which are in another order."""
    yield theirs.shared.weight, ours.target_embedding.vectors
    waves = ours.target_embedding.positions.embed(torch.zeros(1, 512, 128), torch.arange(512)[None])[0]
    for side, stack in ((theirs.encoder, ours.encoder), (theirs.decoder, ours.decoder)):
        yield side.embed_positions.weight, waves
        for layer, block in zip(side.layers, stack.blocks, strict=True):
            yield from module_pairs(
                (layer.self_attn_layer_norm, block.norm_attention), (layer.fc1, block.feed_forward.W_1)
            )
            yield from module_pairs(
                (layer.fc2, block.feed_forward.W_2), (layer.final_layer_norm, block.norm_feed_forward)
            )
            yield from attention_pairs(layer.self_attn, block.attention)
            if side is theirs.decoder:
                yield from module_pairs((layer.encoder_attn_layer_norm, block.norm_cross))
                yield from attention_pairs(layer.encoder_attn, block.cross)


def attention_pairs(theirs: Any, ours: Any) -> Iterator[tuple[Tensor, Tensor]]:
    yield from module_pairs((theirs.q_proj, ours.W_Q), (theirs.k_proj, ours.W_K))
    yield from module_pairs((theirs.v_proj, ours.W_V), (theirs.out_proj, ours.W_O))


def module_pairs(*modules: tuple[Any, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    for theirs, ours in modules:
        yield from ((theirs.weight, ours.weight), (theirs.bias, ours.bias))


def prepare_hugging_face(twin: Any) -> Generate:
    def generate(beams: int, source: Tensor, new: int) -> list[list[int]]:
        real = torch.ones_like(source)
        settings = {"num_beams": beams, "do_sample": False, "max_new_tokens": new, "eos_token_id": None}
        return twin.generate(input_ids=source, attention_mask=real, **settings)[:, 1:].tolist()

    return generate


def prepare_ctranslate2(twin: Any, folder: Path, threads: int) -> Generate:
    """CTranslate2 with Marian's parameters; its tokens are text, so ours are spelled as numbers."""
    import ctranslate2
    from ctranslate2.converters.transformers import BartLoader

    twin.config.normalize_before = twin.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(twin)
    words = [str(token) for token in range(VOCABULARY)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    special = {"bos_token": START, "eos_token": END, "unk_token": PADDING, "decoder_start_token": START}
    for name, token in special.items():
        setattr(spec.config, name, str(token))
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    engine = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=threads, inter_threads=1)

    def generate(beams: int, source: Tensor, new: int) -> list[list[int]]:
        texts = [[str(token) for token in row] for row in source.tolist()]
        limits = {"max_decoding_length": new, "min_decoding_length": new}  # so no row ends
        found = engine.translate_batch(texts, beam_size=beams, **limits)
        return [[int(word) for word in one.hypotheses[0]] for one in found]

    return generate


def prepare_parts(model: EncoderDecoder, rows: int, source: Tensor, new: int) -> dict[str, Work]:
    """The parts that no implementation can avoid: the encoder, and (by the native engine) the products of the steps."""
    found: dict[str, Work] = {"· encoder": torch.no_grad()(lambda: model.encode(source))}
    if not isinstance(engine := native_library.library_or_reason(), str):
        x, unembedding = torch.randn(rows, model.config.d_model), PackedMatrix(engine, model.unembedding)
        program = build_products_program(ProgramBuilder(engine), model)
        found["· products"] = lambda: [LazyLogits(program.step(x, 0), unembedding).argmax() for _ in range(new)]
    return found


def build_products_program(draft: ProgramBuilder, model: Any) -> DecodeProgram:
    """A program of the products of all decoder layers, all with the same input: their results do not matter."""
    x = last = draft.value(model.config.d_model)
    for block in model.decoder.blocks:
        own, cross, inner = block.attention, block.cross, block.feed_forward
        draft.linear(x, torch.cat([own.W_Q.weight, own.W_K.weight, own.W_V.weight]), None)
        for one in (own.W_O, cross.W_Q, cross.W_O):
            draft.linear(x, one.weight, one.bias)
        last = draft.linear(draft.linear(x, inner.W_1.weight, inner.W_1.bias), inner.W_2.weight, inner.W_2.bias)
    return DecodeProgram(draft, last)


def prepare_contenders(model: EncoderDecoder, folder: Path, threads: int) -> dict[str, Generate]:
    """All contenders that are installed, with the same parameters."""
    twin = build_marian(model)
    found = {"Transom": prepare_transom(model), "Hugging Face": prepare_hugging_face(twin)}
    try:
        found["CTranslate2"] = prepare_ctranslate2(twin, folder, threads)
    except ModuleNotFoundError as error:
        note(f"CTranslate2 is left out ({error}); to have it: {INSTALL_COMMAND}")
    return found


def agreement(generated: dict[str, list[list[int]]]) -> dict[str, float]:
    """The share of sources for which each peer generated exactly Transom's tokens."""
    own = generated["Transom"]
    return {
        name: sum(ours == theirs for ours, theirs in zip(own, rows, strict=True)) / len(own)
        for name, rows in generated.items()
    }


def measure_case(
    model: EncoderDecoder, contenders: dict[str, Generate], case: str, new: int, rounds: int
) -> dict[str, Any]:
    """One case: which contenders generate the same tokens, and how long each takes."""
    beams, count = CASES[case]
    source = torch.randint(4, VOCABULARY, (count, 16), generator=torch.Generator().manual_seed(1))
    agreed = agreement({name: generate(beams, source, new) for name, generate in contenders.items()})
    if beams == 1 and agreed["Hugging Face"] < 1.0:
        raise RuntimeError(f"{case}: Transom and Hugging Face wrote different tokens ({agreed}); nothing was measured")

    def work(generate: Generate) -> Work:
        return lambda: generate(beams, source, new)

    works = {name: work(generate) for name, generate in contenders.items()} | prepare_parts(
        model, beams * count, source, new
    )
    times = measure_interleaved(works, rounds, 60)
    own = times["Transom"]
    return {
        "same_tokens": agreed,
        "milliseconds_a_step": {name: 1e3 * time["best"] / new for name, time in times.items()},
        "median_milliseconds_a_step": {name: 1e3 * time["median"] / new for name, time in times.items()},
        "tokens_a_second": {name: count * new / times[name]["best"] for name in contenders},
        "ratio": {name: time["best"] / own["best"] for name, time in times.items()},
        "median_ratio": {name: time["median"] / own["median"] for name, time in times.items()},
        "unsteady": unsteady_contenders(times),
    }


def run(options: Namespace) -> int:
    """Measure and print; the exit code is 1 if a case misses the bar."""
    new, rounds = (16, 4) if options.quick else (32, 25)
    with tempfile.TemporaryDirectory() as folder:
        model = build_translator()
        contenders = prepare_contenders(model, Path(folder), options.threads)
        cases = {}
        for case in CASES:
            note(f"{case} …")
            cases[case] = measure_case(model, contenders, case, new, rounds)
    result = {"machine": machine_info(), "new_tokens": new, "bar": BAR, "cases": cases}
    print_answer(options, result, render_table(result))
    met = all(case["ratio"]["Hugging Face"] >= BAR for case in cases.values())
    return 0 if met or options.quick else 1  # the bar is for the whole length


def render_table(result: dict[str, Any]) -> str:
    """A line for each case and contender: the minimum, its ratio to ours, and in brackets that of the medians."""
    lines = [f"{'':<14}{'':<14}{'ms a step':>10}{'÷ Transom':>16}{'tokens/s':>10}{'same tokens':>13}{'bar':>6}"]
    for case, found in result["cases"].items():
        for name, time in found["milliseconds_a_step"].items():
            ratio = f"{found['ratio'][name]:.2f} ({found['median_ratio'][name]:.2f})"
            bar = f"{result['bar']:.1f}" if name == "Hugging Face" else ""
            line = f"{case:<14}{name:<14}{time:>10.2f}{ratio:>16}"
            if name in found["same_tokens"]:
                line += f"{found['tokens_a_second'][name]:>10,.0f}{found['same_tokens'][name]:>13.0%}{bar:>6}"
            lines.append(line)
            case = ""
    if not all("CTranslate2" in found["ratio"] for found in result["cases"].values()):
        lines.append(f"CTranslate2 is not installed: {INSTALL_COMMAND}")
    return "\n".join(lines)
