"""Server-sent events and lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .errors import HareError


class Message(NamedTuple):
    id: int  # 0 without one
    event: str
    data: str


def lines(chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Cuts at newlines. What the end of the stream cuts is no line."""
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        *whole, last = rest.split(b"\n")
        yield from (bytes(line).rstrip(b"\r") for line in whole)
        rest = bytearray(last)
        if len(rest) > most:
            raise HareError(f"a line of the answer is longer than {most} bytes")


def messages(chunks: Iterator[bytes], most: int) -> Iterator[Message]:
    """Events that have data (HTML standard, 9.2.6); half an event counts for nothing."""
    id, event, data, size = 0, "", [], 0
    for line in lines(chunks, most):
        size += len(line)
        if size > most:
            raise HareError(f"an event is longer than {most} bytes")
        if not line:
            if data:
                yield Message(id, event, "\n".join(data))
            id, event, data, size = 0, "", [], 0
            continue
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "id" and value.isdecimal():
            id = int(value)
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
