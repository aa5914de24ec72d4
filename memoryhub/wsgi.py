"""The WSGI application: ``granian --interface wsgi memoryhub.wsgi:application``."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")

application = get_wsgi_application()

from memoryhub.ops.checks import require_usable_store  # noqa: E402 once the apps are loaded

require_usable_store()
