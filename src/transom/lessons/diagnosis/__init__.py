"""Why a claim of a lesson may be wrong."""

from transom.lessons.diagnosis.causes import CAUSES, find_causes

__all__ = ["CAUSES", "find_causes"]
