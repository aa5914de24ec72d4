"""``manage.py test``: run the tests with pytest (see ``tools/commands/test.py``)."""

from memoryhub.management import load_tool

Command = load_tool("test")
