"""Every random choice of a run from its seed and its place, so that nothing random needs to be kept."""

import hashlib


def seed_of(seed: int, *place: int) -> int:
    """A seed for torch from the run's seed and where in the run it is used: 63 bits, the same everywhere."""
    digest = hashlib.blake2b(":".join(map(str, (seed, *place))).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
