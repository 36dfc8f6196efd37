"""Images: the patches that a vision model reads as tokens, and where in the picture each of them is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from transom.names import Misfit

DISTILLATION = "distillation_token"  # the parameter of models that put a second token before the patches


@dataclass(frozen=True)
class Grid:
    """Patches in `rows` and `columns`, read row by row, with the names of the tokens before and after them."""

    rows: int
    columns: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    path: str = ""  # of the part of the model that reads the image

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1:
            raise Misfit(
                f"a grid has rows and columns of patches, but got {self.rows} × {self.columns}; give 1 or more of each"
            )

    @property
    def tokens(self) -> int:
        return len(self.before) + self.rows * self.columns + len(self.after)

    def labels(self) -> list[str]:
        """A word for each token: "patch 2,3" is row 2, column 3, counted from 0."""
        patches = [f"patch {row},{column}" for row in range(self.rows) for column in range(self.columns)]
        return [*self.before, *patches, *self.after]

    def place(self, token: int) -> tuple[int, int] | None:
        """Row and column of a token's patch; None for a token that is no patch."""
        patch = token - len(self.before)
        return divmod(patch, self.columns) if 0 <= patch < self.rows * self.columns else None

    def laid_out(self, of_keys: Float[Tensor, "*any keys"]) -> Float[Tensor, "*any rows columns"]:
        """Numbers per token, such as a row of weights, as the picture has its patches; the other tokens left out."""
        if of_keys.shape[-1] != self.tokens:
            raise Misfit(
                f"a grid of {self.rows} × {self.columns} has {self.tokens} tokens, but {of_keys.shape[-1]} numbers"
                " came; give one number per token"
            )
        first = len(self.before)
        return of_keys[..., first : first + self.rows * self.columns].unflatten(-1, (self.rows, self.columns))

    def covers(self, name: str, keys: int) -> bool:
        """Whether an attention of that name looks at these patches."""
        inside = not self.path or name == self.path or name.startswith(f"{self.path}.")
        return inside and keys == self.tokens


def found_grid(model: nn.Module, seen: Iterable[tuple[str, int]], given: tuple[int, int] | None) -> Grid | None:
    """The grid of a model's patches, by its config or as given; `seen` tells names and keys of its attentions."""
    path, config = vision_part(model)
    counts = [keys for name, keys in seen if not path or name.startswith(path)]
    if given is not None:
        return as_given(given, path, max(counts, default=0))
    sizes = None if config is None else (pair(config.image_size), pair(config.patch_size))
    if sizes is None or None in sizes or not counts:
        return None
    (height, width), (tall, wide) = sizes  # pyright: ignore[reportGeneralTypeIssues]
    rows, columns = height // tall, width // wide
    after = tuple(f"[det {number}]" for number in range(getattr(config, "num_detection_tokens", 0) or 0))
    before = special(model, config, counts[0] - rows * columns - len(after))
    return None if before is None or min(rows, columns) < 1 else Grid(rows, columns, before, after, path)


def as_given(given: tuple[int, int], path: str, keys: int) -> Grid:
    rows, columns = given
    extra = keys - rows * columns
    if extra < 0:
        raise Misfit(
            f"a grid of {rows} × {columns} needs {rows * columns} keys, but there are {keys}; give rows and columns"
        )
    return Grid(rows, columns, ("[cls]",) if extra == 1 else tuple(f"[{number}]" for number in range(extra)), (), path)


def vision_part(model: nn.Module) -> tuple[str, Any]:
    """Path and config of the outermost part whose config tells of images; none where no part's does."""
    for path, module in model.named_modules():
        config = getattr(module, "config", None)
        if hasattr(config, "image_size") and hasattr(config, "patch_size"):
            return path, config
    return "", None


def pair(size: object) -> tuple[int, int] | None:
    """A size of a config as height and width."""
    if isinstance(size, int) and size > 0:
        return size, size
    whole = isinstance(size, list | tuple) and len(size) == 2 and all(isinstance(n, int) and n > 0 for n in size)
    return (size[0], size[1]) if whole else None  # pyright: ignore[reportIndexIssue, reportReturnType]


def special(model: nn.Module, config: Any, count: int) -> tuple[str, ...] | None:
    """The tokens that stand before the patches, if it is clear what they are."""
    registers = getattr(config, "num_register_tokens", 0) or 0
    distilled = any(name.endswith(DISTILLATION) for name, _ in model.named_parameters())
    known = ["[cls]", *(["[dist]"] if distilled else []), *(f"[reg {number}]" for number in range(registers))]
    return () if count == 0 else tuple(known) if count == len(known) else None
