"""Everything that can be wrong with an installation, and its mend.

Each check is a small function that yields findings; one that finds what is safe to mend has a fix. A check
may need another not to have failed: without a store there is nothing to say about what is in it.
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
