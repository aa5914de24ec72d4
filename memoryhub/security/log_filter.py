"""A logging filter that redacts secrets, such as a token in the query of a URL."""

from __future__ import annotations

import logging

from memoryhub.security.secrets import redact


class RedactSecretsFilter(logging.Filter):
    """Redact the secrets in each log record. No record is dropped."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if (redacted := redact(message)) != message:
            record.msg, record.args = redacted, ()
        return True
