"""A person's saved searches: a list with its filters under a name of their own. Nobody else sees them."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import QuerySet

from memoryhub.core.transactions import write_transaction
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.models import SavedSearch

MAX_SAVED_SEARCHES = 200  # of one person
LONGEST_NAME, LONGEST_QUERY = 100, 2000


def list_saved_searches(user: User) -> QuerySet[SavedSearch]:
    """In the order of their names."""
    return SavedSearch.objects.filter(user=user).order_by("name")


def save_search(user: User, name: str, page: str, query: str, *, replace: bool = False) -> SavedSearch:
    """Keep a search. ``page``: the list it opens; ``query``: its part of the address.

    A :class:`Conflict` about the ``name`` when the person has one of it, unless it is to be replaced; a
    :class:`StoreError` names what is too long or too many.
    """
    name = _clean_name(name)
    if len(query) > LONGEST_QUERY:
        raise StoreError(f"has more than {LONGEST_QUERY} characters; take filters off", "query")
    with write_transaction():
        there = list_saved_searches(user).filter(name=name).first()
        if there and not replace and (there.page, there.query) != (page, query):
            raise Conflict("you have a search of this name; give another, or replace it", "name")
        if not there and list_saved_searches(user).count() >= MAX_SAVED_SEARCHES:
            raise Conflict(f"you have {MAX_SAVED_SEARCHES} saved searches already; delete one first", "name")
        kept = there or SavedSearch(user=user, name=name)
        kept.page, kept.query = page, query
        kept.save()
    return kept


def rename_search(user: User, uid: str, name: str) -> SavedSearch:
    """Give a search another name; NotFound when it is not the person's own."""
    name = _clean_name(name)
    with write_transaction():
        search = _find_own(user, uid)
        if list_saved_searches(user).filter(name=name).exclude(pk=search.pk).exists():
            raise Conflict("you have a search of this name; give another", "name")
        search.name = name
        search.save(update_fields=["name"])
    return search


def delete_search(user: User, uid: str) -> SavedSearch:
    """Delete a search; what comes back can be saved again."""
    with write_transaction():
        search = _find_own(user, uid)
        search.delete()
    return search


def _find_own(user: User, uid: str) -> SavedSearch:
    search = list_saved_searches(user).filter(uid=uid).first()
    if search is None:
        raise NotFound("there is no such saved search")
    return search


def _clean_name(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise StoreError(f"must be 1 to {LONGEST_NAME} printable characters", "name")
    return name
