"""A client of the routes, without a network, and a small trace to open."""

import asyncio
import json
from urllib.parse import urlencode

import httpx
import torch

import transom
from transom.serve.routes import RequestContext
from transom.serve.server import build_app

HOST, TOKEN = "127.0.0.1:4711", "the-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class Client:
    """A client of the routes of a session."""

    def __init__(self, session):
        self.session = session

    def request_all(self, *requests, headers=HEADERS):
        """The responses to several requests, each a method, a path and a body, with one context."""

        async def send():
            context = RequestContext(self.session)
            transport = httpx.ASGITransport(build_app(context, [HOST], TOKEN))
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as client:
                responses = [await client.request(method, path, json=body) for method, path, body in requests]
            context.close()
            return responses

        return asyncio.run(send())

    def get(self, path, **query):
        return self.request_all(("GET", f"{path}?{urlencode(query)}" if query else path, None))[0]

    def post(self, path, body):
        return self.request_all(("POST", path, body))[0]


def events_of(response):
    """The events of a stream."""
    assert response.headers["Content-Type"].startswith("text/event-stream")
    return [json.loads(event.partition("data: ")[2]) for event in response.text.split("\n\n") if event]


def small_trace(tokens, heads=3, layers=2):
    generator = torch.Generator().manual_seed(5)
    trace = transom.Trace(list(tokens))
    for layer in range(layers):
        Q, K, V = (torch.randn(1, heads, len(tokens), 7, generator=generator) for _ in range(3))
        trace.add(f"blocks.{layer}.attention", transom.sight(2 * Q, K, V, causal=True))
    return trace
