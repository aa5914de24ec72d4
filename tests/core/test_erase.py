from pathlib import Path

import pytest
from django.db import connection

from memoryhub import store


@pytest.mark.django_db(transaction=True)
def test_an_erased_memory_leaves_no_byte_in_the_file(remember, actor):
    for n in range(50):
        remember(f"filler number {n} with words")
    gone = remember("the xylophonequark is secret", tags=["tagquark"])
    store.erase([gone.uid], actor)
    name = Path(connection.settings_dict["NAME"])
    raw = b"".join(path.read_bytes() for path in name.parent.glob(name.name + "*"))
    assert b"filler" in raw
    assert b"xylophonequark" not in raw
    assert b"tagquark" not in raw
