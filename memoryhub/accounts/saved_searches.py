"""Saved searches: a list with its filters under a name. Each is visible to its owner only."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import QuerySet

from memoryhub.core.database import write_transaction
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.models import SavedSearch

MAX_SAVED_SEARCHES = 200  # per person
LONGEST_NAME, LONGEST_QUERY = 100, 2000


def list_saved_searches(user: User) -> QuerySet[SavedSearch]:
    """Return the searches of a person, by name."""
    return SavedSearch.objects.filter(user=user).order_by("name")


def save_search(user: User, name: str, page: str, query: str, *, replace: bool = False) -> SavedSearch:
    """Save a search. ``page``: the list that it opens; ``query``: its query string.

    Conflict about ``name`` if the person has a different search of this name and ``replace`` is false;
    StoreError names a value over its limit.
    """
    name = _clean_name(name)
    if len(query) > LONGEST_QUERY:
        raise StoreError(f"has more than {LONGEST_QUERY} characters; remove some filters", "query")
    with write_transaction():
        existing = list_saved_searches(user).filter(name=name).first()
        if existing and not replace and (existing.page, existing.query) != (page, query):
            raise Conflict("you have a search of this name; choose another name, or replace it", "name")
        if not existing and list_saved_searches(user).count() >= MAX_SAVED_SEARCHES:
            raise Conflict(f"you have {MAX_SAVED_SEARCHES} saved searches already; delete one first", "name")
        search = existing or SavedSearch(user=user, name=name)
        search.page, search.query = page, query
        search.save()
    return search


def rename_search(user: User, uid: str, name: str) -> SavedSearch:
    """Rename a search; NotFound if the person has none with this id."""
    name = _clean_name(name)
    with write_transaction():
        search = _find_own(user, uid)
        if list_saved_searches(user).filter(name=name).exclude(pk=search.pk).exists():
            raise Conflict("you have a search of this name; choose another", "name")
        search.name = name
        search.save(update_fields=["name"])
    return search


def delete_search(user: User, uid: str) -> SavedSearch:
    """Delete and return a search, so that it can be saved again."""
    with write_transaction():
        search = _find_own(user, uid)
        search.delete()
    return search


def _find_own(user: User, uid: str) -> SavedSearch:
    search = list_saved_searches(user).filter(uid=uid).first()
    if search is None:
        raise NotFound("this saved search does not exist")
    return search


def _clean_name(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise StoreError(f"must be 1 to {LONGEST_NAME} printable characters", "name")
    return name
