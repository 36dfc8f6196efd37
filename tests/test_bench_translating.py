"""python -m bench.translating: each sentence is translated alone, after a round that does not count."""

import json
import sys

from bench import translating


def test_it_prints_milliseconds_for_each_number_of_beams(monkeypatch, capsys):
    seen = []
    ticks = iter(range(10_000))
    monkeypatch.setattr(translating, "translate", lambda model, tokenizer, texts, beams: seen.append((texts, beams)))
    monkeypatch.setattr(translating.time, "process_time", lambda: next(ticks) * 0.02)
    arguments = ["translating", "--rounds", "2", "--threads", "1", "--processor", "--json"]
    monkeypatch.setattr(sys, "argv", arguments)
    translating.main()
    found = json.loads(capsys.readouterr().out)["milliseconds"]
    assert {name: round(each["median"]) for name, each in found.items()} == {"4 beams": 20, "1 beams": 20}
    assert [beams for _, beams in seen] == [4] * 30 + [1] * 30
    assert [texts for texts, _ in seen[:10]] == [[sentence] for sentence in translating.SENTENCES]
