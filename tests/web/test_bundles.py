"""Bundles: the style sheets and scripts of a page in one file each."""

from __future__ import annotations

import gzip

import pytest
from django.conf import settings
from django.test import Client

from memoryhub.web.base import static_files


@pytest.mark.parametrize("name", static_files.FEATURES)
def test_every_feature_has_its_files(name: str) -> None:
    styles, scripts = (
        static_files.find_bundle(f"bundles/{name}.css"),
        static_files.find_bundle(f"bundles/{name}.js"),
    )
    assert styles
    assert scripts
    assert styles.body or scripts.body


def test_every_style_sheet_and_script_is_used() -> None:
    loaded_alone = {"theme", "dates"}  # these run before the page is painted
    for folder, ending in (("css", "css"), ("js", "js")):
        index = 0 if ending == "css" else 1
        named = {file for feature in static_files.FEATURES.values() for file in feature[index].split()}
        files = {
            path.name.removesuffix(f".{ending}")
            for path in settings.BASE_DIR.glob(f"static/{folder}/*.{ending}")
        }
        assert files - loaded_alone == named - {"htmx"}


def test_file_that_two_features_name_is_sent_once() -> None:
    both = static_files.find_bundle("bundles/lists_live.css")
    alone = static_files.find_bundle("bundles/live.css")
    assert both
    assert alone
    assert both.body == alone.body


def test_comments_of_style_sheets_are_left_out() -> None:
    base = static_files.find_bundle("bundles/base.css")
    assert base
    assert b"/*" not in base.body
    assert b":root" in base.body


def test_print_style_sheet_applies_to_paper_only() -> None:
    base = static_files.find_bundle("bundles/base.css")
    assert base
    assert b"@media print {" in base.body


@pytest.mark.parametrize(
    "path",
    ["bundles/base_nothing.css", "bundles/..%2fbase.css", "bundles/_.js", "bundles/base.map", "bundles/"],
)
def test_unknown_bundle_is_not_found(client: Client, path: str) -> None:
    assert client.get(f"/static/{path}").status_code == 404


def test_bundle_is_compressed_if_accepted(client: Client) -> None:
    plain = client.get("/static/bundles/base.css")
    packed = client.get("/static/bundles/base.css", headers={"accept-encoding": "gzip"})

    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert len(packed.content) < len(plain.content) / 2
    assert "Accept-Encoding" in plain["Vary"]


def test_bundle_with_its_digest_is_cached_forever(client: Client) -> None:
    bundle = static_files.find_bundle("bundles/base.js")
    assert bundle
    assert "immutable" in client.get("/static/bundles/base.js", {"v": bundle.digest})["Cache-Control"]
    assert client.get("/static/bundles/base.js")["Cache-Control"] == "max-age=3600, public"


def test_bundle_at_the_url_of_another_version_is_not_cached(client: Client) -> None:
    assert client.get("/static/bundles/base.js", {"v": "old"})["Cache-Control"] == "no-cache"


def test_unchanged_bundle_is_not_sent_again(client: Client) -> None:
    first = client.get("/static/bundles/base.css")
    again = client.get("/static/bundles/base.css", headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_bundle_cannot_be_written(client: Client) -> None:
    assert client.post("/static/bundles/base.css").status_code == 405


def test_page_loads_one_style_sheet_and_one_script_for_its_features() -> None:
    tags = static_files.render_bundle_tags("memory lists")
    assert tags.count("<link") == tags.count("<script") == 1
    assert "/static/bundles/memory_lists.css?v=" in tags


def test_page_without_scripts_of_its_own_loads_none() -> None:
    assert "<script" not in static_files.render_bundle_tags("sessions")


def test_unknown_feature_in_a_template_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing"):
        static_files.render_bundle_tags("nothing")
