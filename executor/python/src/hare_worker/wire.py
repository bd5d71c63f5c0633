"""The protocol between an agent and its worker: a frame is a length of four bytes, the
greatest first, and so many bytes of JSON, one object. Bulk data never goes through frames but
through shared memory, whose file descriptors come beside a frame."""

import array
import json
import math
import os
import socket
import struct

PROTOCOL = 2
MAX_FRAME = 1 << 20
FILES_SPACE = socket.CMSG_LEN(4 * array.array("i").itemsize)  # for up to four file descriptors


class ProtocolError(Exception):
    """The other side sent something that is not a message. The connection cannot go on."""


class Connection:
    """Frames over a connected Unix socket of this user."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = bytearray()
        self.files = []
        refuse_foreigners(sock)

    def receive(self, wait=True):
        """The next object, or None where the other side has closed between two frames. Without wait, None
        where no whole frame has come yet."""
        head = self._take(4, at_start=True, wait=wait, keep=True)
        if head is None:
            return None
        (length,) = struct.unpack(">I", head)
        if not 2 <= length <= MAX_FRAME:
            raise ProtocolError(f"a frame of {length} bytes; there may be 2 to {MAX_FRAME}")
        body = self._take(4 + length, wait=wait)
        return None if body is None else decode(bytes(body[4:]))

    def _take(self, n, at_start=False, wait=True, keep=False):
        while len(self.buffer) < n:
            try:
                # Not socket.recv_fds, which leaves its flags out of the call (Python 3.11, 3.12) and would wait.
                data, beside, flags, _ = self.sock.recvmsg(1 << 16, FILES_SPACE, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            for level, kind, content in beside:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    files = array.array("i")
                    files.frombytes(content[: len(content) - len(content) % files.itemsize])
                    self.files += files
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("too many file descriptors beside one frame")
            if not data:
                if not wait or at_start and not self.buffer:
                    return None
                raise ProtocolError("the connection ended inside a frame")
            self.buffer += data
        taken = self.buffer[:n]
        if not keep:
            del self.buffer[:n]
        return taken

    def take_file(self):
        """The file descriptor that came beside the last frame."""
        if len(self.files) != 1:
            raise ProtocolError(f"{len(self.files)} file descriptors came where one belongs")
        return self.files.pop()

    def send(self, message):
        body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        if len(body) > MAX_FRAME:
            raise ProtocolError(f"an answer of {len(body)} bytes; there may be {MAX_FRAME}")
        self.sock.sendall(struct.pack(">I", len(body)) + body)


def decode(body):
    """The object in body. Names that stand twice, and numbers that JSON does not know, are refused."""
    try:
        message = json.loads(body, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as e:
        raise ProtocolError(f"a frame that is not JSON: {e}") from None
    if not isinstance(message, dict):
        raise ProtocolError("a frame that is not an object")
    return message


def _once(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return members


def _refuse_constant(name):
    raise ValueError(f"{name} is not a number of JSON")


def finite(x):
    """x, or None where x is no finite number: JSON has no name for the others."""
    return x if math.isfinite(x) else None


def refuse_foreigners(sock):
    """Ends the connection where the process at its other end is not of this user."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if uid != os.geteuid():
        sock.close()
        raise ProtocolError(f"process {pid} at the other end belongs to user {uid}, not to {os.geteuid()}")
