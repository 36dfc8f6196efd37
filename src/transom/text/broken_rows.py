"""What happens to a row of word vectors that cannot be read."""

from dataclasses import dataclass

from transom.names import Misfit

COPY = "take another copy of the file"
LONGEST_WORD = 2**12  # bytes


@dataclass
class Broken:
    """A complaint about the first such row; or, if they may be skipped, their number and the first complaint."""

    skip: bool = False
    rows: int = 0
    first: str = ""

    def found(self, complaint: str) -> None:
        if not self.skip:
            raise Misfit(f"{complaint}; mend the file, or leave such rows out with skip_broken=True")
        self.rows, self.first = self.rows + 1, self.first or complaint
