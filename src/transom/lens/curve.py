"""A curve that never grows beyond a number of points: where it is full, neighbours become one, their mean."""

MOST_POINTS = 4096


class Curve:
    """A loss over updates: each point is the mean of a run of updates, and stands at the last of them."""

    def __init__(self, updates: list[int] | None = None, means: list[float] | None = None, width: int = 1) -> None:
        self.updates, self.means, self.width = updates or [], means or [], width
        self.open: list[float] = []  # of the point that is not yet full
        self.last = self.updates[-1] if self.updates else 0

    def add(self, update: int, loss: float) -> None:
        self.open.append(loss)
        self.last = update
        if len(self.open) == self.width:
            self.updates.append(update)
            self.means.append(sum(self.open) / self.width)
            self.open = []
        if len(self.updates) == MOST_POINTS:
            self.halve()

    def halve(self) -> None:
        self.means = [(one + other) / 2 for one, other in zip(self.means[::2], self.means[1::2], strict=True)]
        self.updates = self.updates[1::2]
        self.width *= 2

    def crop(self, update: int) -> None:
        """Forget what came after an update."""
        known = sum(one <= update for one in self.updates)
        del self.updates[known:], self.means[known:]
        self.open = []

    def points(self) -> tuple[list[int], list[float]]:
        """Updates and mean losses, that of the point which is not yet full among them."""
        if not self.open:
            return list(self.updates), list(self.means)
        return [*self.updates, self.last], [*self.means, sum(self.open) / len(self.open)]
