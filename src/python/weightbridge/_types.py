"""Small types, the same words as in C++."""

from __future__ import annotations

import dataclasses
import enum


class DType(enum.IntEnum):
    """Element types, as safetensors names them."""

    BOOL = 1
    U8 = 2
    I8 = 3
    F8_E5M2 = 4
    F8_E4M3 = 5
    F8_E8M0 = 6
    I16 = 7
    U16 = 8
    F16 = 9
    BF16 = 10
    I32 = 11
    U32 = 12
    F32 = 13
    I64 = 14
    U64 = 15
    F64 = 16
    C64 = 17
    F4 = 18
    F6_E2M3 = 19
    F6_E3M2 = 20
    F8_E4M3_FNUZ = 21
    F8_E5M2_FNUZ = 22


_WIDTH = {
    DType.I16: 2, DType.U16: 2, DType.F16: 2, DType.BF16: 2, DType.I32: 4, DType.U32: 4,
    DType.F32: 4, DType.I64: 8, DType.U64: 8, DType.F64: 8, DType.C64: 8,
}


def itemsize(dtype: DType) -> int:
    """Bytes of an element. Types narrower than a byte have none."""
    if dtype in (DType.F4, DType.F6_E2M3, DType.F6_E3M2):
        raise ValueError(f"an element of {dtype.name} is no whole number of bytes")
    return _WIDTH.get(dtype, 1)


class ExtraKind(enum.IntEnum):
    """Bytes of a buffer that no checkpoint tensor fills."""

    UNMAPPED = 1
    """Not in the checkpoint: kept as it is."""
    ZERO_FILL = 2
    """Padding: set to zero at each pull."""
    COMPUTED = 3
    """Derived by the engine: a pull names it among the finalisers to run."""


class Role(enum.IntEnum):
    SOURCE = 1
    RECEIVER = 2


class MemoryKind(enum.IntEnum):
    HOST = 1
    SHARED = 2


class PublishMode(enum.IntEnum):
    IN_PLACE = 1
    SNAPSHOT = 2


class MemoryState(enum.IntEnum):
    UNTOUCHED = 1
    COMPLETE = 2
    TORN = 3


class PullStep(enum.IntEnum):
    DISCOVER = 1
    PLAN = 2
    CONNECT = 3
    WAIT = 4
    READ = 5
    CHECK = 6
    INSTALL = 7


class EventKind(enum.IntEnum):
    STEP_BEGIN = 1
    STEP_END = 2
    FIRST_BYTES = 3
    TORN = 4
    SOURCE_LOST = 5


@dataclasses.dataclass(frozen=True, order=True)
class Version:
    """The trainer's number inside one generation of trainer ranks."""

    generation: int = 0
    number: int = 0


@dataclasses.dataclass(frozen=True)
class Want:
    """Which version a pull asks for: `latest`, `exactly(n)`, `at_least(n)`."""

    kind: int = 1
    number: int = 0


latest = Want()


def exactly(number: int) -> Want:
    return Want(2, number)


def at_least(number: int) -> Want:
    return Want(3, number)
