# SPDX-License-Identifier: Apache-2.0
"""Numbers from a hash, so that weights and data need not be stored.

The C side repeats this bit for bit. For a name s (bytes) and an element index i:

    base = FNV-1a-64 of the bytes of s
    x    = base + i * 0x9E3779B97F4A7C15            (modulo 2^64)
    h    = splitmix64(x):  z = x + 0x9E3779B97F4A7C15
                           z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
                           z = (z ^ (z >> 27)) * 0x94D049BB133111EB
                           h = z ^ (z >> 31)
    u     = (h >> 40) * 2^-24         in [0, 1), exact in float32
    value = (2u - 1) * scale + shift  in float32: 2u - 1 is exact, then one rounded
                                      product, then one rounded sum (no fused
                                      multiply-add); no sum at all when shift is 0
    integer data modulo n = h % n
"""

import numpy as np

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK = (1 << 64) - 1


def fnv1a64(name):
    """The 64-bit FNV-1a hash of a string's UTF-8 bytes."""
    h = FNV_OFFSET
    for byte in name.encode():
        h = ((h ^ byte) * FNV_PRIME) & MASK
    return h


def hashes(name, count):
    """The first `count` 64-bit hashes of a name."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a64(name)) + np.arange(count, dtype=np.uint64) * GOLDEN
        z = z + GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(name, shape, scale=1.0, shift=0.0):
    """float32 values in [shift - scale, shift + scale)."""
    count = int(np.prod(shape, dtype=np.int64))
    u = (hashes(name, count) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    value = (np.float32(2) * u - np.float32(1)) * np.float32(scale)
    if shift != 0:
        value = value + np.float32(shift)
    return value.reshape(shape)


def integers(name, shape, modulo):
    """int64 values in [0, modulo)."""
    count = int(np.prod(shape, dtype=np.int64))
    return (hashes(name, count) % np.uint64(modulo)).astype(np.int64).reshape(shape)
