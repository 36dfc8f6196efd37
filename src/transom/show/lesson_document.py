"""A whole lesson as one file: text, questions, matrices, claims with their verdicts, and pictures; HTML or PDF."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from transom.names import Misfit
from transom.show.html_page import PAGE, STYLE, csp_hash, to_html
from transom.show.picture import Picture, compile_typst
from transom.show.views import draw

if TYPE_CHECKING:
    from transom.lessons import Lesson
    from transom.lessons.lesson import LessonStep

TEXT_WIDTH = 481.9  # points: A4 without its margins
BARS = {"Predict: ": "#0072b2", "Change: ": "#d55e00"}  # how a paragraph starts, and the colour of the bar beside it
LESSON_STYLE = """
.lesson{max-width:52rem;margin:0 auto;padding:1rem 1.25rem}
.lesson section{margin:2rem 0;padding-top:.75rem;border-top:1px solid var(--rule)}
.lesson h1{font-size:1.5rem}.lesson h2{font-size:1.1rem;margin:.2rem 0 .6rem}
.lesson pre{font:13px/1.45 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;overflow-x:auto;
background:var(--raised);padding:.6rem .8rem;border-radius:6px;margin:.6rem 0}
.lesson .ask{border-left:4px solid #0072b2;padding:.3rem .8rem;margin:.6rem 0}
.lesson .change{border-left:4px solid #d55e00;padding:.3rem .8rem;margin:.6rem 0}
.lesson .frames{display:flex;flex-wrap:wrap;gap:1rem}.lesson summary{cursor:pointer}
.lesson svg{max-width:100%;height:auto}
@media print{.lesson section{break-inside:avoid}.transom .ask details{display:block}}
"""


def draw_step(lesson: "Lesson", step: "LessonStep") -> list[Picture]:
    """The picture of a screen, or one for each token that looks; the lesson's own view has the lesson's options."""
    options = step.draws or (lesson.draws if step.picture == lesson.picture else {})
    thing: Any = lesson.steps(step.case) if step.case else lesson
    frames = [{"rows": [row]} for row in range(len(lesson.steps(step.case).tokens))] if step.frames else [{}]
    path = (*step.path, "draws")
    return [draw_from_file(lesson, path, step.picture, thing, {**options, **frame}) for frame in frames]


def draw_from_file(lesson: "Lesson", path: Any, view: str, thing: Any, options: Mapping[str, Any]) -> Picture:
    """A picture whose options come from a file: one of a wrong kind is an error that names its line."""
    try:
        return draw(view, thing, **options)
    except Misfit:
        raise
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        names = ", ".join(options) or "none"
        complaint = f"{view} cannot be drawn with these options ({names}); see docs/show.md"
        raise Misfit(f"{lesson.source.at(path)}: {complaint}") from error


def render_lesson_page(lesson: "Lesson") -> str:
    """One page without a script; an answer opens when it is clicked. Its policy allows its style and nothing else."""
    from transom.lessons.lesson_screens import screens

    style = STYLE + PAGE + LESSON_STYLE
    policy = f"default-src 'none'; style-src {csp_hash(style)}; base-uri 'none'; form-action 'none'"
    all_screens = list(screens(lesson))
    body = "".join(render_screen(lesson, screen, number == 0) for number, screen in enumerate(all_screens))
    if not lesson.script:
        body += f"<section>{draw(lesson.picture, lesson, **lesson.draws).svg()}</section>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{to_html(lesson.title)}</title><style>{style}</style></head>\n"
        f'<body><main class="transom lesson">{body}</main></body></html>\n'
    )


def render_screen(lesson: "Lesson", screen: Any, is_first: bool) -> str:
    heading = "h1" if is_first else "h2"
    before, _, question = split_question(screen.parts)
    html = f"<section><{heading}>{to_html(screen.title)}</{heading}>{render_parts(before)}"
    if question:
        answer = render_parts([*screen.answer, *screen.shown])
        html += f'<div class="ask">{render_parts(question)}<details><summary>Answer</summary>{answer}</details></div>'
    else:
        html += render_parts(screen.shown)
    if screen.step is not None and screen.step.picture:
        html += f'<div class="frames">{"".join(picture.svg() for picture in draw_step(lesson, screen.step))}</div>'
    if screen.changed:
        html += f'<div class="change">{render_parts(screen.changed)}</div>'
    return f"{html}</section>"


def split_question(parts: Iterable[Any]) -> tuple[list[Any], bool, list[Any]]:
    """What a screen says, and its question with the choices."""
    before, question = [], []
    for part in parts:
        (question if question or part.text.startswith("Predict: ") else before).append(part)
    return before, bool(question), question


def render_parts(parts: Iterable[Any]) -> str:
    """Paragraphs as such, lines of figures as they stand."""
    html, figures = "", list[str]()
    for part in [*parts, None]:
        if part is not None and not part.prose:
            figures.append(part.text)
            continue
        if any(line.strip() for line in figures):
            text = "\n".join(escape(line) for line in "\n".join(figures).strip("\n").splitlines())
            html += f'<pre tabindex="0">{text}</pre>'
        figures = []
        html += "" if part is None else f"<p>{escape(part.text)}</p>"
    return html


def render_lesson_pdf(lesson: "Lesson") -> bytes:
    """The lesson on A4, by typst: text stays text, pictures are drawn as vectors."""
    from transom.lessons.lesson_screens import screens

    lines = [
        '#set page(paper: "a4", margin: 2cm, numbering: "1")',
        '#set text(size: 10.5pt, font: ("Liberation Sans", "Arial", "DejaVu Sans", "Libertinus Serif"))',
        '#show raw: set text(size: 8.5pt, font: ("DejaVu Sans Mono", "Liberation Mono"))',
        "#show raw.where(block: true): set block(breakable: false)",  # a matrix stays on its page
    ]
    files: dict[str, bytes] = {}
    for number, screen in enumerate(screens(lesson)):
        level = 1 if number == 0 else 2
        lines.append(f"#heading(level: {level}, {to_typst(screen.title)})")
        lines += typst_parts([*screen.parts, *screen.answer, *screen.shown])
        if screen.step is None:  # what opens and what closes a lesson stays together
            lines[-2] = with_next(lines[-2])
        if screen.step is not None and screen.step.picture:
            pictures = draw_step(lesson, screen.step)
            lines[-1] = with_next(lines[-1])
            for frame, picture in enumerate(pictures):
                name, svg = f"figure{number}-{frame}.svg", picture.svg()
                files[name] = svg.encode()
                lines.append(place_picture(name, svg, widest=TEXT_WIDTH if len(pictures) == 1 else 0.6 * TEXT_WIDTH))
        lines += typst_parts(screen.changed)
    if not lesson.script:
        svg = draw(lesson.picture, lesson, **lesson.draws).svg()
        files["figure.svg"] = svg.encode()
        lines.append(place_picture("figure.svg", svg, TEXT_WIDTH))
    return compile_typst({"main.typ": "\n\n".join(lines).encode(), **files}, "pdf")


def place_picture(name: str, svg: str, widest: float) -> str:
    """A picture at the size of the text around it (three points for four pixels), or smaller if it is too wide."""
    found = re.search(r'width="([\d.]+)"', svg)
    assert found is not None, "SvgCanvas writes a width"
    return f'#image("{name}", width: {min(widest, 0.75 * float(found[1])):.1f}pt)'


def typst_parts(parts: Iterable[Any]) -> list[str]:
    """Paragraphs, and figures as raw text."""
    lines, figures = list[str](), list[str]()
    for part in [*parts, None]:
        if part is not None and not part.prose:
            figures.append(part.text)
            continue
        if any(line.strip() for line in figures):
            text = "\n".join(figures).strip("\n")
            lines = [with_next(line) for line in lines] + [f"#raw({to_typst(text)}, block: true)"]
        figures = []
        if part is not None:
            lines.append(typst_paragraph(part.text))
    return lines


def typst_paragraph(text: str) -> str:
    """A paragraph; a question and a number to change have a bar of their colour beside them, as in the HTML file."""
    colour = next((colour for start, colour in BARS.items() if text.startswith(start)), None)
    if colour is None:
        return f"#par({to_typst(text)})"
    bar = f'stroke: (left: 3pt + rgb("{colour}")), inset: (left: 8pt, y: 3pt)'
    return f"#block({bar}, par({to_typst(text)}))"


def with_next(line: str) -> str:
    """A paragraph that stays on the page of what comes after it."""
    if line.startswith("#par("):
        return f"#block(sticky: true, {line[1:]})"
    return line.replace("#block(", "#block(sticky: true, ", 1) if line.startswith("#block(stroke") else line


def to_typst(text: str) -> str:
    """A string of typst: quotes, backslashes and control characters are escaped, so that nothing in it is markup."""

    def escape_one(match: re.Match[str]) -> str:
        sign = match[0]
        return f"\\{sign}" if sign in '"\\' else f"\\u{{{ord(sign):x}}}"

    return '"' + re.sub(r'["\\\x00-\x1f\x7f]', escape_one, text) + '"'


def render_sheet_pdf(title: str, pages: list[list[str]]) -> bytes:
    """Lines of figures on A4: a heading, and a new page for each list of lines."""
    lines = [
        '#set page(paper: "a4", margin: 2cm, numbering: "1")',
        '#show raw: set text(size: 8.5pt, font: ("DejaVu Sans Mono", "Liberation Mono"))',
        f"#heading({to_typst(title)})",
    ]
    for number, page in enumerate(pages):
        lines += ["#pagebreak()"] if number else []
        lines.append(f"#raw({to_typst(chr(10).join(page))}, block: true)")
    return compile_typst({"main.typ": "\n\n".join(lines).encode()}, "pdf")
