"""vLLM's weight-transfer engine "weightbridge": each worker pulls its own bytes."""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
from typing import Any

from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)

from .._checkpoint import Table, checkpoint
from .._errors import FailedPrecondition, Unavailable
from .._job import Job, Receiver
from .._report import PullReport
from .._types import Want, at_least, exactly, latest
from ._credentials import credentials
from ._layout import Learnt, layout


@dataclasses.dataclass
class InitInfo(WeightTransferInitInfo):
    store: str = ""
    """URL of the job's store; empty: WEIGHTBRIDGE_STORE of the engine's environment."""
    token: str = ""
    """Empty: what WEIGHTBRIDGE_TOKEN_FILE of the engine's environment names."""
    job: str = ""
    host: str = ""
    """Address of this machine that trainers can reach."""
    transports: str = ""
    checkpoint: str = ""
    """Folder that names the checkpoint's tensors; empty: the model's own."""
    name: str = ""
    """Of this engine, unique among the engines of the job; empty: made of host and process."""
    staging: bool = False
    """Pull into a second set of memory, so that a failed pull leaves the serving weights."""
    backup_dir: str = ""
    unused: list[str] = dataclasses.field(default_factory=list)
    """Patterns of checkpoint tensors that the model ignores."""
    timeout: float = 120.0


@dataclasses.dataclass
class UpdateInfo(WeightTransferUpdateInfo):
    version: int | None = None
    """None: the newest."""
    at_least: bool = False
    """`version` or newer."""
    timeout: float = 120.0


class WeightBridgeEngine(WeightTransferEngine[InitInfo, UpdateInfo]):
    init_info_cls = InitInfo
    update_info_cls = UpdateInfo
    supports_draft_weight_update = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._job: Job | None = None
        self._receiver: Receiver | None = None
        self._learnt: Learnt | None = None
        self._staging = False
        self._pulled = False
        self.last_report: PullReport | None = None

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        """Learns the layout of this worker's model and joins the job."""
        store, token, token_file = credentials(init_info.store, init_info.token)
        self.shutdown()
        table = self._table(init_info)
        self._learnt = layout(
            self.model, table, self.vllm_config, backup_dir=init_info.backup_dir or None,
            unused=init_info.unused, timeout=init_info.timeout,
        )
        parallel = self.parallel_config
        index = parallel.data_parallel_index * parallel.world_size + parallel.rank
        name = init_info.name or f"vllm-{socket.gethostname()}-{os.getpid()}"
        self._job = Job.open(
            store, token=token, token_file=token_file, name=init_info.job, host=init_info.host,
            transports=init_info.transports, timeout=init_info.timeout,
        )
        self._staging = init_info.staging
        self._receiver = Receiver.create(
            self._job, self._learnt.layout, name=f"{name}-{index}", index=index,
            staging=init_info.staging, timeout=init_info.timeout,
        )

    def start_weight_update(self) -> None:
        if self._receiver is None:
            raise FailedPrecondition("init_weight_transfer_engine comes first")
        self._pulled = False

    def receive_weights(self, update_info: UpdateInfo) -> None:
        """Pulls the version. When it fails, the error says what the weights hold."""
        if self._receiver is None:
            raise FailedPrecondition("init_weight_transfer_engine comes first")
        want: Want = latest
        if update_info.version is not None:
            want = (at_least if update_info.at_least else exactly)(update_info.version)
        self.last_report = self._receiver.pull(want, timeout=update_info.timeout)
        self._pulled = True

    def finish_weight_update(self) -> None:
        if self._receiver is None or self._learnt is None or not self._pulled:
            raise FailedPrecondition("no weights were pulled in this update")
        if self._staging:
            self._receiver.install()
        self._learnt.finalise()
        self._pulled = False

    def shutdown(self) -> None:
        receiver, job = self._receiver, self._job
        self._receiver = self._job = self._learnt = None
        for one in (receiver, job):
            try:
                if one is not None:
                    one.close()
            except Unavailable as error:  # the trainers ended first: nobody is left to hear of it
                logging.getLogger("weightbridge.vllm").warning("leaving the job: %s", error)

    def _table(self, init_info: InitInfo) -> Table:
        if init_info.checkpoint:
            return checkpoint(init_info.checkpoint)
        if os.path.isdir(self.model_config.model):
            return checkpoint(self.model_config.model)
        return checkpoint(self.model_config.hf_config, dtype=self.model_config.dtype)
