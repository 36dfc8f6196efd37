// A mistake in a request, such as an empty text: its message is shown to whoever asked.
export class RequestError extends Error {}
