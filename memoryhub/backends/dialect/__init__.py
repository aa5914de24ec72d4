"""The SQL dialect of the configured database: :mod:`.sqlite` or :mod:`.postgres`.

Both modules have the same public names. SQL that both databases understand is in the modules next to this
package, with the parts that differ from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

IS_POSTGRES = settings.DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql"

if TYPE_CHECKING:
    from memoryhub.backends.dialect import sqlite as sql
elif IS_POSTGRES:
    from memoryhub.backends.dialect import postgres as sql
else:
    from memoryhub.backends.dialect import sqlite as sql

__all__ = ["IS_POSTGRES", "sql"]
