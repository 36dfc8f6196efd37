"""A contender that a question prepares itself, in this interpreter, in a process of its own.

    python -m bench.peers.question_contender '"bench.questions.training"' '["Transom", 32, 16]' 2

calls `prepare` of the module with the arguments on that many threads, then answers requests (see `contender_loop`).
"""

import json
import sys
from importlib import import_module

import torch

from bench.peers.contender_loop import answer_requests

if __name__ == "__main__":
    module, arguments, threads = map(json.loads, sys.argv[1:])
    torch.set_num_threads(threads)
    answer_requests(import_module(module).prepare(*arguments))
