"""Copy a store into another database, row by row, and compare the two.

Two processes take part, because each has one database: this one reads, and a child writes to the other. They
exchange pickled requests and answers over pipes. Rows are copied in the order of their keys, one transaction
for each batch, so that an interrupted copy can continue after the highest key of each table. The text indexes
and change logs are not copied: triggers of the target fill them.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, cast

from django.apps import apps
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import DatabaseError, connection, models
from django.db.models.functions import Cast

from memoryhub.audit import journal
from memoryhub.backends import bulk
from memoryhub.backends.release import COPY_MARK
from memoryhub.core.database import batched, write_transaction
from memoryhub.maintenance import nodes
from memoryhub.models import JournalEntry, Lease, ServerProcess

BATCH_SIZE = 500
_CHILD = (
    "import os, django; os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'memoryhub.settings');"
    " django.setup(); from memoryhub.ops import copying; copying.answer_requests()"
)
_LOCAL = {Lease, ServerProcess}  # about the processes that serve this database
Model = type[models.Model]
Rows = Sequence[Sequence[Any]]


class CopyError(Exception):
    """The store cannot be copied. The message says why and what to do."""


@dataclass(frozen=True)
class Summary:
    """The number of rows of a table, and a digest that does not depend on their order."""

    rows: int
    digest: str


# The plan


def find_models() -> list[Model]:
    """Return the models to copy, each after the models that its required foreign keys refer to."""
    left = [m for m in apps.get_models(include_auto_created=True) if m._meta.managed and m not in _LOCAL]
    left = [model for model in left if not model._meta.proxy]
    ordered: list[Model] = []
    while left:
        ready = [m for m in left if not (_targets(m, nullable=True) & set(left) - {m})]
        ready = ready or [m for m in left if not (_targets(m, nullable=False) & set(left) - {m})]
        if not ready:
            raise CopyError("tables refer to each other in a circle")
        ordered.append(ready[0])
        left.remove(ready[0])
    return ordered


def _targets(model: Model, *, nullable: bool) -> set[Any]:
    """Return the models that a model refers to. ``nullable``: also by nullable foreign keys."""
    links = [field for field in model._meta.concrete_fields if field.remote_field]
    return {field.related_model for field in links if nullable or not field.null}


def find_late_columns(ordered: Sequence[Model]) -> dict[Model, list[Any]]:
    """Return the fields that refer to models copied later. They are set when all rows are copied."""
    late = {}
    for position, model in enumerate(ordered):
        earlier = set(ordered[:position])
        fields = [
            f for f in model._meta.concrete_fields if f.remote_field and f.remote_field.model not in earlier
        ]
        if fields:
            late[model] = fields
    return late


# Reading


def read_rows(model: Model, after: Any) -> Iterator[list[Any]]:
    """Yield batches of rows, in the order of their keys, after one of them."""
    if model is JournalEntry:
        while stored := journal.stored_rows(int(after or 0), BATCH_SIZE):
            yield stored
            after = stored[-1][0]
        return
    fields = model._meta.concrete_fields
    key = fields.index(cast(Any, model._meta.pk))
    # JSON as text: otherwise NULL and a JSON null would be the same.
    texts = [Cast(f.attname, models.TextField()) if _is_document(f) else models.F(f.attname) for f in fields]
    rows = model._base_manager.order_by("pk").values_list(*texts)
    while batch := list((rows if after is None else rows.filter(pk__gt=after))[:BATCH_SIZE]):
        yield batch
        after = batch[-1][key]


def summarize(model: Model) -> Summary:
    """Count and digest all rows of a table."""
    count, total = 0, 0
    documents = [_is_document(field) for field in model._meta.concrete_fields]
    for batch in read_rows(model, None):
        for row in batch:
            values = row if model is JournalEntry else map(_parse, row, documents)
            text = json.dumps(list(values), sort_keys=True, default=_describe)
            total += int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
            count += 1
    return Summary(count, f"{total % 2**256:064x}")


def _is_document(field: Any) -> bool:
    return isinstance(field, models.JSONField)


def _parse(value: Any, is_document: bool) -> Any:
    """Return a value to digest. JSON is parsed, and put into a list so that its null differs from NULL."""
    return [_plain(json.loads(value))] if is_document and value is not None else value


def _plain(value: Any) -> Any:
    """Return JSON without differences between databases: 2.0 may be returned as 2."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _describe(value: Any) -> str:
    """Return a text for a value that JSON cannot represent, the same for all databases."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


# The target: each of these functions answers one kind of request in the child


def prepare() -> tuple[int, bool]:
    """Create or update the tables. Return the last row of the journal, and whether a copy was interrupted.

    Raise :class:`CopyError` if the database contains a store that is not an unfinished copy.
    """
    tables = set(connection.introspection.table_names())
    is_unfinished = Lease._meta.db_table in tables and Lease.objects.filter(name=COPY_MARK).exists()
    if not is_unfinished:
        content = [m for m in find_models() if m._meta.label in _CONTENT and m._meta.db_table in tables]
        if owned := [str(m._meta.verbose_name_plural) for m in content if m._base_manager.exists()]:
            raise CopyError(f"the target contains a store ({owned[0]}); use an empty database")
        call_command("migrate", verbosity=0)
        _clear()
    return journal.last_seq(), is_unfinished


_CONTENT = frozenset(
    {"memoryhub.Memory", "memoryhub.JournalEntry", "memoryhub.Event", "memoryhub.Fact", "auth.User"}
)


def _clear() -> None:
    """Delete the rows of migrations, such as permissions: the source has them with other keys."""
    with write_transaction():
        for model in reversed(find_models()):
            if model is not JournalEntry:
                model._base_manager.all()._raw_delete(connection.alias)
        Lease.objects.create(name=COPY_MARK)


def position(label: str) -> Any:
    """Return the highest key of a table, or None. If its keys are not numbers, empty it."""
    model = apps.get_model(label)
    if isinstance(model._meta.pk, models.IntegerField):
        return model._base_manager.aggregate(last=models.Max("pk"))["last"]
    with write_transaction():
        model._base_manager.all()._raw_delete(connection.alias)
    return None


def insert(label: str, rows: Rows) -> None:
    """Insert rows with their keys."""
    model = apps.get_model(label)
    with write_transaction():
        if model is JournalEntry:
            journal.insert_stored_rows(rows)
            return
        fields = model._meta.concrete_fields
        late = find_late_columns(find_models()).get(model, [])
        adapters = [_adapter(field, is_late=field in late) for field in fields]
        adapted = [[adapt(value) for adapt, value in zip(adapters, row, strict=True)] for row in rows]
        bulk.insert(model, [str(field.column) for field in fields], adapted)


def _adapter(field: Any, *, is_late: bool) -> Callable[[Any], Any]:
    """Return a function that converts a value for the database. JSON is text already.

    ``is_late``: the column is set later, and left out now.
    """
    if is_late:
        return lambda value: None
    if _is_document(field):
        return lambda value: value
    return lambda value: field.get_db_prep_save(value, connection)


def set_columns(label: str, columns: Sequence[str], rows: Rows) -> None:
    """Set columns of rows. The last value of each is its key."""
    with write_transaction():
        bulk.update(apps.get_model(label), columns, rows)


def finish() -> journal.Verification:
    """Let new rows get higher keys than the copied ones, and verify the chain of the journal."""
    with write_transaction():
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), find_models()):
                cursor.execute(statement)
        Lease.objects.filter(name=COPY_MARK).delete()
    return journal.verify_chain()


_REQUESTS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (prepare, position, insert, set_columns, finish)
}

# What reading a message raises after the other process was killed, perhaps while it sent the message.
_CUT_OFF = (EOFError, pickle.UnpicklingError)


def answer_requests() -> None:
    """Answer the requests of :class:`Target` until there are no more."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not disturb the answers
    _REQUESTS["summarize"] = lambda label: summarize(apps.get_model(label))
    with suppress(*_CUT_OFF):
        while True:
            name, arguments = pickle.load(requests)  # noqa: S301 of the parent process
            try:
                answer = _REQUESTS[name](*arguments)
            except (CopyError, DatabaseError) as error:
                answer = CopyError(str(error))
            _send(answers, answer)


def _send(pipe: BinaryIO, message: Any) -> None:
    pickle.dump(message, pipe)
    pipe.flush()


class Target:
    """The child process with the other database. Each request is a method, such as ``insert(...)``."""

    def __init__(self, url: str) -> None:
        replica = ("DATABASE_REPLICA_URL", "DATABASE_REPLICA_URL_FILE")  # of the source
        hidden = ("DATABASE_URL_FILE", "LETSGO_MEMORY_DB", *replica)
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self._child = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            env={**environment, "DATABASE_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._requests, self._answers = cast(BinaryIO, self._child.stdin), cast(BinaryIO, self._child.stdout)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._ask, name)

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            _send(self._requests, (name, arguments))
            answer = pickle.load(self._answers)  # noqa: S301 of the child process
        except (*_CUT_OFF, BrokenPipeError):
            raise CopyError("the process with the target ended; its messages are above") from None
        if isinstance(answer, CopyError):
            raise answer
        return answer

    def close(self) -> None:
        """End the process."""
        self._child.communicate()


# Copying


def copy_store(url: str, report: Callable[[str, Summary], None]) -> None:
    """Copy the store in use into an empty database, or continue a copy. ``report`` gets each compared table.

    Raise :class:`CopyError` if that is impossible, or if the two stores differ at the end.
    """
    if running := nodes.live_processes():
        raise CopyError(f"node {running[0].node} serves the store; stop all servers first")
    target = Target(url)
    try:
        seq, is_unfinished = target.prepare()
        if is_unfinished and seq > journal.last_seq():
            raise CopyError("the target is an unfinished copy of another store; empty it first")
        ordered = find_models()
        for model in ordered:
            label = model._meta.label
            for batch in read_rows(model, target.position(label)):
                target.insert(label, batch)
        for model, fields in find_late_columns(ordered).items():
            _set_late_columns(target, model, fields)
        _compare(target, ordered, report)
    finally:
        target.close()


def _set_late_columns(target: Target, model: Model, fields: Sequence[Any]) -> None:
    filled = models.Q()
    for field in fields:
        filled |= models.Q(**{f"{field.attname}__isnull": False})
    rows = model._base_manager.filter(filled).order_by("pk")
    columns = [str(field.column) for field in fields]
    for batch in batched(rows.values_list(*(f.attname for f in fields), "pk").iterator(), BATCH_SIZE):
        target.set_columns(model._meta.label, columns, batch)


def _compare(target: Target, ordered: Sequence[Model], report: Callable[[str, Summary], None]) -> None:
    different = []
    for model in ordered:
        ours, theirs = summarize(model), target.summarize(model._meta.label)
        report(model._meta.db_table, theirs)
        if ours != theirs:
            different.append(f"{model._meta.db_table} ({theirs.rows:,} of {ours.rows:,} rows)")
    if different:
        raise CopyError(f"the copy differs in {', '.join(different)}; empty the target and begin again")
    if not (chain := target.finish()).ok:
        raise CopyError(f"the journal is not intact from row {chain.first_bad_seq} on, here and in the copy")
