"""`transom sources`: let a model answer a question from texts, and rank the passages that made the answer."""

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from transom.cli.cli_io import AsJson, NamedModel, print_json, print_result, print_text, progress_bar
from transom.cli.see_analysis import as_progress
from transom.files.atomic_files import write_file
from transom.files.untrusted_files import decode_utf8, read_bytes
from transom.names import Misfit
from transom.show.sources_page import SourcesAnswer, render_sources_page

if TYPE_CHECKING:
    from transom.lens import Influence
    from transom.runner.text_model import TextModel
    from transom.runner.watched_run import TextRun

HEAD = "Context:"  # stands before the passages: models attend to their first token whatever it says (a sink)
QUESTION, ANSWER = "\n\nQuestion: {question}", "\nAnswer:"
CUTS = {"paragraphs": re.compile(r"\n\s*\n"), "sentences": re.compile(r"(?<=[.!?])\s+")}
MOST_SHOWN = 60  # characters of a passage in its name

ContextOption = Annotated[
    list[Path], typer.Option("--context", metavar="FILE", help="A text to answer from; can be repeated.")
]
ByOption = Annotated[
    Literal["files", "paragraphs", "sentences"] | None,
    typer.Option(help="What a passage is; by default a file, or a paragraph of a single one."),
]


def run(
    model: NamedModel = ...,  # pyright: ignore[reportArgumentType]
    context: ContextOption = ...,  # pyright: ignore[reportArgumentType]
    question: Annotated[str, typer.Option(help="What the model is asked.")] = ...,  # pyright: ignore[reportArgumentType]
    by: ByOption = None,
    begin: Annotated[str, typer.Option(metavar="TEXT", help="How the answer begins; the model goes on.")] = "",
    plain: Annotated[bool, typer.Option("--plain", help="Ask as in a plain text, not as in a chat.")] = False,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of the answer, at most.")] = 16,
    refine: Annotated[int, typer.Option(min=0, help="Passages that are knocked out truly.")] = 8,
    samples: Annotated[int, typer.Option(min=0, help="Edges on which estimates are compared with knock-outs.")] = 16,
    points: Annotated[int, typer.Option(min=1, help="Runs that the gradient of the estimates is the mean of.")] = 1,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the coloured text as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from texts, and rank their passages by what they changed in the answer.

    Example: transom sources --model out/writer/model --context a.txt --context b.txt --question "Who came?"

    Say how the answer begins: transom sources --model FOLDER --context a.txt --question "Who came?" --begin "It was"

    The text coloured: transom sources --model out/writer/model --context a.txt --question "Who came?" --html why.html
    """
    from transom.runner import load_text_model

    loaded = load_text_model(model)
    if loaded.kind != "decoder":
        raise Misfit(f"sources takes a decoder, which writes an answer, but {loaded.name} is an {loaded.kind}")
    passages = cut_passages({str(path): decode_utf8(path, read_bytes(path)) for path in context}, by)
    prompt = build_prompt(loaded, passages, question, begin, plain)
    answer = write_answer(loaded, prompt, tokens)
    found, spans = explain_answer(answer, points), prompt.spans
    with progress_bar(min(refine, len(spans)), "passages") as advance:
        table = found.sources(spans, refine=refine, progress=as_progress(advance))
    agreement = found.agreement(samples)
    if html is not None:
        page = SourcesAnswer(loaded.name, question, answer.text, passages, list(table), table.note, agreement.summary())
        write_file(html, render_sources_page(page).encode())
    if as_json:
        numbers = {"value": found.value, "agreement": agreement.to_dict()}
        print_json({"model": loaded.name, "question": question, "answer": answer.text, **table.to_dict(), **numbers})
        return
    print_result(answer.text)
    print_text(f"\n{table}\n{agreement.summary()}")


def cut_passages(texts: dict[str, str], by: str | None) -> dict[str, str]:
    """The passages by name, in order."""
    by = by or ("files" if len(texts) > 1 else "paragraphs")
    if by == "files":
        return texts
    parts = [part.strip() for text in texts.values() for part in CUTS[by].split(text) if part.strip()]
    if not parts:
        raise Misfit("the context is empty, but there must be something to answer from; give a file with text")
    shown = (" ".join(part.split()) for part in parts)
    names = [f"{number}: {text[:MOST_SHOWN]}{'…' * (len(text) > MOST_SHOWN)}" for number, text in enumerate(shown)]
    return dict(zip(names, parts, strict=True))


class SourcesPrompt(NamedTuple):
    """What a model is asked, how its answer begins there, and the tokens of each passage."""

    text: str
    begin: str
    spans: dict[str, tuple[int, int]]


class WrittenAnswer(NamedTuple):
    """What a model wrote after a prompt, and the prompt with it as the model reads them."""

    model: "TextModel"
    prompt: SourcesPrompt
    run: "TextRun"

    @property
    def text(self) -> str:
        return f"{self.prompt.begin}{self.run.output}".strip()


def build_prompt(
    model: "TextModel", passages: dict[str, str], question: str, begin: str = "", plain: bool = False
) -> SourcesPrompt:
    """Passages and question, as a user's words if the model was trained on chats, and the beginning of the answer."""
    from transom.runner.chat_frames import find_chat_frame

    whole = HEAD + "".join(f"\n\n{passage}" for passage in passages.values()) + QUESTION.format(question=question)
    frame = None if plain else find_chat_frame(model.chat_template)
    before, after = frame or ("", ANSWER + " " * bool(begin))
    text = before + HEAD
    ends = [len(model.encode_fitting(text))]
    for passage in passages.values():
        text += "\n\n" + passage
        ends.append(len(model.encode_fitting(text)))
    spans = dict(zip(passages, pairwise(ends), strict=True))
    return SourcesPrompt(f"{before}{whole}{after}{begin}", begin, spans)


def write_answer(model: "TextModel", prompt: SourcesPrompt, tokens: int) -> WrittenAnswer:
    """The answer that greedy search writes."""
    from transom.runner.watched_run import encode_and_continue

    run = encode_and_continue(model, prompt.text, max_new_tokens=tokens)
    if not run.new_ids:
        raise Misfit("the model wrote no answer, so nothing made it; ask another question, or give a shorter context")
    return WrittenAnswer(model, prompt, run)


def explain_answer(answer: WrittenAnswer, points: int = 1) -> "Influence":
    """The influence on the log-probability of an answer."""
    from transom.lens import influence

    new_ids, encoded = answer.run.new_ids, answer.run.encoded

    def log_probability(result: Any) -> Any:
        logits = result if hasattr(result, "dim") else result.logits
        logs = logits[:, -len(new_ids) :].float().log_softmax(dim=-1)  # the last token is written, and not read
        return logs[:, range(len(new_ids)), new_ids].sum(dim=-1)

    inputs = answer.model.inputs_for_last(encoded.inputs, len(new_ids))
    return influence(answer.model.model, inputs, log_probability, tokens=encoded.tokens, points=points)
