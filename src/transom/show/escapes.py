"""Visible text inside other languages: quotes, entities and backslashes of each."""


def mermaided(text: str) -> str:
    """For a Mermaid label: every sign that is no letter, digit, dot or space as its entity, #60; for <."""
    return "".join(sign if sign.isalnum() or sign in " ." or ord(sign) > 0x7F else f"#{ord(sign)};" for sign in text)


def dotted(text: str) -> str:
    """For a quoted DOT string: its backslashes and quotes kept."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
