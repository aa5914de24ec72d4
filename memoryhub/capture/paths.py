"""Paths of files in events, relative to the folder of the session. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

_DRIVE = re.compile(r"[A-Za-z]:[/\\]")  # at the start of an absolute path of Windows


def project_folder(cwd: str, session_cwd: str) -> str:
    """Return the folder that paths are relative to: that of the session if the working folder is inside it.

    A hidden folder inside it can be a worktree, which has paths of its own.
    """
    folder = session_cwd.rstrip("/\\")
    inside = cwd.replace("\\", "/").removeprefix(folder.replace("\\", "/"))
    is_inside = cwd.startswith(folder) and inside[:1] in ("", "/") and "/." not in inside
    return session_cwd if folder and is_inside else cwd or session_cwd


def working_subfolder(repository: object, cwd: str) -> str | None:
    """Return the path of the working folder in its repository, as a client reports it.

    ``repository``: the client's JSON object. None if it does not contain the path, or if the working folder
    does not end in it, for example because of a link.
    """
    given = repository.get("subfolder") if isinstance(repository, Mapping) else None
    if not isinstance(given, str) or not cwd:
        return None
    subfolder, folder = (text.replace("\\", "/").rstrip("/") for text in (given, cwd))
    is_end = not subfolder or (len(folder) > len(subfolder) + 1 and folder.endswith(f"/{subfolder}"))
    return subfolder if is_end else None


def relative_path(path: str, cwd: str, root: str = "") -> str:
    """Return a path relative to ``root`` (default: ``cwd``), with slashes and without ``.`` and ``..``.

    ``cwd``: the folder from which a relative path starts. A path outside of the root does not change.
    """
    if "://" in path or path.startswith("~"):
        return path
    if _DRIVE.match(path) or _DRIVE.match(cwd):
        path, cwd, root = (text.replace("\\", "/") for text in (path, cwd, root))
    folder, is_absolute = (root or cwd).rstrip("/"), path.startswith("/") or bool(_DRIVE.match(path))
    whole = posixpath.normpath(path if is_absolute else posixpath.join(cwd, path))
    if folder and whole.startswith(f"{folder}/"):
        return whole.removeprefix(f"{folder}/")
    return posixpath.normpath(path)


def with_relative_paths(text: str, root: str) -> str:
    """Return a text with paths relative to the folder in place of absolute ones."""
    folder = root.rstrip("/\\")
    if not folder or folder not in text:
        return text
    return re.sub(rf"(?<![\w.~/\\-]){re.escape(folder)}[/\\](?=[\w.])", "", text)
