"""`python -m audit.worker`: judges one configuration after another, as lines of JSON on stdin and stdout."""

import json
import resource
import sys
import time
import traceback
import warnings
from typing import Any

MOST_MEMORY = 6 << 30  # bytes


def judge_configuration(name: str, implementation: str) -> dict[str, Any]:
    """One row of the audit as plain data."""
    from audit.blocks import BLOCKS, build_block
    from audit.comparison import judge
    from audit.configurations import BLOCK
    from audit.judgement import NOT_BUILDABLE, NOT_OFFERED, Judgement
    from audit.subject import NotBuildable, NotOffered, build_subject

    started = time.monotonic()
    notes: dict[str, Any] = {}
    try:
        subject = build_block(BLOCKS[name]) if implementation == BLOCK else build_subject(name, implementation)
        notes = subject.notes
        judgement = judge(subject)
    except NotBuildable as error:
        judgement = Judgement(NOT_BUILDABLE, str(error))
    except NotOffered as error:
        judgement = Judgement(NOT_OFFERED, str(error))
    row = {"name": name, "implementation": implementation} | notes | judgement.to_dict()
    return row | {"seconds": round(time.monotonic() - started, 2)}


def main() -> None:
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    answers, sys.stdout = sys.stdout, sys.stderr  # what models print is no answer
    for line in sys.stdin:
        name, implementation = json.loads(line)
        try:
            row = judge_configuration(name, implementation)
        except Exception:
            row = {"name": name, "implementation": implementation, "broken": traceback.format_exc(limit=-4)}
        print(json.dumps(row), file=answers, flush=True)


if __name__ == "__main__":
    main()
