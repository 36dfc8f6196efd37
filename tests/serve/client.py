"""A client of the routes, without a network."""

import asyncio
import json
from urllib.parse import urlencode

import httpx

from transom.serve.app import built
from transom.serve.routes import Desk

HOST, TOKEN = "127.0.0.1:4711", "the-token"
HEADS = {"Authorization": f"Bearer {TOKEN}"}


class Page:
    """A client of the page, as a browser would be."""

    def __init__(self, studio):
        self.studio = studio

    def asked(self, *requests):
        """Several requests, one after another, to one desk."""

        async def all_of_them():
            desk = Desk(self.studio)
            transport = httpx.ASGITransport(built(desk, [HOST], TOKEN))
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=HEADS) as client:
                found = [await client.request(method, path, json=body) for method, path, body in requests]
            desk.worker.close()
            return found

        return asyncio.run(all_of_them())

    def get(self, path, **query):
        return self.asked(("GET", f"{path}?{urlencode(query)}" if query else path, None))[0]

    def post(self, path, body):
        return self.asked(("POST", path, body))[0]


def told(answer):
    """The events of a stream."""
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    return [json.loads(event.partition("data: ")[2]) for event in answer.text.split("\n\n") if event]
