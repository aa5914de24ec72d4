"""What is written to logs: no credential that came in an address or a query."""

from __future__ import annotations

import logging

from memoryhub.security.secrets import redact


class RedactSecretsFilter(logging.Filter):
    """Puts ``[secret removed]`` in the place of each credential in a line, and lets every line pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if (kept := redact(said)) != said:
            record.msg, record.args = kept, ()
        return True
