"""The loop of a worker: reads requests of its agent one after another and answers each."""

import collections
import contextlib
import importlib
import mmap
import os
import sys
import time
import traceback

from . import backend, wire

ALIGN = 64


class Job:
    """A job that this worker knows: its module, and where its shared memory lies."""

    def __init__(self, request, device):
        self.tasks = whole(request, "tasks", 1, 1 << 20)
        self.directory = text(request, "directory")
        self.variables = dict(pair.split("=", 1) for pair in request.get("environment", []))
        options = backend.Options(self.tasks, whole(request, "seed", -(1 << 53), 1 << 53), device)
        with self.environment():
            self.module = load_module(text(request, "module"), self.directory)
            self.backend = backend.load_backend(self.module, options)
        self.version = None  # of the copy in the device's memory; None where there is no copy
        self.memory = None

    def attach(self, file, initialise):
        """Maps the shared memory: two slots for the state, in turn, and one for each gradient."""
        state, gradient = aligned(self.backend.state_bytes), aligned(self.backend.gradient_bytes)
        try:
            size = os.fstat(file).st_size
            if size != 2 * state + self.tasks * gradient:
                raise wire.ProtocolError(f"the shared memory has {size} bytes, "
                                         f"not {2 * state + self.tasks * gradient}")
            memory = mmap.mmap(file, size)
        finally:
            os.close(file)
        memory.madvise(mmap.MADV_DONTFORK)
        self.memory = memoryview(memory)
        self.backend.attached(self.memory)
        self.slots = [self.memory[i * state : (i + 1) * state] for i in range(2)]
        at = 2 * state
        self.gradients = [self.memory[at + i * gradient : at + (i + 1) * gradient] for i in range(self.tasks)]
        if initialise:
            self.backend.save(self.slots[0])
        # The agent decides what stays on the device, and has not yet asked for this job.
        self.version = None
        self.backend.drop()

    @contextlib.contextmanager
    def environment(self):
        """What the user's module finds in its environment, which other jobs of the process do not."""
        before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def bring(self, version):
        """Copies the state with a version into the device's memory, unless it is there."""
        if self.version != version:
            self.version = None
            self.backend.load(self.slots[version % 2])
            self.version = version


class Worker:
    def __init__(self, connection, epoch, device):
        self.connection, self.epoch, self.device = connection, epoch, device
        self.seq = 0
        self.jobs = {}
        self.waiting = collections.deque()  # requests that have come and are not answered
        self.answers = []  # of requests that were done during a task, to be sent after its own

    def run(self):
        """Answers requests until the agent closes the connection or asks to end."""
        self.connection.send({"type": "hello", "epoch": self.epoch, "seq": 0, "protocol": wire.PROTOCOL,
                              "pid": os.getpid()})
        while True:
            request = self.waiting.popleft() if self.waiting else self.connection.receive()
            if request is None:
                return
            self.connection.send(self.answer(request))
            for answer in self.answers:
                self.connection.send(answer)
            self.answers = []
            if request["type"] == "shutdown":
                return

    def answer(self, request):
        """Does what a request asks for."""
        kind = text(request, "type")
        if request.get("epoch") != self.epoch:
            raise wire.ProtocolError(f"a request of epoch {request.get('epoch')} in epoch {self.epoch}")
        if request.get("seq") != self.seq + 1:
            raise wire.ProtocolError(f"request {request.get('seq')} after request {self.seq}")
        self.seq += 1
        answer = {"epoch": self.epoch, "seq": self.seq, "job": request.get("job", "")}
        handler = HANDLERS.get(kind)
        if handler is None:
            raise wire.ProtocolError(f"a request of the unknown type {kind!r}")
        try:
            answer.update(handler(self, request))
        except wire.ProtocolError:
            raise
        except MemoryError as e:
            answer.update(self.fault("oom", e))
        except (Exception, SystemExit) as e:
            answer.update(self.fault(kind_of(e), e))
        return answer

    def meanwhile(self, job):
        """Does what the agent has asked for after a task, while the device computes the backward pass of the
        task: other jobs leave, and the next one comes."""
        while not self.waiting:
            request = self.connection.receive(wait=False)
            if request is None:
                return
            if request.get("type") not in ("evict", "prefetch") or request.get("job") == job:
                self.waiting.append(request)
                return
            self.answers.append(self.answer(request))

    def fault(self, kind, e):
        footprint = sum(j.backend.state_bytes for j in self.jobs.values() if j.version is not None)
        return {"type": "fault", "kind": kind, "reason": reason_of(e), "footprint_bytes": footprint}

    def job(self, request, attached=True):
        job = self.jobs.get(text(request, "job"))
        if job is None or attached and job.memory is None:
            raise wire.ProtocolError(f"a request for job {request.get('job')!r}, which is not attached")
        return job

    def register(self, request):
        # A module that prints or fails at import must not end the worker.
        job = Job(request, self.device)
        self.jobs[text(request, "job")] = job
        return {"type": "registered", "state_bytes": job.backend.state_bytes,
                "gradient_bytes": job.backend.gradient_bytes}

    def attach(self, request):
        self.job(request, attached=False).attach(self.connection.take_file(), request.get("initialise", False))
        return {"type": "attached"}

    def task(self, request):
        job = self.job(request)
        round_, task = whole(request, "round", 0, 1 << 53), whole(request, "task", 0, job.tasks - 1)
        job.bring(whole(request, "version", 0, 1 << 53))
        begin = time.perf_counter()
        with job.environment():
            loss = job.backend.gradient(round_, task, job.gradients[task], lambda: self.meanwhile(request["job"]))
        return {"type": "done", "loss": wire.finite(loss), "compute_s": time.perf_counter() - begin}

    def step(self, request):
        job, version = self.job(request), whole(request, "version", 0, 1 << 53)
        job.bring(version)
        job.version = None  # Where the step fails, the copy is of no version.
        job.backend.step(job.gradients)
        job.backend.save(job.slots[(version + 1) % 2])
        job.version = version + 1
        return {"type": "committed", "version": version + 1}

    def prefetch(self, request):
        self.job(request).bring(whole(request, "version", 0, 1 << 53))
        return {"type": "prefetched"}

    def evict(self, request):
        job = self.job(request)
        job.version = None
        job.backend.drop()
        return {"type": "evicted"}

    def forget(self, request):
        job = self.jobs.pop(text(request, "job"), None)
        if job is not None and job.memory is not None:
            job.backend.forgotten()
        return {"type": "forgotten"}

    def shutdown(self, _):
        return {"type": "ended"}


HANDLERS = {"register": Worker.register, "attach": Worker.attach, "run": Worker.task, "step": Worker.step,
            "prefetch": Worker.prefetch, "evict": Worker.evict, "forget": Worker.forget,
            "shutdown": Worker.shutdown}


def aligned(size):
    return (size + ALIGN - 1) // ALIGN * ALIGN


def text(request, name):
    value = request.get(name)
    if not isinstance(value, str):
        raise wire.ProtocolError(f"{name} is not a text")
    return value


def whole(request, name, least, most):
    value = request.get(name, 0)
    if type(value) is not int or not least <= value <= most:
        raise wire.ProtocolError(f"{name} is not a whole number from {least} to {most}")
    return value


def load_module(name, directory):
    """Imports the user's module from a directory. The module, and those of the directory that it
    imports, are then taken out of the list of modules, so that another job may have others
    with the same names. They stay alive as long as the job."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise backend.UserError(f"{name!r} is not the name of a module")
    if not os.path.isdir(directory):
        raise backend.UserError(f"there is no directory {directory}")
    sys.path.insert(0, directory)
    importlib.invalidate_caches()
    before = set(sys.modules)
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(directory)
        for new in set(sys.modules) - before:
            if inside(sys.modules[new], directory):
                del sys.modules[new]
    if not inside(module, directory):
        raise backend.UserError(f"the module {name} of {directory} has the name of another module: rename it")
    return module


def inside(module, directory):
    file = getattr(module, "__file__", None)
    return bool(file) and os.path.realpath(file).startswith(os.path.realpath(directory) + os.sep)


def kind_of(e):
    words = str(e)
    if "out of memory" in words:
        return "oom"
    if "CUDA error" in words:
        return "device"
    return "module"


def reason_of(e):
    """The exception in a line: where in the user's code, which class, what it says."""
    said = " ".join(str(e).split())[:500]
    if isinstance(e, backend.UserError):
        return said
    here = (os.path.dirname(__file__), os.path.dirname(importlib.__file__), "<frozen")
    frames = [f for f in traceback.extract_tb(e.__traceback__)
              if not f.filename.startswith(here)]
    where = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
    if isinstance(e, SyntaxError) and e.filename:
        where, said = f"{os.path.basename(e.filename)}:{e.lineno}: ", e.msg
    return f"{where}{type(e).__name__}: {said}" if said else f"{where}{type(e).__name__}"
