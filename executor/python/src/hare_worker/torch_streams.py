"""The streams of PyTorch: real ones on CUDA; on the CPU copies have ended when the call returns.
Host memory is pinned in place by cudaHostRegister unless pageable copies are asked for."""

import sys
from typing import Any

import torch

from . import backend, streams


class TorchStreams(streams.HostStreams):
    def __init__(self, device: str = "cpu", pinned: bool = True):
        self.device = torch.device(device)
        self.cuda = self.device.type == "cuda"
        self.grouped = self.cuda  # whether copies in groups pay
        self.pinned = pinned and self.cuda
        self.registered: list[torch.Tensor] = []
        if self.cuda:
            if self.device.index is None:
                self.device = torch.device("cuda", torch.cuda.current_device())
            torch.cuda.set_device(self.device)
            self.streams = {streams.COMPUTE: torch.cuda.current_stream(), streams.IN: torch.cuda.Stream(),
                            streams.OUT: torch.cuda.Stream()}

    def host(self, data: torch.Tensor) -> torch.Tensor:
        """A copy of data on the host, pinned where this device's copies are."""
        held = data.detach().to("cpu", copy=True).contiguous()
        if self.pinned and held.numel():
            status = self._register(held)
            if status != 0:
                raise backend.UserError(f"cudaHostRegister of {held.numel() * held.element_size()} bytes failed with "
                                        f"status {status}: raise the limit of locked memory (ulimit -l)")
        return held

    def pin(self, view: memoryview) -> torch.Tensor | None:
        """Pins memory in place, and returns what unpin takes. Where the system does not allow it, it says so once,
        and all copies are pageable from then on: slower, with the same result."""
        if not self.pinned or not len(view):
            return None
        held = torch.frombuffer(view, dtype=torch.uint8)
        status = self._register(held)
        if status == 0:
            return held
        self.pinned = False
        print(f"hare-worker: {len(view)} bytes cannot be pinned (status {status}), so that copies are slow: raise the "
              "limit of locked memory (ulimit -l)", file=sys.stderr, flush=True)
        return None

    def unpin(self, held: torch.Tensor | None) -> None:
        """Takes back what pin did, when all copies have ended."""
        if held is not None:
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaHostUnregister(held.data_ptr())
            self.registered = [t for t in self.registered if t is not held]

    def _register(self, held: torch.Tensor) -> int:
        status = torch.cuda.cudart().cudaHostRegister(held.data_ptr(), held.numel() * held.element_size(), 0)
        if int(status) == 0:
            self.registered.append(held)
        return int(status)

    def close(self) -> None:
        """Takes the registrations back. No copy may be under way."""
        for held in list(self.registered):
            self.unpin(held)

    def allocate(self, host: torch.Tensor) -> torch.Tensor:
        if not self.cuda:
            return torch.empty_like(host)
        try:
            with torch.cuda.stream(self.streams[streams.IN]):
                return torch.empty(host.shape, dtype=host.dtype, device=self.device)
        except RuntimeError as e:
            if "out of memory" in str(e):
                raise streams.OutOfMemory(str(e).splitlines()[0], 0) from None
            raise

    def copy_in(self, host: torch.Tensor, memory: torch.Tensor) -> None:
        self._copy(streams.IN, memory, host)

    def copy_out(self, memory: torch.Tensor, host: torch.Tensor) -> None:
        self._copy(streams.OUT, host, memory)

    def _copy(self, stream: str, to: torch.Tensor, source: torch.Tensor) -> None:
        with torch.no_grad():
            if not self.cuda:
                to.copy_(source)
                return
            with torch.cuda.stream(self.streams[stream]):
                to.copy_(source, non_blocking=self.pinned)

    def keep(self, memory: torch.Tensor, stream: str) -> None:
        if self.cuda:
            memory.record_stream(self.streams[stream])

    def record(self, stream: str) -> Any:
        if not self.cuda:
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record(self.streams[stream])
        return event

    def wait(self, stream: str, event: Any) -> None:
        if event is not None:
            self.streams[stream].wait_event(event)

    def synchronise(self, stream: str) -> None:
        if self.cuda:
            self.streams[stream].synchronize()

    def release_cache(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
