"""Typos as people make them: one slip in a word, drawn from a seed."""

import random

from transom.text.templates import draw_number, pick

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
SLIPS = "swap swap drop drop drop double beside sound sound vowel".split()  # noqa: SIM905
SOUNDS = (  # noqa: SIM905
    "ie>ei ei>ie ea>e ee>ea ou>o wh>w ph>f gh>g th>t ck>k ch>c ll>l ss>s tt>t mm>m pp>p rr>r nn>n ai>ia au>ua "
    "tion>shun er>or or>er ight>ite qu>q ea>ee ce>se se>ce kn>n ent>ant ant>ent able>ible ful>full y>ie i>y c>s s>c "
    "c>k ere>eir"
).split()


def mistype(word: str, rng: random.Random) -> str:
    """A word with one slip: letters swapped, left out, doubled, hit beside, or written as they sound."""
    kind, at = pick(rng, SLIPS), draw_number(rng, 1, len(word) - 2)
    sounds = [sound.split(">") for sound in SOUNDS if sound.split(">")[0] in word[1:]]
    if kind == "sound" and sounds:
        old, new = pick(rng, sounds)
        return word[0] + word[1:].replace(old, new, 1)
    if kind == "vowel" and (vowels := [index for index in range(1, len(word)) if word[index] in "aeiou"]):
        at = pick(rng, vowels)
        return word[:at] + pick(rng, "aeiou".replace(word[at], "")) + word[at + 1 :]
    if kind == "swap" and word[at] != word[at + 1]:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == "double":
        return word[:at] + word[at] + word[at:]
    row = next(row for row in KEYBOARD if word[at].lower() in row)
    index = row.index(word[at].lower())
    if kind == "beside":
        return word[:at] + pick(rng, row[max(0, index - 1) : index] + row[index + 1 : index + 2]) + word[at + 1 :]
    at = draw_number(rng, 1, len(word) - 1)
    return word[:at] + word[at + 1 :]
