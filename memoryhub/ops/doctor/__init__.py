"""``doctor``: find defects of an installation and say how to fix them.

Each check is a small function that yields findings; a check whose findings are safe to repair has a fix.
A check can depend on another: without a store, its content cannot be checked.
"""

from memoryhub.ops.doctor import content, machine, services, store, web
from memoryhub.ops.doctor.registry import Check, Finding, Report, Status, examine

__all__ = ["CHECKS", "Check", "Finding", "Report", "Status", "examine"]

CHECKS: tuple[Check, ...] = (
    machine.versions,
    machine.configuration,
    machine.home,
    machine.modes,
    machine.owner,
    machine.file_system,
    machine.disk_space,
    machine.secret_key,
    services.provider,
    store.database,
    store.write_ahead_log,
    store.migrations,
    store.present,
    store.indexes,
    store.triggers,
    store.text_index,
    services.vectors,
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
    services.maintenance_runs,
    services.daily_maintenance,
    web.hosts,
    web.static_files,
    web.system_checks,
)
