"""Weights by NCCL, the engines' half: vLLM's receiving engine, with a checksum of what its loader took.

vLLM imports this in each of its worker processes, as `worker_extension_cls`, before it makes the engine that
`weight_transfer_config` names.
"""

from typing import Any

import torch
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine
from vllm.distributed.weight_transfer.packed_tensor import packed_nccl_broadcast_consumer

from zgcm.rl.transfer import BACKEND, BUCKET_BYTES, BUFFERS
from zgcm.rl.weights import Checksum, watched


class Receiver(NCCLWeightTransferEngine):
    """Ranks, group and layer-wise loading are vLLM's."""

    checksum = ""
    """Of the last weights received."""

    def receive_weights(self, update_info: Any) -> None:
        total = Checksum()

        def load(tensors: list[tuple[str, torch.Tensor]]) -> None:
            model: Any = self.model
            model.load_weights(watched(iter(tensors), total))
            # vLLM keeps parts of a layer until all are there, and the next bucket comes on another stream
            torch.accelerator.synchronize()

        dtypes = [getattr(torch, name) for name in update_info.dtype_names]
        expected = zip(update_info.names, zip(update_info.shapes, dtypes, strict=True), strict=True)
        packed_nccl_broadcast_consumer(
            iterator=expected,
            group=self.model_update_group,
            src=0,
            post_unpack_func=load,
            buffer_size_bytes=BUCKET_BYTES,
            num_buffers=BUFFERS,
            device=self.device,
        )
        self.checksum = total.hexdigest()


class WorkerExtension:
    """What vLLM's worker learns to answer."""

    weight_transfer_engine: Receiver

    def received_checksum(self) -> str:
        return self.weight_transfer_engine.checksum


WeightTransferEngineFactory.register_engine(BACKEND, Receiver)
