"""`python -m bench [QUESTION …]`: each question is a file, measured side by side with the peer in one run."""

import argparse
from importlib import import_module

import torch

QUESTIONS = {
    "attention": "What does attention cost, and what does it cost to look into it?",
    "kernel": "Does the native engine keep its promises, and does its cost follow from the shape?",
    "generation": "How fast does a translator write, beside Hugging Face and CTranslate2?",
    "watching": "What does it cost to watch a model, beside the ways there are to have its weights?",
    "induction": "Are the heads found that are known to be there?",
    "serving": "How quick is the page, at any zoom and with many visitors?",
    "training": "How fast does a translator learn, beside nn.Transformer and Hugging Face?",
}


def main() -> int:
    listed = "\n".join(f"  {name:<12}{question}" for name, question in QUESTIONS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench", epilog=f"questions:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help="which to measure; all unless named")
    parser.add_argument("--json", action="store_true", help="one JSON document per question instead of tables")
    parser.add_argument("--quick", action="store_true", help="small shapes, few repeats: does it run at all?")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads for torch")
    options = parser.parse_args()
    unknown = [name for name in options.questions if name not in QUESTIONS]
    if unknown:
        parser.error(f"there is no question {unknown[0]!r}; there is {', '.join(QUESTIONS)}")
    torch.set_num_threads(options.threads)
    return max(import_module(f"bench.{name}").run(options) for name in options.questions or QUESTIONS)


if __name__ == "__main__":
    raise SystemExit(main())
