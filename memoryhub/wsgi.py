"""The WSGI application: ``granian --interface wsgi memoryhub.wsgi:application``."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
# Vectors are compared while the database is asked. More threads for it would be in the way of other workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

application = get_wsgi_application()

from memoryhub.ops.checks import require_usable_store  # noqa: E402 once the apps are loaded

require_usable_store()
