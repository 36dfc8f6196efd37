"""A Picture as one page: figures, tables behind them, cells that open. No script at all, and a policy that says so."""

import base64
import hashlib
import math
from html import escape

from transom.show.colours import hexed, ink_on
from transom.show.numbers import plain, written
from transom.show.panels import Grid, Panel
from transom.show.picture import Picture, Table
from transom.show.visible import visible

ROWS = 600  # of a data table; the JSON has all of them

STYLE = """
.transom{color-scheme:light dark;--ink:#1b1f24;--faint:#57606a;--rule:#d0d7de;--paper:#fff;--raised:#f6f8fa;
font:14px/1.5 system-ui,-apple-system,'Segoe UI','Helvetica Neue',Arial,sans-serif;
color:var(--ink);background:var(--paper);padding:1rem 1.25rem;max-width:100%;box-sizing:border-box}
.transom h1{font-size:1.25rem;line-height:1.3;margin:0 0 .25rem}
.transom .source,.transom .notes,.transom summary,.transom figcaption i{color:var(--faint);font-size:.86rem}
.transom .source{margin:0 0 1rem}
.transom .panels{display:flex;flex-wrap:wrap;gap:1.5rem 2rem;align-items:flex-start}
.transom figure{margin:0;max-width:100%;overflow-x:auto}
.transom figcaption{font-weight:600;margin-bottom:.35rem}
.transom figcaption i{font:normal .8rem ui-monospace,Menlo,Consolas,monospace;display:block}
.transom svg{display:block}
.transom .ink-fill{fill:var(--ink)}.transom .faint-fill{fill:var(--faint)}.transom .paper-fill{fill:var(--paper)}
.transom .rule-fill{fill:var(--rule)}.transom .ink-stroke{stroke:var(--ink)}.transom .faint-stroke{stroke:var(--faint)}
.transom .rule-stroke{stroke:var(--rule)}.transom .halo{stroke:var(--paper)}
.transom table{border-collapse:collapse;font-size:.84rem}
.transom th{font-weight:500;text-align:left;padding:.15rem .5rem;white-space:pre}
.transom td{padding:.1rem .5rem;border-top:1px solid var(--rule);white-space:pre;
font-family:ui-monospace,Menlo,Consolas,monospace}
.transom .opens td{padding:0;border:1px solid var(--paper);text-align:right}
.transom .opens thead th{text-align:right}
.transom .opens button{font:inherit;color:inherit;background:none;border:0;
padding:.3rem .5rem;width:100%;text-align:right;cursor:pointer}
.transom button:focus-visible,.transom summary:focus-visible{outline:3px solid #d55e00;outline-offset:-2px}
.transom .axis{color:var(--faint);font-size:.78rem}
.transom [popover]{max-width:min(44rem,90vw);padding:1rem 1.2rem;border:1px solid var(--rule);border-radius:8px;
color:var(--ink);background:var(--raised);box-shadow:0 8px 30px rgba(0,0,0,.25);white-space:normal;text-align:left}
.transom [popover] b{display:block;font:600 .95rem system-ui,sans-serif;margin-bottom:.4rem}
.transom [popover] code{font-family:ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.transom details{margin-top:1rem}
.transom .scroll{max-height:24rem;overflow:auto}
.transom .notes{margin:1rem 0 0;padding-left:1.1rem}
@media (prefers-color-scheme:dark){
.transom{--ink:#e6edf3;--faint:#9aa5b1;--rule:#3b434c;--paper:#0d1117;--raised:#161b22}}
@media print{.transom details{display:none}}
"""
PAGE = "html,body{margin:0;background:#fff}@media (prefers-color-scheme:dark){html,body{background:#0d1117}}"


def page(picture: Picture) -> str:
    """A whole page. The policy allows the one style by its hash, and nothing else: no script, no request, no frame."""
    body, style = content(picture), STYLE + PAGE + colours_of(picture)
    policy = f"default-src 'none'; style-src {hashed(style)}; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(visible(picture.title))}</title><style>{style}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def hashed(text: str) -> str:
    """A style or a script as a policy names it, so that it allows this one alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def fragment(picture: Picture) -> str:
    """The same for a notebook: a part of a page, with its style inside."""
    return f"<div><style>{STYLE}{colours_of(picture)}</style>{content(picture)}</div>"


def content(picture: Picture) -> str:
    mark = name_of(picture)
    panels = "".join(figure(panel, f"{mark}-{number}") for number, panel in enumerate(picture.panels))
    notes = "".join(f"<li>{escape(visible(note))}</li>" for note in picture.notes)
    return (
        f'<main class="transom {mark}"><h1>{escape(visible(picture.title))}</h1>'
        f'<p class="source">{escape(picture.source.said())}</p><div class="panels">{panels}</div>'
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + tabled(picture.table)
        + "</main>"
    )


def name_of(picture: Picture) -> str:
    """A name that no other picture on the same page has."""
    return f"t{hashlib.sha256(picture.json().encode()).hexdigest()[:10]}"


def figure(panel: Panel, mark: str) -> str:
    if isinstance(panel, Grid) and panel.opens:
        return opening(panel, mark)
    canvas = panel.drawn()
    return f"<figure>{canvas.svg(visible(panel.title), margin=4)}</figure>"


def opening(grid: Grid, mark: str) -> str:
    """A table of buttons: each cell opens how its number came about."""
    heads = "".join(f"<th scope=col>{escape(visible(one))}</th>" for one in grid.columns)
    cells = ["".join(cell(grid, i, j, mark) for j in range(len(grid.columns))) for i in range(len(grid.rows))]
    labels = [f"<th scope=row>{escape(visible(label))}</th>" for label in grid.rows]
    rows = "".join(f"<tr>{label}{across}</tr>" for label, across in zip(labels, cells, strict=True))
    equation = f"<i>{escape(visible(grid.equation))}</i>" if grid.equation else ""
    return (
        f"<figure><figcaption>{escape(visible(grid.title))}{equation}</figcaption>"
        f'<table class="opens"><thead><tr><th class="axis">{escape(grid.corner())}</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></figure>"
    )


def cell(grid: Grid, i: int, j: int, mark: str) -> str:
    value, how, at = grid.values[i][j], grid.opens[i][j], f"{mark}-{i}-{j}"
    there = value is not None and math.isfinite(value)
    shade = f' class="h{step(grid, value)}"' if there else ""  # pyright: ignore[reportArgumentType]
    spoken, name = escape(grid.spoken(i, j)), escape(visible(grid.title.partition(":")[0]))
    return (
        f'<td{shade}><button popovertarget="{at}" aria-label="{spoken}">{written(value, grid.digits)}</button>'
        f'<div popover id="{at}"><b>{name}, {spoken}</b><code>{escape(visible_long(how))}</code></div></td>'
    )


def visible_long(how: str) -> str:
    """Arithmetic may be long: it is made visible word by word."""
    return " ".join(visible(word) for word in how.split(" ") if word)


def step(grid: Grid, value: float) -> str:
    """The class of a cell's colour: one of 65 steps of its map."""
    return f"{grid.heat.colours[0]}{round(64 * grid.heat.share(value))}"


def colours_of(picture: Picture) -> str:
    """The colours of the cells that open, as rules: a style attribute would need a policy that allows any style."""
    found = {}
    for grid in picture.panels:
        if isinstance(grid, Grid) and grid.opens:
            for value in (one for row in grid.values for one in row if one is not None and math.isfinite(one)):
                found[step(grid, value)] = grid.heat.rough(value)
    return "".join(
        f".transom .h{name}{{background:{hexed(rgb)};color:{ink_on(rgb)}}}" for name, rgb in sorted(found.items())
    )


def tabled(table: Table) -> str:
    """The numbers behind it."""
    if not table.rows:
        return ""
    heads = "".join(f"<th scope=col>{escape(one)}</th>" for one in table.columns)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(told(one))}</td>' for one in row)}</tr>" for row in table.rows[:ROWS])
    more = (
        f"<p>{len(table.rows) - ROWS:,} more rows are in the JSON of this picture.</p>"
        if len(table.rows) > ROWS
        else ""
    )
    return (
        f"<details><summary>The numbers ({min(len(table.rows), ROWS):,} rows)</summary>"
        f'<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"{more}</details>"
    )


def told(value: str | int | float | None) -> str:
    return "" if value is None else visible(value) if isinstance(value, str) else plain(value)
