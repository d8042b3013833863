"""Errors: one class per code of the library, each with the facts."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._report import PullReport


class Code(enum.IntEnum):
    """Codes as in weightbridge.h."""

    INVALID_ARGUMENT = 1
    BAD_DATA = 2
    NOT_FOUND = 3
    DEADLINE = 4
    UNAVAILABLE = 5
    UNAUTHENTICATED = 6
    PERMISSION = 7
    NO_MEMORY = 8
    MISMATCH = 9
    NOT_COVERED = 10
    UNPROVEN = 11
    TORN = 12
    STARVED = 13
    PEER_LOST = 14
    GENERATION_CHANGED = 15
    FAILED_PRECONDITION = 16
    UNSUPPORTED = 17
    BUSY = 18
    CANCELLED = 19
    IO = 20
    INTERNAL = 21


class Error(RuntimeError):
    """A failed call. Nothing has happened unless the call says otherwise."""

    code: Code = Code.INTERNAL

    def __init__(
        self,
        sentence: str,
        *,
        code: Code | None = None,
        retryable: bool = False,
        sys_errno: int = 0,
        vendor: int = 0,
        peer: str = "",
        tensor: str = "",
    ) -> None:
        super().__init__(sentence)
        if code is not None:
            self.code = code
        self.sentence = sentence
        self.retryable = retryable
        """The same call may succeed later with nothing changed by the caller."""
        self.sys_errno = sys_errno
        self.vendor = vendor
        self.peer = peer
        self.tensor = tensor
        self.report: PullReport | None = None
        """Of a pull or an install that failed: what was tried, and what the memory holds."""

    def __str__(self) -> str:
        return f"{self.code.name.lower()}: {self.sentence}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between processes: vLLM's workers, multiprocessing pools.
        facts = (self.code, self.sentence, self.retryable, self.sys_errno, self.vendor)
        return make, (*facts, self.peer, self.tensor)


class InvalidArgument(Error, ValueError):
    """The caller's words are wrong; calling again cannot help."""

    code = Code.INVALID_ARGUMENT


class BadData(Error):
    """A file, the store or a peer gave malformed bytes."""

    code = Code.BAD_DATA


class NotFound(Error):
    """A file, key, tensor or rank that does not exist."""

    code = Code.NOT_FOUND


class Deadline(Error, TimeoutError):
    """The timeout passed before the thing waited for happened."""

    code = Code.DEADLINE


class Unavailable(Error):
    """The store or a peer cannot be reached now."""

    code = Code.UNAVAILABLE


class Unauthenticated(Error):
    """Wrong token or password."""

    code = Code.UNAUTHENTICATED


class Permission(Error):
    """The operating system forbids it."""

    code = Code.PERMISSION


class NoMemory(Error, MemoryError):
    """Memory, locked memory or descriptors are exhausted."""

    code = Code.NO_MEMORY


class Mismatch(Error):
    """The two sides do not describe the same model or world."""

    code = Code.MISMATCH


class NotCovered(Error):
    """No source holds a byte that the receiver needs."""

    code = Code.NOT_COVERED


class Unproven(Error):
    """A plan failed its proof; nothing was executed."""

    code = Code.UNPROVEN


class Torn(Error):
    """The source changed during the read."""

    code = Code.TORN


class Starved(Error):
    """Every attempt until the timeout was torn."""

    code = Code.STARVED


class PeerLost(Error):
    """A source died or went away."""

    code = Code.PEER_LOST


class GenerationChanged(Error):
    """The set of trainer ranks was re-formed: `Publisher.rejoin()`."""

    code = Code.GENERATION_CHANGED


class FailedPrecondition(Error):
    """Calls in the wrong order."""

    code = Code.FAILED_PRECONDITION


class Unsupported(Error):
    """This build, machine or transport cannot do it."""

    code = Code.UNSUPPORTED


class Busy(Error):
    """An address, port or rank that is already taken."""

    code = Code.BUSY


class Cancelled(Error):
    """Closed by its owner while it waited."""

    code = Code.CANCELLED


class IoError(Error):
    """A system call failed in a way no other code names."""

    code = Code.IO


class Internal(Error):
    """A broken invariant of the library: please report it."""

    code = Code.INTERNAL


_CLASSES: dict[Code, type[Error]] = {
    cls.code: cls
    for cls in (
        InvalidArgument, BadData, NotFound, Deadline, Unavailable, Unauthenticated, Permission,
        NoMemory, Mismatch, NotCovered, Unproven, Torn, Starved, PeerLost, GenerationChanged,
        FailedPrecondition, Unsupported, Busy, Cancelled, IoError, Internal,
    )
}


def make(
    code: int, sentence: str, retryable: bool, sys_errno: int, vendor: int, peer: str, tensor: str
) -> Error:
    """The exception of a code, not raised."""
    known = Code(code)
    return _CLASSES[known](
        sentence,
        retryable=retryable,
        sys_errno=sys_errno,
        vendor=vendor,
        peer=peer,
        tensor=tensor,
    )
