"""What requests are sent to: the app in this process with small models behind it, and `transom serve` in its own."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch

import transom
from fuzz.sample_requests import HOST, TOKEN
from transom.lens.replay import Replay
from transom.models import Decoder, DecoderConfig, Encoder, EncoderConfig, EncoderDecoder, EncoderDecoderConfig
from transom.runner.transom_model import TransomTextModel
from transom.serve.request_fields import RunRequest
from transom.serve.routes import RequestContext
from transom.serve.server import build_app, server_config
from transom.serve.session import Session
from transom.serve.worker import Job, Worker
from transom.text.tokenizer import Tokenizer

WORDS = ["the cat sat on the mat", "a dog saw the cat", "we know where she lives"]
LOGS = ("transom", "uvicorn", "asyncio")


class InlineWorker(Worker):
    """Does each job at once, in this thread: the same input then always takes the same way."""

    def __init__(self) -> None:
        """No thread is started."""

    def submit(self, work: Any) -> Job:
        job = Job(work)
        job.run()
        return job

    def close(self, seconds: float = 1.0) -> None:
        """There is nothing to end."""


class Log(logging.Handler):
    """Remembers whatever is logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Site:
    """The app with small models, a trace and a replay behind it; the same before every input."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)  # nothing here is large
        self.trace = make_trace(folder / "run.safetensors")
        models = [make_model(kind, folder / kind) for kind in ("encoder_decoder", "decoder", "encoder")]
        self.session = Session(*models, trace=transom.Trace.load(self.trace), replay=make_replay())
        for model in models:
            target = "a" if model.kind == "encoder_decoder" else None
            self.session.run_text(RunRequest(text="the cat", model=model.name, target=target))
        self.runs = dict(self.session.runs)
        self.context = RequestContext(self.session, InlineWorker())
        self.guard = build_app(self.context, [HOST, "localhost:4711"], TOKEN)
        self.config = server_config(self.guard)
        self.config.load()
        self.log = Log()
        logging.getLogger("transom.serve").setLevel(logging.DEBUG)  # with tracebacks
        for name in LOGS:
            logging.getLogger(name).addHandler(self.log)
        self.runner = asyncio.Runner()
        self.served = Served(self.trace)

    def reset(self) -> None:
        """Forget the runs of an input, so that its number alone makes it again."""
        for number in [one for one in self.session.runs if one not in self.runs]:
            self.context.cache.forget_run(number)
        self.session.runs.clear()
        self.session.runs.update(self.runs)
        self.session.count = len(self.runs)

    def check_log(self) -> None:
        """Fail where anything was logged, with its traceback."""
        lines, self.log.lines = self.log.lines, []
        assert not lines, "\n".join(lines)

    def close(self) -> None:
        self.runner.close()
        logging.getLogger("transom.serve").setLevel(logging.NOTSET)
        for name in LOGS:
            logging.getLogger(name).removeHandler(self.log)
        self.served.close()


class Served:
    """`transom serve` in a process of its own; what it logs goes into a file."""

    def __init__(self, trace: Path) -> None:
        self.log = trace.with_name("log")
        command = [sys.executable, "-m", "transom", "serve", str(trace), "--port", "0", "--json"]
        with self.log.open("wb") as log:
            env = os.environ | {"OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=env)
        assert self.process.stdout is not None
        address = urlsplit(json.loads(self.process.stdout.readline())["address"])
        self.port, self.token = address.port or 0, parse_qs(address.query)["token"][0]
        self.logged = self.log.read_bytes()

    def close(self) -> None:
        self.process.terminate()
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert code == 0, f"transom serve ended with {code}"


def make_trace(path: Path) -> Path:
    torch.manual_seed(3)
    trace = transom.Trace(["the", "cat", "\x1b[31m", "<b>", "🐱"])
    for layer in range(2):
        Q, K, V = torch.randn(3, 1, 2, 5, 3)
        trace.add(f"blocks.{layer}.attention", transom.sight(Q, K, V, causal=True))
    trace.save(path)
    return path


def make_replay() -> Replay:
    replay = Replay([["a", "b", "c"]], None, {"layer.0": [0, 2]})
    for update in (0, 5, 7):
        replay.add(update, {"layer.0": torch.rand(2, 3, 3).softmax(dim=-1)})
        replay.losses.add(update, 3.0 / (1 + update))
    return replay


def make_model(kind: str, folder: Path) -> TransomTextModel:
    """A model of one kind, saved and loaded as any other is."""
    torch.manual_seed(11)
    tokenizer = Tokenizer.train("bpe", WORDS, 270)
    sizes: dict[str, Any] = {"vocabulary": tokenizer.size, "d_model": 6, "heads": 2, "d_hidden": 7, "longest": 29}
    model = {
        "encoder": lambda: Encoder(EncoderConfig(layers=1, labels=("no", "yes"), **sizes)),
        "decoder": lambda: Decoder(DecoderConfig(layers=1, **sizes)),
        "encoder_decoder": lambda: EncoderDecoder(EncoderDecoderConfig(encoder_layers=1, decoder_layers=1, **sizes)),
    }[kind]()
    model.save_pretrained(folder, tokenizer)
    return TransomTextModel(folder, kind)
