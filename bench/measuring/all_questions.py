"""Ask several questions, each in a process of its own, and put their answers into one table."""

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from datetime import date
from pathlib import Path
from typing import Any

from bench.measuring.instruments import format_facts, machine_info, note
from bench.measuring.table import ALIKE, render_markdown, rows_of
from bench.measuring.timing import RUNS, STEADY
from bench.peers.environment import ROOT

LONGER = {"watching": 6}  # times as long: its contenders run one after the other, at four lengths, twice
GRACE = 120  # seconds that a question may exceed its time, to finish what it began, before it is killed
NOT_IN_QUICK = {
    "pages": "what it asks is how pages grow with long texts, which takes minutes",
    "llama": "generation asks the same of a smaller model, and to start these processes takes longer than their work",
    "induction": "a training of a few seconds teaches no head anything",
    "flex": "FlexAttention takes seconds to compile, and attention asks the rest",
    "startup": "it starts each library anew several times, which takes most of a minute",
    "serving": "it has no peer, and measures long texts and many visitors",
    "cost": "it has no peer, and fits its formula to long texts",
}


def seconds_allowed(question: str, options: Namespace) -> float:
    """Seconds that a question may take."""
    return options.seconds * (1 if options.quick else LONGER.get(question, 1))


def ask_question(question: str, options: Namespace) -> dict[str, Any]:
    """The answer as JSON, whether it met its bars, and the seconds it took; or why there is no answer."""
    seconds = seconds_allowed(question, options)
    command = [sys.executable, "-m", "bench", question, "--json", "--threads", str(options.threads)]
    command += ["--seconds", str(seconds), *(["--quick"] if options.quick else [])]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True)
    try:
        said, _ = process.communicate(timeout=seconds + GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes it started
        process.communicate()
        return {"no answer": f"not done after {seconds + GRACE:.0f} s"}
    except BaseException:  # Ctrl-C too: nothing is left running
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if process.returncode not in (0, 1) or not said.strip():
        return {"no answer": f"it ended with code {process.returncode}; its words are above"}
    took = time.monotonic() - begun
    return {"result": json.loads(said), "met its bars": process.returncode == 0, "seconds": took}


def ask_all(questions: list[str], options: Namespace) -> int:
    """Ask all questions, save the table and the JSON, print one of them; 1 if a question gave no answer."""
    skipped = {name: why for name, why in NOT_IN_QUICK.items() if options.quick and name in questions}
    questions = [question for question in questions if question not in skipped]
    minutes = sum(seconds_allowed(question, options) for question in questions) / 60
    bound = (
        "three minutes in all"
        if options.quick
        else f"at most {options.seconds:.0f} s for most, {minutes:.0f} min in all"
    )
    note(f"{len(questions)} questions, {bound}; a quiet machine measures best")
    answers = {}
    for number, question in enumerate(questions, start=1):
        note(f"[{number}/{len(questions)}] {question}")
        answers[question] = ask_question(question, options)
    rows = [row for question in questions for row in rows_of(question, answers[question].get("result"))]
    document = {
        "date": date.today().isoformat(),
        "quick": options.quick,
        "runs": RUNS,
        "skipped": skipped,
        "machine": machine_info(),
        "rows": [row.to_dict() for row in rows],
        "answers": answers,
    }
    page = render_report(document)
    save_report(options.into, page, document)
    print(json.dumps(document, indent=1) if options.json else page)
    return 1 if any("no answer" in answer for answer in answers.values()) else 0


def render_report(document: dict[str, Any]) -> str:
    """One page: the machine, the table, and what is not in the table."""
    answers, rows = document["answers"], document["rows"]
    lines = [
        "# Transom beside its peers, measured",
        "",
        f"By `make bench`, {document['date']}; {format_facts(document['machine'])}. In every row less is better; a"
        f" difference of less than {ALIKE:.0%} is called none.",
        "",
    ]
    if "runs" in document:
        lines += [
            f"Each contender was timed in {document['runs']} runs, one after all others had theirs; the least counts."
            f" Where the runs differ more than {STEADY:.2f} times, the row is called unsteady.",
            "",
        ]
    if document["quick"]:
        lines += [
            "**A quick run: small shapes and few repeats, by the same instruments. Peers that need an environment of"
            " their own are left out.**",
            "",
        ]
    lines += [render_markdown(rows), ""]
    silent = [name for name, answer in answers.items() if "no answer" in answer]
    missed = [name for name, answer in answers.items() if answer.get("met its bars") is False]
    lines += [f"* {name} gave no answer: {answers[name]['no answer']}." for name in silent]
    lines += [f"* {name} missed a bar of its own; `python -m bench {name}` shows which." for name in missed]
    lines += [f"* {name} was skipped in this quick run: {why}." for name, why in document.get("skipped", {}).items()]
    alone = [name for name in answers if name not in silent and not any(row["question"] == name for row in rows)]
    lines += [
        f"* {name} has no peer: its figures are in the JSON document, and `python -m bench {name}` prints them."
        for name in alone
    ]
    return "\n".join(lines)


def save_report(folder: Path, page: str, document: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.md").write_text(page + "\n", encoding="utf-8")
    (folder / "bench.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    note(f"written: {folder / 'bench.md'}, {folder / 'bench.json'}")
