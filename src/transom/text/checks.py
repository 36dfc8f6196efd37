"""What the text room takes, and what it says when something else comes."""

from transom.names import Misfit


def check_numbers(at_least: int = 0, **numbers: int) -> None:
    """Every number is `at_least` this."""
    for word, number in numbers.items():
        if number < at_least:
            raise Misfit(f"{word} must be {at_least} or more, but got {number}; give a larger whole number")
