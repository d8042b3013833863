"""WeightBridge: moves model weights from RL trainers to rollout workers by one-sided reads.

docs/python.md is the reference, docs/integrate.md shows how to teach it a framework.
"""

from . import _weightbridge as _native
from ._checkpoint import Table, TensorInfo, checkpoint
from ._errors import (
    BadData,
    Busy,
    Cancelled,
    Code,
    Deadline,
    Error,
    FailedPrecondition,
    GenerationChanged,
    Internal,
    InvalidArgument,
    IoError,
    Mismatch,
    NoMemory,
    NotCovered,
    NotFound,
    PeerLost,
    Permission,
    Starved,
    Torn,
    Unauthenticated,
    Unavailable,
    Unproven,
    Unsupported,
)
from ._job import Job, Publisher, Receiver
from ._layout import Buffer, Extra, Layout, Piece
from ._probe import Homes, Probed, Range, Weights, probe
from ._report import PublisherStats, PullEvent, PullReport, SourceReport, TimelineEntry
from ._types import (
    DType,
    EventKind,
    ExtraKind,
    MemoryKind,
    MemoryState,
    PublishMode,
    PullStep,
    Role,
    Version,
    Want,
    at_least,
    exactly,
    latest,
)

__version__ = _native.version()

__all__ = [
    "BadData", "Buffer", "Busy", "Cancelled", "Code", "DType", "Deadline", "Error", "EventKind",
    "Extra", "ExtraKind", "FailedPrecondition", "GenerationChanged", "Homes", "Internal",
    "InvalidArgument", "IoError", "Job", "Layout", "MemoryKind", "MemoryState", "Mismatch",
    "NoMemory", "NotCovered", "NotFound", "PeerLost", "Permission", "Piece", "Probed",
    "PublishMode", "Publisher", "PublisherStats", "PullEvent", "PullReport", "PullStep", "Range",
    "Receiver", "Role", "SourceReport", "Starved", "Table", "TensorInfo", "TimelineEntry", "Torn",
    "Unauthenticated", "Unavailable", "Unproven", "Unsupported", "Version", "Want", "Weights",
    "at_least", "checkpoint", "exactly", "latest", "probe",
]
