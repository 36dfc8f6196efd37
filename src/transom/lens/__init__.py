"""Looking into attention: a Sight is one attention, kept so that any number of it can be asked for."""

from transom.lens.pooled import Map
from transom.lens.receipt import Receipt
from transom.lens.sight import Sight, sight
from transom.lens.statistics import Statistics, Top

__all__ = ["Map", "Receipt", "Sight", "Statistics", "Top", "sight"]
