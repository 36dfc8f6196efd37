"""Passages ranked by ContextCite and by Transom, for the same prompts and answers of the same model.

The judge is ablation as ContextCite does it: the prompt without a passage, and the log-probability of the answer that
was given with all of them. *Rank*: Spearman's correlation of the scores with the fall without each single passage.
*Top-k drop*: how far the log-probability falls without the k passages that a method ranks first. ContextCite runs in
the peers' environment (TRANSOM_BENCH_PEERS). Both sides use one thread: on a busy machine two would wait for each
other, and waiting would count as processor time.
"""

import random
import time
from pathlib import Path
from typing import Any

import torch

import transom
from bench.measuring.instruments import MiB, note, read_resident_memory
from bench.peers.environment import require_peer, run_module
from bench.planted_facts import plant_fact
from transom.lens.attribution.agreement import correlation, ranks
from transom.runner import TextModel, load_text_model

LENGTH, SENTENCES, NEW_TOKENS, SEED = 300, 2, 12, 0
TOP = (1, 3)
MOST_SECONDS, THREADS = 3000.0, 1


def compare_sources(folder: Path, texts: int) -> dict[str, Any]:
    """Both methods on the same texts: scores, how they are judged, time and memory."""
    version = require_peer("ContextCite")
    model = load_text_model(folder)
    torch.set_num_threads(THREADS)

    def count(text: str) -> int:
        return len(model.encode_fitting(text))

    planted = [plant_fact(random.Random(f"{SEED} {number}"), LENGTH, count, SENTENCES) for number in range(texts)]
    asked = [{"passages": list(text.passages.values()), "question": text.question} for text in planted]
    note("Transom waits for ContextCite …")
    cited = run_module("context_cite_sources", str(folder.resolve()), asked, NEW_TOKENS, THREADS, seconds=MOST_SECONDS)
    rows = []
    for text, answer in zip(asked, cited["texts"], strict=True):
        rows.append(compare_text(model, text["passages"], answer))
        note(f"{len(rows)} of {texts} texts judged: {rows[-1]}")
    peaks = {"ContextCite": cited["peak"] / MiB, "Transom": read_resident_memory()[1] / MiB}
    return {"ContextCite": version, "texts": rows, "peak_MiB": peaks}


def compare_text(model: TextModel, passages: list[str], cited: dict[str, Any]) -> dict[str, Any]:
    """One text: the scores of each method, larger for a passage that helped more, and how they do."""
    prompt, response = cited["prompt"], cited["response"]
    spans = find_spans(model, prompt, passages)
    ids = model.encode_fitting(prompt)
    if ids != cited["prompt_ids"]:
        raise SystemExit("both sides must read the same tokens, but the prompt is split otherwise; use another model")
    wall, processor = time.perf_counter(), time.process_time()
    found = transom.influence(model.model, model.make_inputs([*ids, *response[:-1]]), answer_logs(len(ids), response))
    estimates = found.sources(spans, refine=0)
    first = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    true = found.sources(spans)
    second = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    scores = {
        "ContextCite": cited["scores"],
        "Transom, estimates": [-row.estimate for row in sorted(estimates.rows, key=lambda row: row.first)],
        "Transom, knock-outs": [-(row.change or 0.0) for row in sorted(true.rows, key=lambda row: row.first)],
    }
    costs = {
        "ContextCite": {name: cited[name] for name in ("seconds", "processor")},
        "Transom, estimates": first,
        "Transom, knock-outs": second,
    }
    context, whole = "\n\n".join(passages), log_probability(model, prompt, response)

    def drop_without(removed: set[int]) -> float:
        kept = "\n\n".join(one for number, one in enumerate(passages) if number not in removed)
        return whole - log_probability(model, prompt.replace(context, kept), response)

    single = [drop_without({number}) for number in range(len(passages))]
    methods = {name: judge(of, single, drop_without) | costs[name] for name, of in scores.items()}
    return {"tokens": len(ids), "passages": len(passages), "answer": model.decode(response), "methods": methods}


def judge(scores: list[float], single: list[float], drop_without: Any) -> dict[str, Any]:
    given, true = (torch.tensor(numbers, dtype=torch.float64) for numbers in (scores, single))
    order = given.argsort(descending=True).tolist()
    drops = {f"top_{k}_drop": drop_without(set(order[:k])) for k in TOP}
    return {"scores": scores, "rank": correlation(ranks(given), ranks(true)), **drops}


def find_spans(model: TextModel, prompt: str, passages: list[str]) -> dict[str, tuple[int, int]]:
    """The tokens of each passage in the prompt, with the empty line after it."""
    spans, place = {}, 0
    for number, passage in enumerate(passages):
        place = prompt.index(passage, place)
        first = len(model.encode_fitting(prompt[:place]))
        place += len(passage)
        spans[str(number)] = (first, len(model.encode_fitting(prompt[:place])))
    return spans


def answer_logs(length: int, response: list[int]) -> Any:
    """Reads the log-probability of a response that follows so many tokens."""

    def read(result: Any) -> Any:
        logs = result.logits[:, length - 1 : length - 1 + len(response)].float().log_softmax(dim=-1)
        return logs[:, range(len(response)), response].sum(dim=-1)

    return read


def log_probability(model: TextModel, prompt: str, response: list[int]) -> float:
    ids, call = model.encode_fitting(prompt), model.model
    with torch.no_grad():
        return float(answer_logs(len(ids), response)(call(**model.make_inputs([*ids, *response[:-1]]))))


def comparison_table(result: dict[str, Any]) -> str:
    rows, names = result["texts"], list(result["texts"][0]["methods"])
    tokens, passages = ([row[name] for row in rows] for name in ("tokens", "passages"))
    lines = [
        f"{len(rows)} texts of {min(tokens)} to {max(tokens)} tokens, {min(passages)} to {max(passages)} passages;"
        f" ContextCite {result['ContextCite']}",
        f"{'mean of the texts':<24}{'rank':>7}"
        + "".join(f"{f'top-{k} drop':>13}" for k in TOP)
        + f"{'seconds':>10}{'processor':>13}",
    ]
    for name in names:
        of = [row["methods"][name] for row in rows]
        mean = {key: sum(one[key] for one in of) / len(of) for key in of[0] if key != "scores"}
        drops = "".join(f"{mean[f'top_{k}_drop']:>13.2f}" for k in TOP)
        lines.append(f"{name:<24}{mean['rank']:>7.2f}{drops}{mean['seconds']:>10.1f}{mean['processor']:>13.1f}")
    peaks = ", ".join(f"{name} {peak:,.0f} MiB" for name, peak in result["peak_MiB"].items())
    return "\n".join(
        [
            *lines,
            f"seconds on the clock and of the processor, one thread; peak of memory, model included: {peaks}",
        ]
    )
