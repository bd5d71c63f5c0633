"""The errors of this package."""

from __future__ import annotations

import json
from typing import Any

import httpx


class HareError(Exception):
    """The base class of all errors of this package."""


class StreamBroken(HareError):
    """A stream broke and could not be resumed."""


class Problem(HareError):
    """The server refused a call (RFC 9457).

    errors are the faults of the request, each {"pointer", "code", "detail"};
    code is stable, and "" where a proxy before the server refused.
    """

    def __init__(self, status: int, document: dict[str, Any] | None = None, retry_after: float = 0) -> None:
        d = document or {}
        self.status = status
        self.code: str = d.get("code") or ""
        self.title: str = d.get("title") or ""
        self.detail: str = d.get("detail") or ""
        self.request_id: str = d.get("request_id") or ""
        self.errors: list[dict[str, Any]] = [e for e in d.get("errors") or [] if isinstance(e, dict)]
        self.retry_after = retry_after
        text = f"{status}: {self.detail or self.title or 'refused'}"
        if self.code and not text.endswith(f"({self.code})"):  # details of documents end with it
            text += f" ({self.code})"
        if self.request_id:
            text += f", request {self.request_id}"
        super().__init__(text)

    @classmethod
    def of(cls, response: httpx.Response) -> Problem:
        document = None
        if response.headers.get("Content-Type", "").startswith("application/problem+json"):
            try:
                document = json.loads(response.content)
            except ValueError:
                pass  # the answer is incomplete
        if not isinstance(document, dict):
            document = {"title": response.reason_phrase, "request_id": response.headers.get("X-Request-Id", "")}
        after = response.headers.get("Retry-After", "")
        return cls(response.status_code, document, float(after) if after.isdecimal() else 0)

    @property
    def refused(self) -> bool:
        """Tells whether the server did nothing, so that even a call that is not idempotent may be repeated."""
        known = self.code in ("busy", "draining", "rate", "quota", "too_many_streams")
        return known or self.status == 429 and self.retry_after > 0

    @property
    def transient(self) -> bool:
        """Tells whether the same call may succeed later."""
        if self.status in (429, 502, 504):
            return self.code != "limit"
        if self.status == 503:
            return self.code != "deadline"  # the same call would reach its deadline again
        return self.status == 409 and self.retry_after > 0


class EventRefused(HareError):
    """The server refused an event of a session; a refused event changes nothing."""

    def __init__(self, seq: int | None, error: dict[str, Any]) -> None:
        self.seq = seq
        self.status: int = error.get("status", 0)
        self.pointer: str = error.get("pointer", "")
        self.code: str = error.get("code", "")
        self.detail: str = error.get("detail", "")
        self.expected: int | None = error.get("expected")
        super().__init__(f"event {seq}: {self.pointer}: {self.detail} ({self.code})")
