"""ContextCite's attributions of a response to given passages, in an interpreter that has it.

    python -m bench.peers.context_cite_sources '"model folder"' '[{"passages": ["…"], "question": "…"}]' '16' '2'

prints for each text the prompt and the response, the score of each passage, and the time; then the peak of memory.
"""

import json
import resource
import sys
import time
from typing import Any


def attribute(citer: Any) -> dict[str, Any]:
    """Let the model answer, then attribute the answer with ContextCite's own settings: 64 ablations, Lasso."""
    prompt_ids, prompt = citer._get_prompt_ids(return_prompt=True)
    response = list(citer._response_ids)
    wall, processor = time.perf_counter(), time.process_time()
    scores = citer.get_attributions(verbose=False)
    return {
        "prompt": prompt,
        "prompt_ids": list(prompt_ids),
        "response": response,
        "scores": [float(score) for score in scores],
        "seconds": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "ablations": citer.num_ablations,
    }


def main(folder: str, texts: list[dict[str, Any]], new_tokens: int, threads: int) -> None:
    import torch
    from context_cite import ContextCiter  # pyright: ignore[reportMissingImports]
    from context_cite.context_partitioner import BaseContextPartitioner  # pyright: ignore[reportMissingImports]

    class GivenPassages(BaseContextPartitioner):
        """The passages as they are given, with an empty line between two."""

        def __init__(self, passages: list[str]) -> None:
            super().__init__("\n\n".join(passages))
            self.passages = passages

        @property
        def num_sources(self) -> int:
            return len(self.passages)

        def split_context(self) -> None:
            """They are split already."""

        def get_source(self, index: int) -> str:
            return self.passages[index]

        def get_context(self, mask: Any = None) -> str:
            chosen = [True] * len(self.passages) if mask is None else mask
            return "\n\n".join(one for one, keep in zip(self.passages, chosen, strict=True) if keep)

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    answers = []
    for text in texts:
        citer = ContextCiter.from_pretrained(
            folder,
            "\n\n".join(text["passages"]),
            text["question"],
            device="cpu",
            model_kwargs={"dtype": torch.float32},
            generate_kwargs={"max_new_tokens": new_tokens, "do_sample": False},
            partitioner=GivenPassages(text["passages"]),
        )
        answers.append(attribute(citer))
        print(f"ContextCite: {len(answers)} of {len(texts)} texts", file=sys.stderr, flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"texts": answers, "peak": peak}))


if __name__ == "__main__":
    main(*(json.loads(argument) for argument in sys.argv[1:]))
