"""Where copies and kernels are put in order. A device has three streams: COMPUTE runs the kernels
of tasks, IN copies groups of parameters from the host to the device, OUT copies them back. Only
events order work of different streams. All memory of groups is allocated on IN, so that memory
that was freed can be used again by later copies on IN and by nothing else."""

from typing import Any, Protocol

COMPUTE, IN, OUT = "compute", "in", "out"


class OutOfMemory(MemoryError):
    """The device has no room for a group. footprint_bytes is what the running model takes."""

    def __init__(self, message: str, footprint_bytes: int):
        super().__init__(message)
        self.footprint_bytes = footprint_bytes


class Streams(Protocol):
    """What a device can do. Calls return at once where the device works on its own."""

    def host(self, data: Any) -> Any: ...
    def allocate(self, host: Any) -> Any: ...
    def free(self, memory: Any) -> None: ...
    def copy_in(self, host: Any, memory: Any) -> None: ...
    def copy_out(self, memory: Any, host: Any) -> None: ...
    def keep(self, memory: Any, stream: str) -> None: ...
    def record(self, stream: str) -> Any: ...
    def wait(self, stream: str, event: Any) -> None: ...
    def synchronise(self, stream: str) -> None: ...
    def release_cache(self) -> None: ...


class HostStreams:
    """A device that is the host: bytearrays, and copies that have ended when the call returns."""

    def host(self, data: Any) -> Any:
        return bytearray(data)

    def allocate(self, host: Any) -> Any:
        return bytearray(len(host))

    def free(self, memory: Any) -> None:
        pass

    def copy_in(self, host: Any, memory: Any) -> None:
        memory[:] = host

    def copy_out(self, memory: Any, host: Any) -> None:
        host[:] = memory

    def keep(self, memory: Any, stream: str) -> None:
        """Memory that was not allocated here is not used again before what the stream does with it now has ended."""

    def record(self, stream: str) -> Any:
        return None

    def wait(self, stream: str, event: Any) -> None:
        pass

    def synchronise(self, stream: str) -> None:
        pass

    def release_cache(self) -> None:
        pass
