"""Writes a sample of every kind of file with the Transom that is installed: `python tests/samples/write_samples.py`.

Run it once at a release, and keep the folder it writes: later versions are tested to load it and to mean the same.
What each trace must mean is worked out here from Q, K and V by the plain formula in float64, not by Transom.
"""

import json
import math
import random
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import transom
from transom.equations.biases import DistanceBias, RelativeBias
from transom.lens import PatchGrid

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BATCH, HEADS, TOKENS, WIDTH = 2, 3, 5, 7
WORDS = ["the", "cat", "</s>", "\n", "é"]
REAL = torch.tensor([[True, True, True, True, False], [True, True, False, True, True]])
IDS = torch.tensor([[0, 0, 1, 1, 1]])
ALLOWED = torch.tensor([[True, False, True, True, True], [False, True, True, False, True]] * 2 + [[False] * 5])
SLOPES = torch.tensor([0.5, 0.25, 0.125])
i, j = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)[None]


class Attend(nn.Module):
    """`transom.attend` with one set of options."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        return transom.attend(Q, K, V, **self.options)


def table_bias(table: Tensor) -> Tensor:
    reach = table.shape[1] // 2
    return table[:, (j - i).clamp(-reach, reach) + reach][None]


TABLE = torch.linspace(-1.0, 1.0, HEADS * 5).reshape(HEADS, 5)
GIVEN_BIAS = torch.linspace(-2.0, 2.0, HEADS * TOKENS * TOKENS).reshape(HEADS, TOKENS, TOKENS)
NOWHERE_MASKED = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
# Name: options of `attend`, where a row may look, what is added to the scores.
TRACES = {
    "plain": ({}, NOWHERE_MASKED, 0.0),
    "causal": ({"causal": True}, j <= i, 0.0),
    "window": ({"allowed": transom.sliding_window(2)}, (i - j).abs() < 2, 0.0),
    "documents": ({"allowed": transom.same_document(IDS)}, IDS[0][:, None] == IDS[0][None], 0.0),
    "padding": ({"allowed": transom.padding(REAL)}, REAL[:, None, None], 0.0),
    "given": ({"allowed": ALLOWED}, ALLOWED, 0.0),
    "both": ({"allowed": transom.causal() & transom.padding(REAL)}, (j <= i) & REAL[:, None, None], 0.0),
    "either": (
        {"allowed": transom.sliding_window(2) | transom.padding(REAL)},
        ((i - j).abs() < 2) | REAL[:, None, None],
        0.0,
    ),
    "given_bias": ({"bias": GIVEN_BIAS}, NOWHERE_MASKED, GIVEN_BIAS),
    "distance_bias": ({"bias": DistanceBias(SLOPES)}, NOWHERE_MASKED, -SLOPES[:, None, None] * (i - j).abs()),
    "table_bias": ({"bias": RelativeBias(TABLE)}, NOWHERE_MASKED, table_bias(TABLE)),
    "scale": ({"scale": 1.7}, NOWHERE_MASKED, 0.0),
    "softcap": ({"softcap": 2.0}, NOWHERE_MASKED, 0.0),
    "dropout": ({"dropout": 0.25}, NOWHERE_MASKED, 0.0),
}


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(16)
    return tuple(torch.randn(BATCH, HEADS, TOKENS, WIDTH).to(dtype) for _ in "QKV")  # type: ignore[return-value]


def plain_weights(
    Q: Tensor,
    K: Tensor,
    allowed: Tensor,
    bias: Tensor | float = 0.0,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    """softmax(QKᵀ · scale + bias) in float64; a fully masked row has weights of 0."""
    scores = Q.double() @ K.double().mT * (1 / math.sqrt(WIDTH) if scale is None else scale)
    if softcap is not None:
        scores = softcap * (scores / softcap).tanh()
    scores = (scores + bias).masked_fill(~allowed, -torch.inf)
    return scores.softmax(dim=-1).nan_to_num(0.0)


def write_traces(folder: Path) -> None:
    folder.mkdir()
    expected = {}
    for name, (options, allowed, bias) in TRACES.items():
        Q, K, V = inputs()
        model = Attend(**options)
        with torch.no_grad(), transom.watch(model, tokens=WORDS) as trace:
            model(Q, K, V)
        trace.save(folder / f"{name}.safetensors")
        expected[name] = plain_weights(Q, K, allowed, bias, options.get("scale"), options.get("softcap"))
    for dtype in ("bfloat16", "float16"):
        Q, K, V = inputs(getattr(torch, dtype))
        model = Attend()
        with torch.no_grad(), transom.watch(model, tokens=WORDS) as trace:
            model(Q, K, V)
        expected[dtype] = plain_weights(Q, K, NOWHERE_MASKED)
        trace.save(folder / f"{dtype}.safetensors")
    expected |= write_knock_outs(folder) | write_encoders(folder) | write_steps(folder)
    save_file({name: x.float().contiguous() for name, x in expected.items()}, folder / "expected.safetensors")


def write_knock_outs(folder: Path) -> dict[str, Tensor]:
    """An edge cut before the softmax, where the rest is renormalised, and one after it, where it is not."""
    Q, K, V = inputs()
    expected = {}
    for how in ("before", "after"):
        model = Attend(causal=True)
        cut = transom.knock_out(model, head=1, query=3, key=2, how=how)
        with torch.no_grad(), transom.watch(model, tokens=WORDS) as trace, cut:
            model(Q, K, V)
        trace.save(folder / f"knock_out_{how}.safetensors")
        allowed = (j <= i).expand(BATCH, HEADS, TOKENS, TOKENS).clone()
        if how == "before":
            allowed[:, 1, 3, 2] = False
        expected[f"knock_out_{how}"] = plain_weights(Q, K, allowed)
        if how == "after":
            expected["knock_out_after"][:, 1, 3, 2] = 0.0
    return expected


def write_encoders(folder: Path) -> dict[str, Tensor]:
    """Heads known only through W_O, statistics alone, weights alone, an image's grid, words of two sides."""
    torch.manual_seed(17)
    layer = nn.MultiheadAttention(6, 3, batch_first=True).eval()
    x = torch.randn(BATCH, TOKENS, 6)
    with torch.no_grad(), transom.watch(layer, tokens=[WORDS, WORDS]) as trace:
        _, weights = layer(x, x, x, key_padding_mask=~REAL, average_attn_weights=False)
    trace.targets = [["le", "chat"], ["un"]]
    trace.save(folder / "joined.safetensors")
    Q, K, V = inputs()
    model = Attend(causal=True)
    with torch.no_grad(), transom.watch(model, tokens=WORDS, keep="statistics") as trace:
        model(Q, K, V)
    trace.grid = PatchGrid(2, 2, before=("[CLS]",))
    trace.save(folder / "statistics.safetensors")
    return {"joined": weights, "statistics": plain_weights(Q, K, j <= i)} | write_computed_by_torch(folder)


class CausalSdpa(nn.Module):
    """PyTorch's causal attention, which counts the queries from the first key on."""

    def forward(self, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=True)


class HandmadeAttention(nn.Module):
    """A softmax by hand, of which only the weights are seen."""

    def forward(self, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        return (Q @ K.mT).softmax(-1) @ V


def write_computed_by_torch(folder: Path) -> dict[str, Tensor]:
    Q, K, V = inputs()
    short = Q[:, :, :3]
    for name, model, asked in (("sdpa", CausalSdpa(), short), ("handmade", HandmadeAttention(), Q)):
        with torch.no_grad(), transom.watch(model, tokens=WORDS) as trace:
            model(asked, K, V)
        trace.save(folder / f"{name}.safetensors")
    allowed = torch.arange(3)[:, None] >= torch.arange(TOKENS)[None]
    return {
        "sdpa": plain_weights(short, K, allowed),
        "handmade": plain_weights(Q, K, NOWHERE_MASKED, scale=1.0),
    }


def write_steps(folder: Path) -> dict[str, Tensor]:
    """A generation with a cache: the keys of all steps are kept once."""
    from transom.models import Decoder, DecoderConfig

    torch.manual_seed(18)
    model = Decoder(DecoderConfig(vocabulary=23, layers=1, d_model=12, heads=2, d_hidden=17, longest=37)).eval()
    with torch.no_grad(), transom.watch(model) as trace:
        model.generate(torch.tensor([[5, 7, 11]]), max_new_tokens=4)
    trace.save(folder / "steps.safetensors")
    whole = trace.stitched()[0]
    queries = whole.Q.shape[2]
    scores = whole.Q.double() @ whole.K.double().mT * whole.Q.shape[3] ** -0.5
    mask = torch.arange(queries)[:, None] >= torch.arange(whole.K.shape[2])[None]
    return {"steps": scores.masked_fill(~mask, -torch.inf).softmax(-1)}


def write_replay(folder: Path) -> None:
    from transom.lens import Recorder

    torch.manual_seed(19)
    layer = nn.MultiheadAttention(6, 3, batch_first=True)
    x = torch.randn(1, TOKENS, 6)
    recorder = Recorder(folder / "replay.safetensors", lambda one: one(x, x, x), ([WORDS], None))
    expected = {}
    for update in (0, 2, 3):
        recorder.add_loss(update + 1, 1.0 / (update + 1))
        recorder.record(layer, update)
        with torch.no_grad():
            _, weights = layer.eval()(x, x, x, average_attn_weights=False)
            layer.train()
            for parameter in layer.parameters():
                parameter.mul_(1.3)
        expected[str(update)] = weights[0].contiguous()
    recorder.save()
    save_file(expected, folder / "replay_expected.safetensors")


def write_models(folder: Path) -> None:
    from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig, EncoderDecoder, EncoderDecoderConfig

    torch.manual_seed(20)
    sizes = {"vocabulary": 23, "d_model": 12, "heads": 2, "d_hidden": 17, "longest": 37}
    models = {
        "encoder": Encoder(EncoderConfig(layers=1, labels=("yes", "no", "perhaps"), **sizes)),
        "decoder": Decoder(DecoderConfig(layers=1, positions="rotary", norm="rms", feed_forward="swiglu", **sizes)),
        "encoder_decoder": EncoderDecoder(EncoderDecoderConfig(encoder_layers=1, decoder_layers=1, **sizes)),
    }
    tokens = torch.tensor([[5, 7, 11, 13]])
    expected = {}
    for name, model in models.items():
        model.eval().save_pretrained(folder / name)
        with torch.no_grad():
            out = model(tokens, tokens[:, :3]) if name == "encoder_decoder" else model(tokens)
        expected[name] = out.detach().contiguous()
    save_file(expected, folder / "models_expected.safetensors")


RECIPE = """\
task = "translate"
folder = "{folder}"
seed = 3

[data]
train = "{data}"
format = "tsv"
held_out = 20
longest = 16

[tokens]
kind = "words"
vocabulary = 40

[model]
encoder_layers = 1
decoder_layers = 1
d_model = 8
d_hidden = 12
heads = 2
dropout = 0.1

[train]
tokens = 64
updates = 12
judge_every = 6
checkpoint_every = 6
threads = 1

[judge]
write = false
"""


def write_run(folder: Path) -> None:
    """A recipe with its data, the model it made, and the folder of that run with its checkpoint of the middle."""
    letters = random.Random(7)
    lines = []
    for _ in range(150):
        source = [letters.choice("abcdefgh") for _ in range(letters.randint(1, 5))]
        lines.append(f"{' '.join(source)}\t{' '.join(reversed(source))}\n")
    (folder / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE.format(folder="run", data="pairs.tsv"), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "transom", "train", "recipe.toml"], cwd=folder, check=True)
    shutil.copytree(folder / "run", folder / "unfinished", ignore=shutil.ignore_patterns(".lock", "model"))
    shutil.rmtree(folder / "unfinished" / "checkpoints" / "step-00000012")
    shutil.rmtree(folder / "run" / "checkpoints")


def write_heads(folder: Path) -> None:
    """Sums of `transom heads`, as they are kept on the way."""
    texts = folder / "heads.txt"
    texts.write_text("a b c d\ne d c b a\n", encoding="utf-8")
    command = [sys.executable, "-m", "transom", "heads", "--text", "heads.txt", "--lines", "--json"]
    command += ["--model", "run/model", "--out", "heads.json"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "heads_expected.json").write_bytes(done.stdout)


def main() -> None:
    folder = HERE / transom.__version__
    folder.mkdir()
    write_traces(folder / "traces")
    write_replay(folder)
    write_models(folder)
    write_run(folder)
    write_heads(folder)
    shipped = ROOT / "src/transom/lessons/shipped"
    (folder / "lessons").mkdir()
    for lesson in sorted(shipped.glob("*.toml"))[:2]:
        shutil.copy(lesson, folder / "lessons")
    (folder / "recipes").mkdir()
    shutil.copy(ROOT / "recipes/reference.toml", folder / "recipes")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(json.dumps({"folder": str(folder), "bytes": size}))


if __name__ == "__main__":
    main()
