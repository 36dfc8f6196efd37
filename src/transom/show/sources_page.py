"""Which passages made an answer, as one page: the texts coloured by what each passage changed, and the figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from transom.files.terminal import escape_controls
from transom.show.colours import ColourScale, fit_scale, ink_on, to_hex
from transom.show.html_page import PAGE, STYLE, csp_hash

SMALLEST = 0.02  # of the largest change: a passage below it keeps the colour of the page
SHOWN_STEPS = (0, 11, 21, 32, 43, 53, 64)  # of the colour scale, in the legend
BLANK = "(it wrote nothing but spaces or line ends)"
SOURCES_STYLE = """
.sources{max-width:56rem;margin:0 auto}
.sources h2{font-size:1.05rem;margin:1.6rem 0 .5rem}
.sources .question{color:var(--faint);margin:.2rem 0}.sources .answer{font-size:1.15rem;margin:.2rem 0;
border-left:4px solid var(--ink);padding-left:.7rem;white-space:pre-wrap;overflow-wrap:anywhere}
.sources article{border:1px solid var(--rule);border-left-width:8px;border-radius:6px;margin:.55rem 0;
padding:.35rem .8rem .5rem;break-inside:avoid;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.sources article.helped{border-left-style:solid;border-left-color:#a65600}
.sources article.hindered{border-left-style:double;border-left-color:#054f8c}
.sources .figures{font-size:.82rem;margin:0 0 .15rem;display:flex;flex-wrap:wrap;gap:.1rem 1rem}
.sources .figures b{font-weight:650}
.sources .text{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
.sources .legend{display:flex;flex-wrap:wrap;gap:.3rem 1rem;align-items:center;font-size:.86rem}
.sources .legend span.ramp{display:inline-flex;border:1px solid var(--rule)}
.sources .legend i{display:inline-block;width:2rem;height:1rem;
print-color-adjust:exact;-webkit-print-color-adjust:exact}
.sources td.number{text-align:right}.sources .wide{overflow-x:auto}
.sources td{vertical-align:top}.sources td.name{white-space:normal;overflow-wrap:anywhere}
"""


@dataclass(frozen=True)
class SourcesAnswer:
    """An answer and the passages it was written from.

    passages    their texts by name, in the order of the prompt
    rows        for each passage its name, mass, estimate, and the true change or None
    agreement   one line about how far estimates agree with knock-outs
    """

    model: str
    question: str
    answer: str
    passages: Mapping[str, str]
    rows: Sequence[Any]
    note: str
    agreement: str


def render_sources_page(found: SourcesAnswer) -> str:
    """One page without a script. Its policy allows its style by its hash, and nothing else."""
    scale = fit_scale([best_known(row) for row in found.rows], "diverging")
    style = STYLE + PAGE + SOURCES_STYLE + colour_rules(found.rows, scale)
    policy = f"default-src 'none'; style-src {csp_hash(style)}; base-uri 'none'; form-action 'none'"
    title = f"What made the answer: {cut_text(found.question)}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{to_text(title)}</title><style>{style}</style></head>\n"
        f'<body><main class="transom sources">{"".join(render_parts(found, scale))}</main></body></html>\n'
    )


def render_parts(found: SourcesAnswer, scale: ColourScale) -> Iterator[str]:
    yield "<h1>Which passages made the answer</h1>"
    yield f'<p class="source">{to_text(found.model)}</p>'
    yield f'<p class="question">{to_text(found.question)}</p><p class="answer">{to_text(found.answer or BLANK)}</p>'
    yield render_legend(scale)
    explained = "A change is one of the answer's log-probability, in nats, if nothing after the passage could read it"
    yield f'<p class="source">{explained}: {to_text(found.note)}. {to_text(capitalise(found.agreement))}.</p>'
    yield "<h2>The text</h2>"
    rows = {row.name: (number, row) for number, row in enumerate(found.rows, 1)}
    for name, text in found.passages.items():
        yield render_passage(text, *rows[name], scale)
    yield "<h2>The figures</h2>" + render_figures(found.rows)


def best_known(row: Any) -> float:
    """The true change, or the estimate of a passage that was not knocked out."""
    return row.estimate if row.change is None else row.change


def verdict(row: Any) -> str:
    """A negative change without the passage means that it helped."""
    change = best_known(row)
    return "helped" if change < 0 else "hindered" if change > 0 else "changed nothing"


def render_passage(text: str, number: int, row: Any, scale: ColourScale) -> str:
    word, sign = verdict(row), {"helped": "▲", "hindered": "▼"}.get(verdict(row), "·")
    figures = describe_figures(row)
    shade = f" c{scale.step(best_known(row))}" if is_coloured(row, scale) else ""
    parts = "".join(f"<span>{to_text(part)}</span>" for part in (f"rank {number}", *figures))
    tip = to_text(f"{row.name}: {word}; {'; '.join(figures)}")
    kind = word if word in ("helped", "hindered") else "idle"
    return (
        f'<article class="{kind}{shade}" title="{tip}"><p class="figures"><b>{sign} {word}</b>{parts}</p>'
        f'<p class="text">{to_text(text)}</p></article>'
    )


def describe_figures(row: Any) -> list[str]:
    """Change, estimate and mass in words."""
    change = "not knocked out, coloured by its estimate" if row.change is None else f"change {row.change:+.4f}"
    return [change, f"estimate {row.estimate:+.4f}", f"mass {row.mass:.4f}"]


def is_coloured(row: Any, scale: ColourScale) -> bool:
    return abs(best_known(row)) >= SMALLEST * scale.high


def colour_rules(rows: Sequence[Any], scale: ColourScale) -> str:
    """The colours that occur as rules, because a style attribute would need a policy that allows any style."""
    middle = (scale.low + scale.high) / 2
    half = (scale.high - scale.low) / 2
    values = {scale.step(best_known(row)): best_known(row) for row in rows if is_coloured(row, scale)}
    values |= {step: middle + half * (step / 32 - 1) for step in SHOWN_STEPS}
    rules = ""
    for step, value in sorted(values.items()):
        rgb = scale.step_rgb(value)
        rules += f".sources .c{step}{{background:{to_hex(rgb)};color:{ink_on(rgb)}}}"
    return rules


def render_legend(scale: ColourScale) -> str:
    ramp = "".join(f'<i class="c{step}"></i>' for step in SHOWN_STEPS)
    return (
        f'<div class="legend"><span>▲ helped: without it the answer is less likely ({scale.low:+.4f})</span>'
        f'<span class="ramp">{ramp}</span>'
        f"<span>▼ hindered: without it the answer is more likely ({scale.high:+.4f})</span></div>"
    )


def render_figures(rows: Sequence[Any]) -> str:
    """All figures, the most important passage first."""
    heads = "".join(f"<th scope=col>{name}</th>" for name in ("rank", "passage", "", "change", "estimate", "mass"))
    lines = ""
    for number, row in enumerate(rows, 1):
        change = "–" if row.change is None else f"{row.change:+.4f}"
        cells = "".join(
            f'<td class="number">{cell}</td>' for cell in (change, f"{row.estimate:+.4f}", f"{row.mass:.4f}")
        )
        lines += f"<tr><td>{number}</td><td class=name>{to_text(row.name)}</td><td>{verdict(row)}</td>{cells}</tr>"
    return f'<div class="wide" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'


def to_text(text: str) -> str:
    """Any text as text: no markup, and no character that changes the order of others."""
    return escape(escape_controls(text))


def cut_text(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


def capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
