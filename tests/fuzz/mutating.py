"""Changes inputs at random: what a fuzzer does that does not see which code they reach."""

from __future__ import annotations

import random
from collections.abc import Sequence

ODD_BYTES = bytes([0, 1, 0x7F, 0x80, 0xFF, 0x15, 0x18, 0x19, 0x1C])


def mutated(data: bytes, others: Sequence[bytes], tokens: Sequence[bytes], dice: random.Random) -> bytes:
    """Returns an input with one to eight changes, some of them parts of other inputs."""
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 4, 8))):
        at, size = dice.randrange(len(out) + 1), dice.choice((1, 1, 2, 4, 8, 32, 200))
        match dice.randrange(10):
            case 0 | 1 if at < len(out):
                out[at] ^= 1 << dice.randrange(8)
            case 2 if at < len(out):
                out[at] = dice.choice(ODD_BYTES)
            case 3:
                del out[at : at + size]
            case 4:
                out[at:at] = dice.randbytes(size)
            case 5:
                out[at:at] = out[dice.randrange(len(out) + 1) :][:size]
            case 6 if tokens:
                token = dice.choice(tokens)
                out[at : at + dice.choice((0, len(token)))] = token
            case 7:
                other = dice.choice(others)
                start = dice.randrange(len(other) + 1)
                out[at : at + dice.choice((0, size))] = other[start : start + size]
            case 8 if at < len(out):
                width = dice.choice((1, 2, 4, 8))
                number = int.from_bytes(out[at : at + width], "little") + dice.choice((-1, 1, 16, -32))
                out[at : at + width] = (number % 2 ** (8 * width)).to_bytes(width, "little")
            case _ if dice.random() < 0.2:
                del out[at:]
    return bytes(out)
