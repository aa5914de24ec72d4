"""Static files as whitenoise serves them, compressed in memory, kept for good under a digest of their bytes.

There is no collectstatic step that could write compressed copies beside the files. Pages are not compressed:
they hold what one searched for beside what nobody else may read, and the size of the two compressed together
tells of both (BREACH).
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.http import FileResponse, HttpRequest
from django.utils.cache import patch_vary_headers
from whitenoise.compress import Compressor
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

_FOREVER = f"max-age={WhiteNoiseMiddleware.FOREVER}, public, immutable"
_ACCEPTS_GZIP = re.compile(r"\bgzip\b")
_COMPRESSOR = Compressor(use_brotli=False, quiet=True)


@lru_cache(maxsize=1024)
def file_digest(path: str) -> str:
    """Of the bytes of a static file, for its address; empty where there is no such file."""
    found = finders.find(path)
    return hashlib.sha256(Path(str(found)).read_bytes()).hexdigest()[:10] if found else ""


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """Whitenoise without a folder of copies."""

    def serve(self, static_file: StaticFile, request: HttpRequest) -> FileResponse:
        response: FileResponse = super().serve(static_file, request)
        if response.status_code in (200, 304) and self._is_this_version(request):
            response["Cache-Control"] = _FOREVER
        if response.status_code != 200 or not _COMPRESSOR.should_compress(request.path_info):
            return response
        patch_vary_headers(response, ["Accept-Encoding"])
        if request.method != "GET" or not _ACCEPTS_GZIP.search(request.META.get("HTTP_ACCEPT_ENCODING", "")):
            return response
        if body := _gzip(static_file.alternatives[0][1], static_file.etag):
            response.streaming_content = [body]  # the file is closed with the response
            response["Content-Encoding"] = "gzip"
            response["Content-Length"] = str(len(body))
        return response

    def _is_this_version(self, request: HttpRequest) -> bool:
        """Whether the address names the very bytes that are served: an older page's address keeps none."""
        named = request.GET.get("v")
        return bool(named) and named == file_digest(request.path_info.removeprefix(self.static_prefix))


@lru_cache(maxsize=1024)
def _gzip(path: str, etag: str) -> bytes | None:
    """The file in fewer bytes, once for each process; None where it does not get smaller."""
    data = Path(path).read_bytes()
    body: bytes = _COMPRESSOR.compress_gzip(data)
    return body if _COMPRESSOR.is_compressed_effectively("gzip", path, len(data), body) else None
