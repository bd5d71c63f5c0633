"""Server-sent events and lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .errors import HareError


class Message(NamedTuple):
    id: int  # 0 for an event without an id
    event: str
    data: str


def lines(chunks: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yields lines without their line breaks. Text without a line break at the end is ignored."""
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        *whole, last = rest.split(b"\n")
        yield from (bytes(line).rstrip(b"\r") for line in whole)
        rest = bytearray(last)
        if len(rest) > max_bytes:
            raise HareError(f"a line of the answer is longer than {max_bytes} bytes")


def messages(chunks: Iterator[bytes], max_bytes: int) -> Iterator[Message]:
    """Yields events that have data (HTML standard, 9.2.6); an incomplete event is ignored."""
    id, event, data, size = 0, "", [], 0
    for line in lines(chunks, max_bytes):
        size += len(line)
        if size > max_bytes:
            raise HareError(f"an event is longer than {max_bytes} bytes")
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
