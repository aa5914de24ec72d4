"""The type of the file system of a path, read from ``/proc/mounts``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# Network file systems: the shared memory of SQLite's write-ahead log does not reach other machines.
# fmt: off
NETWORK = frozenset({
    "afs", "beegfs", "ceph", "cephfs", "cifs", "coda", "davfs", "davfs2", "fhgfs", "gfs", "gfs2",
    "glusterfs", "gpfs", "lustre", "moosefs", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs",
    "pvfs2", "smb2", "smb3", "smbfs", "fuse.beegfs", "fuse.ceph", "fuse.cephfs", "fuse.curlftpfs",
    "fuse.davfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs",
    "fuse.mfs", "fuse.mountpoint-s3", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs"
})
# Folders that a virtual machine or container shares with its host: safe while only one side uses the store.
SHARED_WITH_HOST = frozenset({
    "9p", "drvfs", "fakeowner", "fuse.grpcfuse", "fuse.osxfs", "fuse.vmhgfs-fuse", "prl_fs", "vboxsf",
    "virtiofs", "vmhgfs"
})
# fmt: on
_MOUNTS = Path("/proc/mounts")
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A mount point and the type of its file system."""

    point: str
    type: str

    @property
    def is_network(self) -> bool:
        return self.type in NETWORK

    @property
    def is_shared_with_host(self) -> bool:
        return self.type in SHARED_WITH_HOST


def mount_of(path: Path, mounts: str) -> Mount | None:
    """Return the mount of ``path`` from the text of ``/proc/mounts``: the last of the deepest ones."""
    best: Mount | None = None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[1])
        if path.is_relative_to(point) and (best is None or len(point) >= len(best.point)):
            best = Mount(point, fields[2])
    return best


def mount_under(path: Path) -> Mount | None:
    """Return the mount of ``path``, which need not exist, or None if the system lists none (macOS)."""
    try:
        return mount_of(path.resolve(), _MOUNTS.read_text("utf-8", "surrogateescape"))
    except OSError:
        return None
