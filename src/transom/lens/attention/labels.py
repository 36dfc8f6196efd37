"""The labels of a run: its tokens, its targets, the patches of an image; and which names mean cross-attention."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from transom.lens.unseen_attention import UnseenAttention
from transom.names import Misfit

Tokens = list[list[str]]  # the tokens of each sequence, as text
# Words in the paths of cross-attention.
CROSS = ("cross", "encoder_attn", "encdecattention", "multihead_attn", "src_attn", "enc_dec", "encoder_attention")
DECODER = "decoder"
DISTILLATION = "distillation_token"  # the parameter of models that put a second token before the patches


@dataclass(frozen=True)
class PatchGrid:
    """Patches in `rows` and `columns`, read row by row, and the names of the tokens before and after them."""

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
        """A label for each token: "patch 2,3" is row 2, column 3, counted from 0."""
        patches = [f"patch {row},{column}" for row in range(self.rows) for column in range(self.columns)]
        return [*self.before, *patches, *self.after]

    def place(self, token: int) -> tuple[int, int] | None:
        """Row and column of a token's patch; None for a token that is not a patch."""
        patch = token - len(self.before)
        return divmod(patch, self.columns) if 0 <= patch < self.rows * self.columns else None

    def to_image_grid(self, of_keys: Float[Tensor, "*any keys"]) -> Float[Tensor, "*any rows columns"]:
        """Numbers per token, such as a row of weights, as rows and columns of patches; other tokens are left out."""
        if of_keys.shape[-1] != self.tokens:
            raise Misfit(
                f"a grid of {self.rows} × {self.columns} has {self.tokens} tokens, but {of_keys.shape[-1]} numbers"
                " came; give one number per token"
            )
        first = len(self.before)
        return of_keys[..., first : first + self.rows * self.columns].unflatten(-1, (self.rows, self.columns))

    def covers(self, name: str, keys: int) -> bool:
        """Whether an attention of that name is over these patches."""
        inside = not self.path or name == self.path or name.startswith(f"{self.path}.")
        return inside and keys == self.tokens


@dataclass(eq=False)
class RunLabels:
    """The tokens of each sequence, those that a decoder reads beside them, an image's patches, and what is unseen."""

    tokens: Tokens | None = None
    targets: Tokens | None = None
    grid: PatchGrid | None = None
    unseen: list[UnseenAttention] = field(default_factory=list)


@dataclass(frozen=True)
class Labels:
    """For each row the token it reads and the one it predicts, for each column its token.

    `predicts` is None for an attention that predicts nothing; its last entry is None if the next token is not known.
    """

    reads: list[str]
    predicts: list[str | None] | None
    at: list[str]


def is_cross(name: str) -> bool:
    """Whether it is cross-attention, by its name."""
    return any(word in name.lower() for word in CROSS)


def in_decoder(name: str) -> bool:
    """Whether it belongs to the decoder of an encoder–decoder, by its name."""
    return DECODER in name.lower() or is_cross(name)


def find_patch_grid(
    paths: dict[nn.Module, str], key_counts: Iterable[tuple[str, int]], size: tuple[int, int] | None
) -> PatchGrid | None:
    """The grid of an image's patches, of the given size or by the model's config; None if it is not clear.

    `paths` has the modules of the model, itself first; `key_counts` the name of each attention and its keys.
    """
    path, config = find_vision_config(paths)
    counts = [keys for name, keys in key_counts if name.startswith(path)]
    if size is not None:
        return grid_of_size(*size, path, max(counts, default=0))
    image = to_height_width(getattr(config, "image_size", None))
    patch = to_height_width(getattr(config, "patch_size", None))
    if image is None or patch is None or not counts:
        return None
    rows, columns = image[0] // patch[0], image[1] // patch[1]
    after = tuple(f"[det {number}]" for number in range(getattr(config, "num_detection_tokens", 0) or 0))
    before = special_tokens(next(iter(paths)), config, counts[0] - rows * columns - len(after))
    return None if before is None or min(rows, columns) < 1 else PatchGrid(rows, columns, before, after, path)


def grid_of_size(rows: int, columns: int, path: str, keys: int) -> PatchGrid:
    """A grid of this size; the tokens that are left come before it."""
    extra = keys - rows * columns
    if extra < 0:
        raise Misfit(
            f"a grid of {rows} × {columns} needs {rows * columns} keys, but there are {keys}; give rows and columns"
        )
    before = ("[cls]",) if extra == 1 else tuple(f"[{number}]" for number in range(extra))
    return PatchGrid(rows, columns, before, (), path)


@cache
def has_config(kind: type[nn.Module]) -> bool:
    """Whether a class of modules has a config of its own."""
    return hasattr(kind, "config")


def find_vision_config(paths: dict[nn.Module, str]) -> tuple[str, Any]:
    """Path and config of the outermost part whose config describes images; None if there is no such part."""
    others: set[int] = set()  # configs that describe none; most parts share one
    for module, path in paths.items():
        if "config" not in module.__dict__ and not has_config(type(module)):
            continue  # looking it up in vain takes long
        config = module.config
        if id(config) not in others:
            if hasattr(config, "image_size") and hasattr(config, "patch_size"):
                return path, config
            others.add(id(config))
    return "", None


def to_height_width(size: Any) -> tuple[int, int] | None:
    """A size of a config, one number or two, as height and width."""
    sides = (size, size) if isinstance(size, int) else size
    if not isinstance(sides, list | tuple) or len(sides) != 2:
        return None
    return (sides[0], sides[1]) if all(isinstance(side, int) and side > 0 for side in sides) else None


def special_tokens(model: nn.Module, config: Any, count: int) -> tuple[str, ...] | None:
    """The tokens before the patches, if it is clear what they are."""
    registers = getattr(config, "num_register_tokens", 0) or 0
    distilled = any(name.endswith(DISTILLATION) for name, _ in model.named_parameters())
    known = ("[cls]", *(["[dist]"] if distilled else []), *(f"[reg {number}]" for number in range(registers)))
    return () if count == 0 else known if count == len(known) else None
