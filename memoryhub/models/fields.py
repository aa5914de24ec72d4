"""Shared fields: ids, shares between 0 and 1, sensitivity levels, names."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from memoryhub.access.policy import Sensitivity
from memoryhub.core.text import new_uid


def uid_field() -> models.CharField[str, str]:
    return models.CharField("id", max_length=32, unique=True, default=new_uid, editable=False)


def share_field(default: float, **options: Any) -> models.FloatField[float, float]:
    """A number between 0 and 1, enforced by :func:`share_constraint`."""
    return models.FloatField(
        default=default, validators=[MinValueValidator(0), MaxValueValidator(1)], **options
    )


def share_constraint(table: str, name: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=Q(**{f"{name}__gte": 0, f"{name}__lte": 1}), name=f"{table}_{name}_between_0_and_1"
    )


def sensitivity_field() -> models.CharField[str, str]:
    """A level without a check constraint: rows with an unknown level are hidden, not refused."""
    return models.CharField(
        max_length=20,
        default=Sensitivity.PUBLIC.value,
        choices=[(level.value, level.value) for level in Sensitivity],
    )


def name_field(max_length: int = 200, **options: Any) -> models.CharField[str, str]:
    """A short text, empty if unknown."""
    return models.CharField(max_length=max_length, blank=True, default="", **options)
