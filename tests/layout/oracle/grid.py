"""Rank grids, and the words of the framework for what it refuses."""

import itertools

import numpy as np


class Refused(Exception):
    """The framework does not run this layout."""


def coordinates(rank, slowest_first):
    """Coordinate of a rank in a grid whose sizes are listed slowest first."""
    cells = np.arange(int(np.prod(slowest_first))).reshape(slowest_first)
    return tuple(int(c[0]) for c in np.nonzero(cells == rank))


def cut(array, parts, axis=0):
    """Equal parts, or Refused."""
    if array.shape[axis] % parts:
        raise Refused(f"{array.shape[axis]} by {parts}")
    return np.split(array, parts, axis=axis)


def rows_below(array, rows, value):
    """The array with rows of `value` below, so that it has a multiple of `rows` rows."""
    padded = -(-array.shape[0] // rows) * rows
    tail = np.full((padded - array.shape[0],) + array.shape[1:], value, dtype=np.int64)
    return np.vstack([array, tail])


def product_of(**choices):
    """All combinations as dictionaries."""
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values))
