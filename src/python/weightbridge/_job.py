"""Jobs, publishers and receivers: the calls of weightbridge.hpp under the same names.

Timeouts are seconds. There is no wait without one.
"""

from __future__ import annotations

import atexit
import json
import logging
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from . import _weightbridge as native
from ._errors import Error, FailedPrecondition
from ._layout import Layout
from ._report import PublisherStats, PullEvent, PullReport
from ._types import EventKind, PublishMode, PullStep, Version, Want, latest

CLOSE_TIMEOUT = 10.0

Log = Callable[[int, str, str, dict[str, str]], None]


class _Closes(Protocol):
    def close(self, timeout: float = ...) -> None: ...


# What is open. Closed before the interpreter ends, in the order of these sets, so that no thread of
# the library enters an interpreter that is not there any more.
_receivers: weakref.WeakSet[_Closes] = weakref.WeakSet()
_publishers: weakref.WeakSet[_Closes] = weakref.WeakSet()
_jobs: weakref.WeakSet[_Closes] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for group in (_receivers, _publishers, _jobs):
        for one in list(group):
            try:
                one.close(2.0)
            except Error as error:
                logging.getLogger("weightbridge").warning("at exit: %s", error)
    native.end_of_python()


_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


def _to_logging(level: int, room: str, message: str, fields: dict[str, str]) -> None:
    logger = logging.getLogger("weightbridge." + room)
    if logger.isEnabledFor(_LEVELS[level]):
        facts = "".join(f" {key}={value}" for key, value in fields.items())
        logger.log(_LEVELS[level], "%s%s", message, facts)


class Job:
    """This process's membership in one training run.

    `log`: "logging" (records go to Python's loggers weightbridge.ROOM), None, or a callable
    (level, room, message, fields) that must not call the library. `log_level`: of logging.
    """

    def __init__(self, raw: native.Job) -> None:
        self._raw = raw
        _jobs.add(self)

    @staticmethod
    def open(
        store: str,
        *,
        timeout: float,
        token: str = "",
        token_file: str = "",
        name: str = "",
        host: str = "",
        transports: str = "",
        etcd_user: str = "",
        etcd_password: str = "",
        ca_file: str = "",
        log: str | Log | None = "logging",
        log_level: int = logging.WARNING,
    ) -> Job:
        """`store`: "embed:HOST:PORT" (this process serves it; port 0: any) or a URL."""
        least = sum(log_level > level for level in _LEVELS[:3])
        sink = _to_logging if log == "logging" else log
        return Job(
            native.Job.open(
                store, token, token_file, name, host, transports, etcd_user, etcd_password,
                ca_file, sink, least, timeout,
            )
        )

    @property
    def store_url(self) -> str:
        """Under which other processes reach the store."""
        return self._raw.store_url()

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        self._raw.close(timeout)

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        _close_after(self, value)


class Publisher:
    """A trainer rank."""

    def __init__(self, raw: native.Publisher, layout: Layout) -> None:
        self._raw = raw
        self._layout = layout  # its tensors stay while readers may come
        _publishers.add(self)

    @staticmethod
    def create(
        job: Job,
        layout: Layout,
        *,
        timeout: float,
        rank: int = 0,
        world: int = 1,
        mode: PublishMode = PublishMode.IN_PLACE,
        slots: int = 2,
        huge_pages: bool = False,
    ) -> Publisher:
        """Returns when all `world` ranks have joined. In place, the first update has begun."""
        raw = native.Publisher.create(
            job._raw, layout._raw, rank, world, int(mode), slots, huge_pages, timeout
        )
        return Publisher(raw, layout)

    def begin_update(self, stream: int = 0) -> None:
        """From here to `publish` the tensors may change. `stream`: a CUDA stream's handle."""
        self._raw.begin_update(stream)

    def publish(self, number: int, stream: int = 0) -> None:
        """The tensors hold version `number`. Never waits for readers."""
        self._raw.publish(number, stream)

    def rejoin(self, timeout: float) -> None:
        """Joins the newest set of trainer ranks. An update has begun, as after `create`."""
        self._raw.rejoin(timeout)

    def stats(self) -> PublisherStats:
        raw = self._raw.stats()
        version = Version(raw.pop("generation"), raw.pop("number"))
        return PublisherStats(version=version, **raw)

    def report(self) -> dict[str, Any]:
        """What was chosen at the start, and why."""
        result: dict[str, Any] = json.loads(self._raw.report())
        return result

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Afterwards the tensors may be freed."""
        self._raw.close(timeout)

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        _close_after(self, value)


class Receiver:
    """A rollout worker. A pull writes the tensors of its layout (or, with `staging`, a second set
    that `install` copies in)."""

    def __init__(self, raw: native.Receiver, layout: Layout) -> None:
        self._raw = raw
        self._layout = layout
        self._last: PullReport | None = None
        _receivers.add(self)

    @staticmethod
    def create(
        job: Job,
        layout: Layout,
        *,
        timeout: float,
        name: str,
        index: int = 0,
        staging: bool = False,
        huge_pages: bool = False,
        on_event: Callable[[PullEvent], None] | None = None,
    ) -> Receiver:
        """`name`: unique in the job. `on_event` runs on the pulling thread; what it raises is
        raised by the pull when the library has ended it."""
        layout._require_writable()
        forward = None
        if on_event is not None:
            call = on_event

            def forward(kind: int, step: int, source: str, generation: int, number: int) -> None:
                call(PullEvent(EventKind(kind), PullStep(step), source, Version(generation, number)))

        raw = native.Receiver.create(
            job._raw, layout._raw, name, index, staging, huge_pages, forward, timeout
        )
        return Receiver(raw, layout)

    def pull(self, want: Want = latest, *, timeout: float) -> PullReport:
        """Ends with exactly one version in every byte, or raises; `error.report.memory` and
        `last_report.memory` say what the tensors hold then."""
        return self._finish(*self._raw.pull(want.kind, want.number, timeout))

    def install(self) -> PullReport:
        """Staging only: copies the last complete pull into the tensors."""
        return self._finish(*self._raw.install())

    @property
    def last_report(self) -> PullReport:
        if self._last is None:
            raise FailedPrecondition("nothing was pulled yet")
        return self._last

    def report(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._raw.report())
        return result

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Cancels a pull in another thread."""
        self._raw.close(timeout)

    def _finish(self, error: Error | None, raw: dict[str, Any] | None) -> PullReport:
        if raw is not None:
            self._last = PullReport._of(raw)
        if error is not None:
            error.report = None if raw is None else self._last
            raise error
        return self.last_report

    def __enter__(self) -> Receiver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        _close_after(self, value)


def _close_after(one: _Closes, value: BaseException | None) -> None:
    """At the end of a with block: the block's own exception is the one to hear of."""
    try:
        one.close()
    except Error as error:
        if value is None:
            raise
        value.add_note(f"closing failed too: {error}") if hasattr(value, "add_note") else None
