"""A contender of a question in this interpreter, in a process of its own.

    python -m bench.peers.prepared_by '"bench.questions.training"' '["Transom", 32, 16]' 2

calls `prepare` of the module with the arguments, on so many threads, and waits to be asked (see `apart`).
"""

import json
import sys
from importlib import import_module

import torch

from bench.peers.apart import wait

if __name__ == "__main__":
    module, arguments, threads = map(json.loads, sys.argv[1:])
    torch.set_num_threads(threads)
    wait(import_module(module).prepare(*arguments))
