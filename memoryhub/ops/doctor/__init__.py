"""``doctor``: find defects of an installation and say how to fix them.

Each check is a small function that yields findings; a check whose findings are safe to repair has a fix.
A check can depend on another: without a store, its content cannot be checked.
"""

from memoryhub.ops.doctor import content, installation, store
from memoryhub.ops.doctor.registry import Check, Finding, Report, Status, examine

__all__ = ["CHECKS", "Check", "Finding", "Report", "Status", "examine"]

CHECKS: tuple[Check, ...] = (
    installation.versions,
    installation.configuration,
    installation.home,
    installation.modes,
    installation.owner,
    installation.file_system,
    installation.disk_space,
    installation.secret_key,
    content.provider,
    store.database,
    store.write_ahead_log,
    store.migrations,
    store.present,
    store.indexes,
    store.triggers,
    store.text_index,
    content.vectors,
    store.integrity,
    store.journal_chain,
    store.lost_rows,
    store.journal_mirror,
    content.levels,
    content.cap,
    content.expiry,
    content.clock,
    content.administrator,
    content.tokens,
    content.maintenance_runs,
    content.daily_maintenance,
    installation.hosts,
    installation.static_files,
    installation.system_checks,
)
