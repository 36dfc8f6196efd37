"""How far do estimates of influence agree with true knock-outs, and what do they cost?

Agreement on trained models: the embedded translator, a small writer that is trained here on the text of LICENSE, and
the models in the folders that are named. Costs: the top 8 of all rows and the map of all heads of influence beside
those of weights; memory for 32,768 tokens; `influence` of a GPT-2 beside its own forward and backward pass.

Heads: all ranked at once, beside a knock-out of each, and the time of that beside a forward and a backward pass.

    python -m bench.influence [--json] [--samples N] [--only agreement|heads|cost] [--processor] [FOLDER …]
"""

import argparse
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transom
from bench.measuring.instruments import MiB, machine_info, measure_peak_memory, note, print_answer
from bench.measuring.timing import Work, measure_interleaved, time_call, use_processor_time
from transom.kernels import dispatch
from transom.lens import AttentionInfluence, Influence
from transom.lens.attribution.agreement import correlation, ranks
from transom.lens.attribution.head_ranking import HeadEffect, HeadRanker
from transom.lens.attribution.output_estimates import estimate_output
from transom.models import Decoder, DecoderConfig
from transom.models.embedded import embedded_folder
from transom.runner import load_text_model

ROOT = Path(__file__).parent.parent
TEXT = "The old man gave the little boy a red apple. The boy thanked the old man and gave the apple to his sister."
SOURCE = "I would like to know why you did not come yesterday."
SHAPE, LONG = (1, 12, 8192, 64), 32_768
UPDATES, LENGTH = 300, 64
TURNS = 2  # of each contender in the costs


@cache
def train_writer() -> tuple[nn.Module, Tensor]:
    """A writer of characters, trained on the licence (a text that stays as it is), and its beginning, held out."""
    torch.manual_seed(0)
    text = " ".join((ROOT / "LICENSE").read_text(encoding="utf-8").split())
    ids = torch.tensor([min(ord(letter), 127) for letter in text])
    held_out, ids = ids[: 2 * LENGTH], ids[2 * LENGTH :]
    config = DecoderConfig(vocabulary=128, layers=3, d_model=96, heads=6, d_hidden=192, positions="rotary")
    model = Decoder(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for update in range(UPDATES):
        starts = torch.randint(len(ids) - LENGTH - 1, (24,))
        rows = torch.stack([ids[start : start + LENGTH + 1] for start in starts.tolist()])
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 100 == 99:
            note(f"writer: update {update + 1}, loss {loss.item():.2f}")
    return model.eval(), held_out[None, :51]


def explain_folder(folder: Path, text: str, how: Any) -> Influence:
    """The influence on what a model says of a text; of an encoder, on the first numbers of its first vector."""
    model = load_text_model(folder)
    encoded = model.encode_text(text)
    output = (lambda result: result[0][:, 0, :8].sum(dim=-1)) if model.kind == "encoder" else None
    return transom.influence(model.model, model.make_inputs(encoded.ids, encoded.target_ids or None), output, how=how)


def explain_writer(how: Any) -> Influence:
    model, tokens = train_writer()
    return transom.influence(model, tokens, how=how)


def agreement(folders: list[Path], samples: int) -> list[dict[str, Any]]:
    runs: dict[str, Any] = {
        "the embedded translator": partial(explain_folder, embedded_folder(), SOURCE),
        **{folder.name: partial(explain_folder, folder, TEXT) for folder in folders},
        f"a writer of characters, {UPDATES} updates": explain_writer,
    }
    rows = []
    for name, explain in runs.items():
        for how in ("before", "after"):
            note(f"{name}, {how} …")
            found = explain(how).agreement(samples)
            row = {"model": name, "how": how, "edges": len(found.rows), "pearson": found.pearson, "rank": found.rank}
            weights = torch.tensor([edge.weight for edge in found.rows], dtype=torch.float64)
            row["rank_of_the_weight"] = transom.lens.Agreement(
                [replace_estimate(edge, weight) for edge, weight in zip(found.rows, weights.tolist(), strict=True)], 0
            ).rank
            told = found.to_dict()
            some = {name: told[name] for name in ("small_steps", "pearson_of_small_steps", "worst")}
            rows.append({**row, "top_ten_in_twenty": found.top_found, **some})
            note(
                f"Pearson {format_figure(found.pearson)}, of small steps {format_figure(found.pearson_of_small_steps)}"
            )
    return rows


def rank_heads(folders: list[Path]) -> list[dict[str, Any]]:
    """For each model, how far the quick ranking of its heads agrees with knock-outs, and what it costs."""
    rows = []
    for name, folder in {"the embedded translator": embedded_folder(), **{each.name: each for each in folders}}.items():
        note(f"{name}, heads …")
        model = load_text_model(folder)
        inputs = model.encode_text(SOURCE).inputs
        with torch.no_grad(), transom.watch(model.model) as trace:
            model.model(**inputs)
        ranker = HeadRanker(model.model, inputs, trace)
        estimates = ranker.estimate()
        true = ranker.measure([HeadEffect(*head) for head in ranker.heads], None)
        assert estimates is not None, "gradients lead to every head"
        assert true is not None, "the output can be compared"
        effects = {(row.layer, row.head): row.effect for row in true[0]}
        pairs = torch.tensor([(row.estimate, effects[row.layer, row.head]) for row in estimates.rows]).double()
        best = (true[0][0].layer, true[0][0].head)
        rows.append(
            {
                "model": name,
                "heads": len(pairs),
                "unit": true[1],
                "rank": correlation(*map(ranks, pairs.T)),
                "place_of_the_first": [(row.layer, row.head) for row in estimates.rows].index(best),
                "time": time_first_answer(model.model, inputs),
            }
        )
    return rows


def time_first_answer(model: nn.Module, inputs: Any) -> float:
    """The time of the first answer of `transom see`, all heads by estimate, ÷ a forward and a backward pass."""

    def forward_and_backward() -> None:
        result = model(**inputs)
        output = result if isinstance(result, Tensor) else result[0]
        output.float().square().mean().backward()

    def first_answer() -> None:
        found = estimate_output(model, inputs)
        assert found is not None
        found.heads()

    contenders: dict[str, Work] = {"forward and backward": forward_and_backward, "first answer": first_answer}
    times = {name: time["best"] for name, time in measure_interleaved(contenders, repeats=3, seconds=20).items()}
    model.zero_grad(set_to_none=True)
    return times["first answer"] / times["forward and backward"]


def replace_estimate(edge: Any, estimate: float) -> Any:
    return type(edge)(**{**vars(edge), "estimate": estimate})


def one_attention(shape: tuple[int, int, int, int]) -> AttentionInfluence:
    torch.manual_seed(0)
    Q, K, V, gradient = (torch.randn(shape) for _ in range(4))
    return AttentionInfluence(transom.sight(Q, K, V, causal=True), gradient, "before")


def cost() -> dict[str, Any]:
    """Ratios to the same of weights, and MiB beyond Q, K, V, output and gradient."""
    note(f"{SHAPE} …")
    found = one_attention(SHAPE)
    heads = range(SHAPE[1])
    contenders: dict[str, Work] = {
        "top of weights": lambda: found.sight.top(8),
        "top of influence": lambda: found.top(8),
        "maps of weights": lambda: [found.sight.map(head) for head in heads],
        "maps of influence": lambda: [found.map(head) for head in heads],
    }
    times = time_turns(contenders, TURNS)
    note("memory …")
    memory = measure_peak_memory(memory_of_long) / MiB
    return {
        "milliseconds": {name: 1e3 * time for name, time in times.items()},
        "top": times["top of influence"] / times["top of weights"],
        "maps": times["maps of influence"] / times["maps of weights"],
        "MiB_of_32768_tokens": memory,
        **cost_of_gpt2(),
    }


def time_turns(contenders: dict[str, Work], turns: int) -> dict[str, float]:
    """The best time of each contender in so many turns; a call takes many seconds, so none is repeated to warm up."""
    taken = [{name: time_call(work) for name, work in contenders.items()} for _ in range(turns)]
    return {name: min(times[name] for times in taken) for name in contenders}


def memory_of_long() -> Work:
    found = one_attention((1, 1, LONG, 64))
    return lambda: (found.top(8), found.map(0), found.per_key(), found.spans([(0, 100), (100, LONG)]))


def cost_of_gpt2() -> dict[str, Any]:
    """`influence` of a random GPT-2 of the small size at 2,048 tokens beside a forward and a backward pass of it."""
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_positions=2048)
    model = transformers.GPT2LMHeadModel(config).eval()
    note("GPT-2 …")

    def contenders(length: int) -> dict[str, Work]:
        tokens = torch.randint(50_000, (1, length))
        return {
            "forward and backward": lambda: model(tokens).logits[0, -1].max().backward(),
            "influence": lambda: transom.influence(model, {"input_ids": tokens, "use_cache": False}),
        }

    time_turns(contenders(64), 1)  # loads what is loaded once, and makes the gradients of the parameters
    times = time_turns(contenders(2048), 1)
    return {"GPT-2_seconds": times, "GPT-2": times["influence"] / times["forward and backward"]}


def format_figure(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.3f}"


def table(result: dict[str, Any]) -> str:
    lines = []
    if "agreement" in result:
        lines.append(
            f"{'model':<44}{'how':<8}{'edges':>6}{'Pearson':>9}{'A ≤ 0.9':>9}{'rank':>7}{'of A':>7}{'top 10':>8}"
        )
    for row in result.get("agreement", []):
        columns = (("pearson", 9), ("pearson_of_small_steps", 9), ("rank", 7))
        numbers = "".join(f"{format_figure(row[name]):>{width}}" for name, width in columns)
        lines.append(
            f"{row['model']:<44}{row['how']:<8}{row['edges']:>6}{numbers}{row['rank_of_the_weight']:>7.3f}"
            f"{row['top_ten_in_twenty']:>8}"
        )
    for row in result.get("heads", []):
        lines.append(
            f"{row['model']}: {row['heads']} heads, rank of the quick estimates {row['rank']:.3f}, the first head at"
            f" place {row['place_of_the_first']}; first answer ÷ forward and backward {row['time']:.2f}"
        )
    if "cost" in result:
        cost = result["cost"]
        lines += [
            f"influence ÷ weights, {SHAPE} causal: top 8 {cost['top']:.2f}, maps {cost['maps']:.2f}",
            f"{LONG:,} tokens: {cost['MiB_of_32768_tokens']:.0f} MiB",
            f"influence of a GPT-2 ÷ its forward and backward, 2,048 tokens: {cost['GPT-2']:.2f}",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.influence", description="influence beside knock-outs")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="models to try as well")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument("--samples", type=int, default=500, help="edges of each model")
    parser.add_argument("--only", choices=["agreement", "heads", "cost"], help="one part alone")
    parser.add_argument("--processor", action="store_true", help="processor time, of one thread: for a busy machine")
    options = parser.parse_args()
    if options.processor:
        use_processor_time()
        torch.set_num_threads(1)
    result: dict[str, Any] = {"machine": machine_info(), **dispatch.engine_info()}
    if options.only in (None, "agreement"):
        result["agreement"] = agreement(options.folders, options.samples)
    if options.only in (None, "heads"):
        result["heads"] = rank_heads(options.folders)
    if options.only in (None, "cost"):
        result["cost"] = cost()
    print_answer(options, result, table(result))


if __name__ == "__main__":
    main()
