"""Numbers as they are printed: one way for every picture, so that all of them say the same."""

import math

NOTHING = "–"  # a cell that is masked


def written(value: int | float | None, digits: int) -> str:
    """A number to so many decimals: a true minus sign, no −0.00; – where there is none."""
    if value is None:
        return NOTHING
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1e7:
        return f"{value:.{max(1, digits)}e}".replace("-", "−")
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def plain(value: int | float) -> str:
    """A number of a table: six significant digits, or whole."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return written(value, 0)
    return f"{value:.6g}".replace("-", "−")


def percent(share: float) -> str:
    """A share of a whole, never said to be all or nothing if it is not."""
    if 0 < share < 0.0005:
        return "under 0.1 %"
    if 0.9995 <= share < 1 - 1e-6:
        return "over 99.9 %"
    return f"{100 * share:.1f} %"


def grouped(count: int) -> str:
    """8,390,656."""
    return f"{count:,}"


def finite(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def ticks(low: int | float, high: int | float, most: int = 6) -> list[float]:
    """Round numbers from low to high, both inside or just beyond."""
    if not high > low:
        return [low]
    rough = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 2.5, 5, 10) if power * one >= rough * 0.999999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def decimals(marks: list[float]) -> int:
    """How many decimals tell ticks apart."""
    if len(marks) < 2:
        return 2
    step = abs(marks[1] - marks[0])
    return next((digits for digits in range(8) if abs(step * 10**digits - round(step * 10**digits)) < 1e-6), 8)
