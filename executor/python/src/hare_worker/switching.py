"""Switching between models on one device. A model is copied in groups of neighbouring parameters;
a task may begin when its first group is there. While a task runs its backward pass, groups of
parameters whose gradients are complete are stepped, written back and freed (early cleaning), and
groups of the next task's model are copied into the room (prefetch). Models that fit stay on the
device (residency). Each of these can be turned off."""

from typing import Any

from . import streams
from .streams import COMPUTE, IN, OUT


class Group:
    """Neighbouring parameters of a model, with the optimiser's state: what is copied as one."""

    def __init__(self, host: Any, size: int):
        self.host, self.bytes = host, size
        self.device: Any = None  # the memory on the device; None where there is no copy
        self.ready: Any = None  # the event of the end of the copy to the device
        self.written: Any = None  # the event of the end of the last copy back
        self.dirty = False  # whether the device has what the host has not


class Model:
    """A model as the switcher knows it. Subclasses bind memory to what computes."""

    def __init__(self, name: str, groups: list[Group]):
        self.name, self.groups = name, groups
        self.bytes = sum(g.bytes for g in groups)

    def bind(self, index: int) -> None:
        """The group has memory on the device, whose content may still be under way."""

    def unbind(self, index: int) -> None:
        """The group's memory is taken away; its kernels were launched before."""

    def step(self, index: int) -> None:
        """Launches the optimiser's step of the group on COMPUTE."""


class Switcher:
    """One device. cap_bytes bounds the memory of all groups; zero means no bound. The calls of a
    task are begin, need before a group is read, backward, done when a group's gradients are
    complete, and end."""

    def __init__(self, device: streams.Streams, cap_bytes: int = 0, early_cleaning: bool = True,
                 prefetch: bool = True, residency: bool = True):
        self.device, self.cap_bytes = device, cap_bytes
        self.early_cleaning, self.prefetch, self.residency = early_cleaning, prefetch, residency
        self.used = 0
        self.models: list[Model] = []  # those with copies here, the one that ended first in front
        self.running: Model | None = None
        self.next: Model | None = None
        self.first: Any = None  # the event before the first kernel of the running task
        self.last: Any = None  # the event after the last kernel of the last task
        self._waited: set[int] = set()
        self._stepped: set[int] = set()
        self._backward = False

    def begin(self, model: Model, following: Model | None = None) -> None:
        """A task of model begins; following is the model of the task after it, if that is known."""
        if self.cap_bytes and model.bytes > self.cap_bytes:
            raise streams.OutOfMemory(f"{model.name} takes {model.bytes} bytes, there are {self.cap_bytes}",
                                      model.bytes)
        self.running, self.next, self.first = model, following if following is not model else None, None
        self._waited, self._stepped, self._backward = set(), set(), False
        self._touch(model)
        for i in range(len(model.groups)):
            self._load(model, i)

    def need(self, index: int) -> None:
        """Kernels launched on COMPUTE from now on may read the group."""
        if index not in self._waited:
            self._waited.add(index)
            self.device.wait(COMPUTE, self.running.groups[index].ready)
        if self.first is None:
            self.first = self.device.record(COMPUTE)

    def backward(self) -> None:
        """The task's backward pass begins. It hides the copies of the next model."""
        self._backward = True
        self._ahead()

    def done(self, index: int) -> None:
        """The gradients of the group are complete, and nothing of the task reads it any more."""
        if index in self._stepped:
            return
        self._stepped.add(index)
        model, group = self.running, self.running.groups[index]
        if self.early_cleaning:
            model.step(index)
            group.dirty = True
            if self._must_leave():
                self._evict(model, index)
            self._ahead()

    def end(self) -> None:
        """All kernels of the task are launched. Groups that got no gradients are stepped too."""
        model = self.running
        for i, group in enumerate(model.groups):
            if i not in self._stepped or not self.early_cleaning:
                self.need(i)
                model.step(i)
                group.dirty = True
        self.last = self.device.record(COMPUTE)
        if not self.residency:
            self.drop(model)
        self.running = None

    def drop(self, model: Model) -> None:
        """Writes a model back and frees its memory."""
        for i in range(len(model.groups)):
            self._evict(model, i)
        if model in self.models:
            self.models.remove(model)

    def close(self) -> None:
        """Writes all models back, and waits for that."""
        for model in list(self.models):
            self.drop(model)
        for stream in (COMPUTE, IN, OUT):
            self.device.synchronise(stream)

    def _must_leave(self) -> bool:
        """Whether memory of the running model is worth more to the next one."""
        if not self.residency:
            return True
        if self.next is None or not self.prefetch or not self.cap_bytes:
            return False
        return sum(g.bytes for g in self.next.groups if g.device is None) > self.cap_bytes - self.used

    def _ahead(self) -> None:
        """Copies groups of the next model while there is room."""
        if not (self.prefetch and self._backward and self.next):
            return
        self._touch(self.next)
        for i in range(len(self.next.groups)):
            if self.next.groups[i].device is None and not self._load(self.next, i, ahead=True):
                return

    def _touch(self, model: Model) -> None:
        if model in self.models:
            self.models.remove(model)
        self.models.append(model)

    def _load(self, model: Model, index: int, ahead: bool = False) -> bool:
        group = model.groups[index]
        if group.device is not None:
            return True
        if not self._room(group.bytes, ahead):
            return False
        try:
            group.device = self.device.allocate(group.host)
        except streams.OutOfMemory as e:
            # What is neither running nor next leaves, and the allocation is tried once more.
            for other in [m for m in self.models if m not in (self.running, self.next)]:
                self.drop(other)
            self.device.release_cache()
            try:
                group.device = self.device.allocate(group.host)
            except streams.OutOfMemory:
                if ahead:
                    return False
                raise streams.OutOfMemory(f"{model.name} takes {model.bytes} bytes: {e}", model.bytes) from None
        self.used += group.bytes
        self.device.wait(IN, group.written)  # The host's copy may still be under way from the device.
        self.device.copy_in(group.host, group.device)
        group.ready, group.dirty = self.device.record(IN), False
        model.bind(index)
        return True

    def _room(self, size: int, ahead: bool) -> bool:
        """Makes room under the cap. Copies ahead take none from the running model."""
        if not self.cap_bytes or self.used + size <= self.cap_bytes:
            return True
        spared = (self.running, self.next) if ahead else (self.running,)
        order = [m for m in self.models if m not in (self.running, self.next)]
        order += [m for m in (self.next,) if m is not None and m not in spared]
        for model in order:
            # The groups at the end are needed last.
            for i in reversed(range(len(model.groups))):
                self._evict(model, i)
                if self.used + size <= self.cap_bytes:
                    return True
        return False

    def _evict(self, model: Model, index: int) -> None:
        group = model.groups[index]
        if group.device is None:
            return
        model.unbind(index)
        computed = self.device.record(COMPUTE)
        if group.dirty:
            self.device.wait(OUT, group.ready)
            self.device.wait(OUT, computed)
            self.device.copy_out(group.device, group.host)
            group.written = self.device.record(OUT)
            self.device.wait(IN, group.written)
        else:
            self.device.wait(IN, computed)
        self.device.free(group.device)
        group.device, group.ready, group.dirty = None, None, False
        self.used -= group.bytes
