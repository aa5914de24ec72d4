"""The settings with a temporary home, so that no test can change a real store."""

import atexit
import os
import shutil
import tempfile

from tools.cluster.nodes import KEY

HOME_OF_TESTS = tempfile.mkdtemp(prefix="memoryhub-tests-")


@atexit.register
def _remove_home(owner: int = os.getpid()) -> None:
    """Remove the home at the end of the run, not at the end of a forked process."""
    if os.getpid() == owner:
        shutil.rmtree(HOME_OF_TESTS, ignore_errors=True)


# The server and the template that ``manage.py test --database postgres`` has made.
POSTGRES = os.environ.get("TEST_DATABASE_URL", "")
# The address of nodes that serve the database (``python -m tools.cluster --journeys``).
NODES = os.environ.get("TEST_NODES_URL", "")
for name in [n for n in os.environ if n.startswith(("MEMORYHUB_", "LETSGO_", "DATABASE_URL"))]:
    del os.environ[name]
os.environ["LETSGO_HOME"] = HOME_OF_TESTS
# Who tests what vectors are for asks for the fixture ``embedding``: the rest need not load a model.
os.environ["MEMORYHUB_EMBEDDINGS"] = "none"
# Workers in tests do not queue the daily maintenance when the tests run at its time.
os.environ["MEMORYHUB_MAINTENANCE_AT"] = ""

if POSTGRES:
    os.environ["DATABASE_URL"] = POSTGRES
if NODES:
    os.environ["MEMORYHUB_SECRET_KEY"] = KEY  # signs the sessions of signed-in browsers

from memoryhub.settings import *  # noqa: E402, F403
from memoryhub.settings import DATABASES  # noqa: E402

ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if POSTGRES:
    DATABASES["default"]["TEST"] = {"NAME": "test_memoryhub", "TEMPLATE": DATABASES["default"]["NAME"]}
    if NODES:
        DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"]}
    del os.environ["DATABASE_URL"]  # commands that tests start have SQLite stores of their own
else:
    # A file, not memory: write-ahead log, VACUUM and several connections behave as in production.
    DATABASES["default"]["TEST"] = {"NAME": os.path.join(HOME_OF_TESTS, "test.db")}
