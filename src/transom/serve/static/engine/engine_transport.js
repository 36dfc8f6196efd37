// Requests of the page answered by the translator's thread, as responses like those of a server.

const encoder = new TextEncoder();
const eventBytes = (event) => encoder.encode(`data: ${JSON.stringify(event)}\n\n`);

export class EngineTransport {
  // `folder` holds the model's files, of some version and size; `onShare` gets how much of them is loaded.
  constructor({ folder, version, bytes }, onShare = () => {}) {
    this.waiting = new Map(); // what to do with the answer to each request
    this.count = 0;
    this.worker = new Worker(new URL("./engine_worker.js", import.meta.url), { type: "module" });
    this.opened = new Promise((done, fail) => {
      this.worker.addEventListener("message", ({ data }) => {
        if (data.share !== undefined) onShare(data.share);
        else if (data.opened) done();
        else if (data.failed) fail(new Error(data.failed));
        else this.waiting.get(data.id)?.(data);
      });
      this.worker.addEventListener(
        "error",
        (event) => fail(new Error(event.message || "the translator did not start")),
      );
    });
    this.worker.postMessage({ folder: new URL(folder, document.baseURI).href, version, bytes });
  }

  // What the server would have responded.
  async request(path, { method = "GET", body, signal } = {}) {
    await this.opened;
    signal?.throwIfAborted();
    const asked = { method, path, body: body === undefined ? null : JSON.parse(body) };
    return path.startsWith("/api/writing") ? this.stream(asked, signal) : this.answer(asked, signal);
  }

  // Ask, and call `onMessage` with every message about it; returns what takes the request back.
  ask(asked, signal, onMessage) {
    const id = this.count += 1;
    this.waiting.set(id, onMessage);
    signal?.addEventListener("abort", () => this.forget(id));
    this.worker.postMessage({ id, ...asked });
    return id;
  }

  forget(id) {
    if (this.waiting.delete(id)) this.worker.postMessage({ cancelled: id });
  }

  answer(asked, signal) {
    return new Promise((done, fail) => {
      signal?.addEventListener("abort", () => fail(signal.reason));
      const id = this.ask(asked, signal, ({ answer: { status, type, headers, body } }) => {
        this.waiting.delete(id);
        done(new Response(body, { status, headers: { "Content-Type": type, ...headers } }));
      });
    });
  }

  // The tokens of a translation as events, while they are written, and at last the run.
  stream(asked, signal) {
    const start = (controller) => {
      const id = this.ask(asked, signal, ({ event, answer }) => {
        if (event) return controller.enqueue(eventBytes(event));
        this.waiting.delete(id);
        const { status, body } = answer;
        controller.enqueue(encoder.encode(status === 200 ? body : `event: failed\ndata: ${body}\n\n`));
        controller.close();
      });
      signal?.addEventListener("abort", () => this.waiting.has(id) || controller.error(signal.reason));
    };
    return new Response(new ReadableStream({ start }), { headers: { "Content-Type": "text/event-stream" } });
  }
}
