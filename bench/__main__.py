"""`python -m bench [QUESTION …]`: each question is a file of `questions/` that measures Transom and its peers.

One question alone prints its own table. Several, or all, run one after the other, each in a process of its own; their
answers become one table (bench.md) and one JSON document (bench.json) in `out/bench`. Those of docs/ come from
`python -m bench --into docs`, on a machine that does nothing else. `--beside TREE` asks the same questions of the
transom in another checkout too, in turn, and prints a table of before and after.
"""

import argparse
from importlib import import_module
from pathlib import Path

import torch

from bench.measuring.all_questions import ask_all
from bench.measuring.compare_trees import check_trees, compare_trees
from bench.measuring.timing import set_time_limit, use_processor_time
from bench.peers.environment import ROOT

QUESTIONS = {
    "attention": "What does attention cost, and what does it cost to look into it?",
    "flex": "What does FlexAttention cost beside SDPA, eager attention and Transom?",
    "kernel": "Does the native engine keep its promises, and does its cost follow from the shape?",
    "watching": "What does it cost to watch a model, beside the other ways to get its weights?",
    "pages": "How large does the page of an attention become with the length of the text, beside BertViz's?",
    "training": "How fast does a translator train, beside nn.Transformer, Hugging Face and JoeyNMT?",
    "generation": "How fast does a translator generate, beside Hugging Face and CTranslate2?",
    "llama": "How fast does a Llama-shaped decoder generate, beside Hugging Face and llama.cpp?",
    "startup": "How long until the library is ready, and how much does it install?",
    "serving": "How quick is the page, at any zoom and with many visitors?",
    "cost": "What would it take to watch a model too large, or a text too long, for this machine?",
    "induction": "Are the heads found that are known to be there?",
}


def parse_options() -> argparse.Namespace:
    listed = "\n".join(f"  {name:<12}{question}" for name, question in QUESTIONS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench", epilog=f"questions:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help="which to measure; all unless named")
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")
    parser.add_argument("--quick", action="store_true", help="small shapes, few repeats, three minutes in all")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads for torch")
    parser.add_argument(
        "--seconds", type=float, help="that a question may take (180, of all questions watching more; 60 if quick)"
    )
    parser.add_argument(
        "--beside", type=Path, metavar="TREE", help="ask the same of the transom in another checkout, and compare"
    )
    parser.add_argument("--processor", action="store_true", help="processor time: for a busy machine, with --threads 1")
    parser.add_argument("--into", type=Path, help="folder of table and JSON (out/bench, or out/bench-quick)")
    options = parser.parse_args()
    unknown = [name for name in options.questions if name not in QUESTIONS]
    if unknown:
        parser.error(f"there is no question {unknown[0]!r}; there is {', '.join(QUESTIONS)}")
    if options.beside and (reason := check_trees(options.beside)):
        parser.error(reason)
    if options.quick and options.into and options.into.resolve() == ROOT / "docs":
        parser.error(
            "the figures in docs are those of a whole run, but this is a quick one; leave out --into or --quick"
        )
    options.seconds = options.seconds or (60.0 if options.quick else 180.0)
    options.into = options.into or Path("out/bench-quick" if options.quick else "out/bench")
    return options


def main() -> int:
    options = parse_options()
    if options.beside:
        return compare_trees(options.questions, options)
    if len(options.questions) != 1:
        return ask_all(options.questions or list(QUESTIONS), options)
    torch.set_num_threads(options.threads)
    set_time_limit(options.seconds)
    if options.processor:
        use_processor_time()
    return import_module(f"bench.questions.{options.questions[0]}").run(options)


if __name__ == "__main__":
    raise SystemExit(main())
