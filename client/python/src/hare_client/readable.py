"""Lets models print what the server said, and not which of their fields it left out."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import attrs

from .generated import models
from .generated.types import Unset


def _readable(model: Any) -> str:
    parts = []
    for field in attrs.fields(type(model)):
        value = getattr(model, field.name)
        if isinstance(value, Unset) or field.name == "additional_properties" and not value:
            continue
        parts.append(f"{field.name}={value.isoformat() if isinstance(value, datetime) else repr(value)}")
    return f"{type(model).__name__}({', '.join(parts)})"


def make_readable() -> None:
    """Gives every model of the generated code a repr with the fields that are set alone."""
    for model in vars(models).values():
        if isinstance(model, type) and attrs.has(model):
            model.__repr__ = _readable  # type: ignore[assignment, method-assign]
