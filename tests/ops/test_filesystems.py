"""On what kind of file system a path lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryhub.ops.checks import NETWORK, SHARED_WITH_HOST, Mount, mount_of, mount_under

MOUNTS = r"""/dev/sda1 / ext4 rw 0 0
proc /proc proc rw 0 0
server:/export /srv nfs4 rw 0 0
/dev/sdb1 /srv/local xfs rw 0 0
//nas/share /mnt/two\040words cifs rw 0 0
tmpfs /over tmpfs rw 0 0
me@host: /over fuse.sshfs rw 0 0
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ada/.letsgo/memory.db", "ext4"),
        ("/srv/hub/memory.db", "nfs4"),
        ("/srv/local/memory.db", "xfs"),
        ("/srv/localhost/memory.db", "nfs4"),
        ("/mnt/two words/memory.db", "cifs"),
        ("/over/memory.db", "fuse.sshfs"),
    ],
)
def test_the_deepest_and_of_these_the_last_mount_counts(path, kind):
    found = mount_of(Path(path), MOUNTS)
    assert found is not None
    assert found.type == kind


def test_without_mounts_the_file_system_is_unknown():
    assert mount_of(Path("/x"), "") is None


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "fuse.rclone"])
def test_network_file_systems_are_known(kind):
    assert Mount("/", kind).is_network


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "apfs", "9p", "virtiofs"]
)
def test_local_file_systems_and_host_folders_are_no_network(kind):
    assert not Mount("/", kind).is_network


def test_no_type_is_both():
    assert not NETWORK & SHARED_WITH_HOST


def test_a_missing_path_is_on_the_file_system_of_its_folder(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr("memoryhub.ops.checks._MOUNTS", mounts)
    found = mount_under(tmp_path / "not" / "there" / "yet.db")
    assert found == Mount(str(tmp_path), "nfs")


def test_a_system_without_a_list_of_mounts_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr("memoryhub.ops.checks._MOUNTS", tmp_path / "gone")
    assert mount_under(tmp_path) is None
