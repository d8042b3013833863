"""What a pull tells."""

from __future__ import annotations

import dataclasses
from typing import Any

from ._types import EventKind, MemoryState, PullStep, Version


@dataclasses.dataclass(frozen=True)
class SourceReport:
    worker: str
    transport: str
    mechanism: str
    reason: str
    bytes: int
    reads: int


@dataclasses.dataclass(frozen=True)
class TimelineEntry:
    step: PullStep
    begin_ns: int
    end_ns: int


@dataclasses.dataclass(frozen=True)
class PullEvent:
    kind: EventKind
    step: PullStep
    source: str
    version: Version


@dataclasses.dataclass(frozen=True)
class PullReport:
    version: Version
    """Accepted, or last tried."""
    memory: MemoryState
    attempts: int
    torn: int
    bytes: int
    reads: int
    versions_skipped: int
    read_ns: int
    total_ns: int
    sources: list[SourceReport]
    timeline: list[TimelineEntry]
    finalisers: list[str]
    """Computed parts that the engine must make anew now."""

    @staticmethod
    def _of(raw: dict[str, Any]) -> PullReport:
        return PullReport(
            version=Version(raw["generation"], raw["number"]),
            memory=MemoryState(raw["memory"]),
            sources=[SourceReport(*source) for source in raw["sources"]],
            timeline=[TimelineEntry(PullStep(s), b, e) for s, b, e in raw["timeline"]],
            **{
                key: raw[key]
                for key in (
                    "attempts", "torn", "bytes", "reads", "versions_skipped", "read_ns",
                    "total_ns", "finalisers",
                )
            },
        )


@dataclasses.dataclass(frozen=True)
class PublisherStats:
    published: int
    last_publish_ns: int
    last_begin_ns: int
    max_publish_ns: int
    version: Version
