"""The moving picture of README.md: a real run of a language model, what it read and what mattered, as an animated SVG.

    python docs/draw_moving_picture.py FOLDER      # a Hugging Face model on this machine, such as SmolLM2-135M-Instruct

Every number comes from the model: the weights of two arrows, and the chances of the next word with and without each.
"""

import argparse
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch

import transom

OUT = Path(__file__).parent / "pictures" / "moving.svg"
TEXT, SUBJECT = "The capital of Italy is", "Italy"
TRIED = 8  # arrows that are knocked out on each side, to find the two that are shown
WIDTH, HEIGHT, LOOP = 880, 372, 15  # pixels, seconds
BARS, BAR_LEFT, FULL = 4, 610, 400  # how many; where they begin; pixels of a chance of 1
REMARK = "Weights say what a head read; only a knock-out says what mattered: transom.watch, transom.knock_out"


@dataclass(frozen=True)
class Arrow:
    """An attention edge from the last token: where it is, its weight, and the next words without it."""

    layer: str
    head: int
    key: int
    weight: float
    words: list[tuple[str, float]]


class LanguageModel:
    """A model with its tokenizer, and the likeliest next words of one text."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
        self.inputs = self.tokenizer(TEXT, return_tensors="pt")
        self.name = Path(folder).resolve().name

    def next_words(self) -> list[tuple[str, float]]:
        with torch.no_grad():
            chances = self.model(**self.inputs).logits[0, -1].softmax(dim=-1)
        top = chances.topk(BARS)
        words = [self.tokenizer.decode([number]) for number in top.indices.tolist()]
        return list(zip(words, top.values.tolist(), strict=True))

    def without(self, layer: str, head: int, key: int) -> list[tuple[str, float]]:
        last = self.inputs["input_ids"].shape[1] - 1
        with transom.knock_out(self.model, layer=layer, head=head, query=last, key=key):
            return self.next_words()


def find_arrows(model: LanguageModel) -> tuple[list[str], list[tuple[str, float]], Arrow, Arrow]:
    """Of the heaviest arrows, the one that changes least; of those at the subject, the one that changes most."""
    with torch.no_grad(), transom.watch(model.model, tokenizer=model.tokenizer) as trace:
        model.model(**model.inputs)
    tokens = trace.tokens[0]
    subject = next(place for place, token in enumerate(tokens) if token.strip() == SUBJECT)
    rows = {name: trace[name].weights(batch=0, rows=-1) for name in trace.names}
    edges = [
        (float(weights[head, key]), name, head, key)
        for name, weights in rows.items()
        for head in range(weights.shape[0])
        for key in range(len(tokens) - 1)
    ]
    edges.sort(reverse=True)
    before = model.next_words()

    def change(arrow: Arrow) -> float:
        return abs(dict(arrow.words).get(before[0][0], 0.0) - before[0][1])

    def knock_out(chosen: list[tuple[float, str, int, int]]) -> list[Arrow]:
        return [Arrow(name, head, key, weight, model.without(name, head, key)) for weight, name, head, key in chosen]

    idle = min(knock_out(edges[:TRIED]), key=change)
    vital = max(knock_out([edge for edge in edges if edge[3] == subject][:TRIED]), key=change)
    return tokens, before, idle, vital


def draw(name: str, tokens: list[str], before: list[tuple[str, float]], idle: Arrow, vital: Arrow) -> str:
    """Three scenes of five seconds: the arrows and the next word; without the one; without the other."""
    places = [60 + k * (BAR_LEFT - 190) / max(1, len(tokens) - 1) for k in range(len(tokens))]
    scenes = [
        Scene("Which token did the last one read? Two arrows of two heads, with their weights.", before),
        Scene(f"Knock out the one of weight {idle.weight:.2f}: hardly anything changes.", idle.words, before),
        Scene(
            f"Knock out the one of weight {vital.weight:.2f} at “{SUBJECT}”: this one mattered.", vital.words, before
        ),
    ]
    parts = [draw_arrow(places, arrow, number) for number, arrow in enumerate((idle, vital), 1)]
    parts += [text(x, 196, token.strip() or token, "word") for x, token in zip(places, tokens, strict=True)]
    parts.append(text(24, 40, f"{name} reads “{TEXT} …”", "title", "start"))
    parts.append(text(24, 354, REMARK, "note", "start"))
    parts += [scene.draw(number) for number, scene in enumerate(scenes)]
    word, chance = before[0]
    without = ", ".join(f"{dict(arrow.words).get(word, 0.0):.2f}" for arrow in (idle, vital))
    label = f"{name} on “{TEXT}”: {word.strip()} {chance:.2f}; without the one arrow and the other: {without}"
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}"'
    paper = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="14" class="paper"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style()}</style>{paper}{"".join(parts)}</svg>\n'


@dataclass(frozen=True)
class Scene:
    """A caption and the chances of the next word; `before` are those with all arrows, of a scene without one."""

    caption: str
    words: list[tuple[str, float]]
    before: list[tuple[str, float]] | None = None

    def draw(self, number: int) -> str:
        rows = "".join(self.draw_bar(place, word, chance) for place, (word, chance) in enumerate(self.words))
        heading = text(BAR_LEFT, 80, "the next word", "note", "start")
        return f'<g class="scene s{number}">{text(24, 300, self.caption, "caption", "start")}{heading}{rows}</g>'

    def draw_bar(self, place: int, word: str, chance: float) -> str:
        """A bar, and a mark where it ended with all arrows."""
        y, was = 96 + 44 * place, dict(self.before or ()).get(word)
        parts = [text(BAR_LEFT - 10, y + 16, word.strip() or repr(word), "bar-word", "end")]
        size = f'y="{y}" width="{max(2.0, FULL * chance):.1f}" height="22" rx="4"'
        parts.append(f'<rect x="{BAR_LEFT}" {size} class="bar"/>')
        if was is not None:
            x = BAR_LEFT + FULL * was - 1.5
            parts.append(f'<rect x="{x:.1f}" y="{y - 4}" width="3" height="30" class="was"/>')
        end = BAR_LEFT + FULL * max(chance, was or 0.0) + 10
        parts.append(text(end, y + 16, f"{chance:.2f}", "number", "start"))
        return "".join(parts)


def draw_arrow(places: list[float], arrow: Arrow, number: int) -> str:
    """From the last token at a key; it fades and is dashed in the scene that knocks it out."""
    start, end = places[-1], places[arrow.key]
    height = 150 - 26 * number - 0.10 * abs(start - end)
    width = 1 + 6 * arrow.weight
    path = f"M{start:.0f} 176 Q{(start + end) / 2:.0f} {height:.0f} {end:.0f} 174"
    where = f"layer {layer_number(arrow.layer)}, head {arrow.head}: {arrow.weight:.2f}"
    top = 0.5 * 175 + 0.5 * height
    return (
        f'<g class="arrow out{number}"><path d="{path}" stroke-width="{width:.1f}"/>'
        f'<path class="tip" d="M{end:.0f} 180l-6 -11h12z"/>{text((start + end) / 2, top - 8, where, "label")}</g>'
    )


def layer_number(name: str) -> str:
    return next((part for part in name.split(".") if part.isdigit()), name)


def text(x: float, y: float, words: str, kind: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def style() -> str:
    """Scenes by keyframes; without motion the last one stays. Dark by the reader's own setting."""
    second, third = (f"animation-delay:{share * LOOP / 3:.0f}s" for share in (1, 2))
    motion = (
        f".scene{{opacity:0;animation:show {LOOP}s infinite}}.s1{{{second}}}.s2{{{third}}}"
        f".out1 path{{animation:cut {LOOP}s infinite;{second}}}"
        f".out2 path{{stroke-dasharray:none;opacity:.8;animation:cut {LOOP}s infinite;{third}}}"
    )
    whole = "stroke-dasharray:none;opacity:.8"
    return (
        "text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif;font-size:15px;fill:#1d2329}"
        ".paper{fill:#fbfaf7}.title{font-size:19px;font-weight:600}.word{font-size:20px;font-weight:600}"
        ".caption{font-size:18px}.note{font-size:13px;fill:#57606a}.label{font-size:13px;fill:#0b4f78}"
        ".number{font-variant-numeric:tabular-nums}.bar{fill:#0072b2}.was{fill:#a04000}"
        ".arrow path{fill:none;stroke:#0072b2;opacity:.8}.arrow .tip{fill:#0072b2;stroke:none}"
        ".scene{opacity:0}.s2{opacity:1}.out2 path{stroke-dasharray:5 7;opacity:.35}"
        f"@media(prefers-reduced-motion:no-preference){{{motion}}}"
        "@keyframes show{0%,32%{opacity:1}33.3%,99%{opacity:0}100%{opacity:1}}"
        f"@keyframes cut{{0%,2%{{{whole}}}5%,31%{{stroke-dasharray:5 7;opacity:.25}}33.3%,100%{{{whole}}}}}"
        "@media(prefers-color-scheme:dark){text{fill:#e8eaed}.paper{fill:#14181d}.note{fill:#a9b3bd}"
        ".label{fill:#8cc4ec}.bar{fill:#6cb6e8}.was{fill:#ffb37a}.arrow path{stroke:#6cb6e8}.arrow .tip{fill:#6cb6e8}}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="a Hugging Face language model on this machine")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    model = LanguageModel(given.folder)
    tokens, before, idle, vital = find_arrows(model)
    given.out.write_text(draw(model.name, tokens, before, idle, vital), encoding="utf-8")
    sys.stdout.write(f"{given.out}\n{before}\n{idle}\n{vital}\n")


if __name__ == "__main__":
    main()
