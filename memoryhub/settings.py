"""Django settings; everything an operator may change comes from the environment (docs/configuration.md)."""

from __future__ import annotations

import importlib.util
import os
import resource
import sys
from typing import Any
from urllib.parse import urlsplit

import dj_database_url
from csp.constants import NONE, SELF
from django.contrib.messages.constants import ERROR, SUCCESS
from django.core.exceptions import ImproperlyConfigured

from memoryhub import config
from memoryhub.ops import bootstrap

os.umask(0o077)  # what the hub writes (database, mirror, backups) is its owner's alone
BASE_DIR = bootstrap.DATA  # templates, static files and the demo

try:
    OPERATOR = config.load_operator()
    MEMORYHUB_LOADED = config.load_config(os.environ, OPERATOR.home)
    SECRET_KEY = OPERATOR.secret_key or config.load_or_create_secret(OPERATOR.home / "secret-key")
except config.ConfigError as error:
    raise ImproperlyConfigured(str(error)) from None

MEMORYHUB = MEMORYHUB_LOADED.config
HOME, MEMORY_DB, MEMORY_LOG = OPERATOR.home, OPERATOR.memory_db, OPERATOR.memory_log
DATABASE_URL, DATABASE_REPLICA_URL = OPERATOR.database_url, OPERATOR.database_replica_url
EMBEDDINGS_KEY, LLM_KEY = OPERATOR.embeddings_key, OPERATOR.llm_key
DEBUG, HTTPS, BEHIND_PROXY = OPERATOR.debug, OPERATOR.https, OPERATOR.behind_proxy
PUBLIC_URL = OPERATOR.public_url
METRICS_TOKEN, LOG_FORMAT = OPERATOR.metrics_token, OPERATOR.log_format
NODE_NAME = OPERATOR.node_name
OIDC_ISSUER, OIDC_NAME, OIDC_CREATE = OPERATOR.oidc_issuer, OPERATOR.oidc_name, OPERATOR.oidc_create
OIDC_CLIENT_ID, OIDC_CLIENT_SECRET = OPERATOR.oidc_client_id, OPERATOR.oidc_client_secret
MAIL = OPERATOR.mail_server()
EMAIL_HOST, EMAIL_PORT, EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL.host, MAIL.port, MAIL.user, MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL, EMAIL_TIMEOUT = MAIL.starttls, MAIL.tls, 20
DEFAULT_FROM_EMAIL = (
    OPERATOR.email_from.strip() or f"memoryhub@{urlsplit(OPERATOR.public_url).hostname or 'localhost'}"
)
TIME_ZONE, ALLOWED_HOSTS = OPERATOR.time_zone, OPERATOR.allowed_hosts
LOOPBACK_HOSTS = list(config.LOOPBACK_HOSTS)

_folder = HOME if DATABASE_URL else MEMORY_DB.parent
try:
    _folder.mkdir(parents=True, exist_ok=True, mode=0o700)
except OSError as error:
    raise ImproperlyConfigured(
        f"{'LETSGO_HOME' if DATABASE_URL else 'LETSGO_MEMORY_DB'}: cannot make the folder {_folder}: {error};"
        " choose another one, or free some space"
    ) from None

INSTALLED_APPS = [
    "memoryhub",
    "memoryhub.apps.LateAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "allauth.account",  # without "allauth" itself: none of its templates can be shown
    "allauth.mfa",
    "allauth.socialaccount",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_extensions",
    "django_htmx",
    "template_partials",
    "csp",
    "ninja",
]

MIDDLEWARE = [
    "memoryhub.http.monitoring.MonitoringMiddleware",
    "memoryhub.http.middleware.SecurityHeadersMiddleware",
    "memoryhub.http.middleware.ClientAddressMiddleware",
    "memoryhub.http.middleware.ReadTimeoutMiddleware",
    "memoryhub.http.middleware.ApiProblemMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "memoryhub.web.base.middleware.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "memoryhub.http.middleware.PagePolicyMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "memoryhub.web.base.middleware.PageMiddleware",
    "memoryhub.web.base.middleware.PersonMiddleware",
    "memoryhub.http.middleware.UploadLimitMiddleware",
    "memoryhub.http.middleware.PathMiddleware",
    "memoryhub.http.middleware.ReplicaMiddleware",
]

# As the style sheets call them.
MESSAGE_TAGS = {SUCCESS: "good", ERROR: "bad"}
ROOT_URLCONF = "memoryhub.urls"
WSGI_APPLICATION = "memoryhub.wsgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["template_partials.templatetags.partials"],
            "libraries": {
                "hub": "memoryhub.web.templatetags.hub",
                "list_cells": "memoryhub.admin.lists",
                "pages": "memoryhub.web.templatetags.pages",
            },
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "memoryhub.web.base.navigation.switches",
                "memoryhub.web.base.navigation.person_preferences",
            ],
        },
    },
]


def _mapped_bytes() -> int:
    """Return how much of the store each connection maps: less if the address space is limited.

    A process has up to eight connections, and needs a gigabyte without any map.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    wanted = 256 * 1024 * 1024
    return wanted if limit == resource.RLIM_INFINITY else min(wanted, max(limit - 2**30, 0) // 16)


def _parse_url(url: str) -> dict[str, Any]:
    try:
        return dict(dj_database_url.parse(url))
    except ValueError:
        return {"ENGINE": "unknown"}


def _is_postgres(parsed: dict[str, Any]) -> bool:
    return parsed["ENGINE"] == "django.db.backends.postgresql" and bool(parsed["NAME"])


def _database() -> dict[str, Any]:
    """Return the configured database: a file of SQLite, or a PostgreSQL server."""
    parsed = _parse_url(DATABASE_URL) if DATABASE_URL else {}
    if parsed and _is_postgres(parsed):
        return _postgres(parsed)
    if parsed and (parsed["ENGINE"] != "django.db.backends.sqlite3" or parsed["NAME"] in ("", ":memory:")):
        raise ImproperlyConfigured(
            "DATABASE_URL: write postgres://USER:PASSWORD@HOST/DATABASE or sqlite:////path/of/a/file, or"
            " unset it to use LETSGO_MEMORY_DB"
        )
    return _sqlite(parsed.get("NAME") or MEMORY_DB)


def _postgres(parsed: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for PostgreSQL, also behind PgBouncer in transaction mode.

    A process has a pool of connections, each of which is checked before it is used: after a failover, those
    to the old server are replaced. The options after ``?`` in the URL go to libpq, except ``pool_size`` and
    ``prepare_threshold``.
    """
    if importlib.util.find_spec("psycopg_pool") is None:
        raise ImproperlyConfigured(
            "DATABASE_URL: PostgreSQL needs more packages; run:"
            f" {sys.executable} -m pip install 'psycopg[binary,pool]' pgvector"
        )
    options: dict[str, Any] = {
        "application_name": "memoryhub",
        "connect_timeout": 5,
        # A machine that has lost its power closes no connection: give up ten seconds after its last packet.
        "tcp_user_timeout": 10_000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
    }
    options |= parsed.get("OPTIONS", {})
    for name in {"pool_size", "prepare_threshold"} & options.keys():
        if not str(options[name]).isdecimal():
            raise ImproperlyConfigured(f"DATABASE_URL: {name} must be a whole number, such as 5")
        options[name] = int(options[name])
    pool = {"min_size": 1, "max_size": options.pop("pool_size", 8), "timeout": 10}
    # By default the pool tries less and less often, after an outage of minutes only every few minutes.
    pool["reconnect_timeout"] = 4
    return parsed | {
        "CONN_MAX_AGE": 0,  # back to the pool after each request
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "OPTIONS": {**options, "pool": pool},
    }


def _sqlite(name: Any) -> dict[str, Any]:
    """SQLite tuned for one writer and many readers; DESIGN §4 has the measurements behind each option."""
    flushed = "FULL" if MEMORYHUB.durability == "power-loss" else "NORMAL"
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                f"PRAGMA journal_mode=WAL; PRAGMA synchronous={flushed}; PRAGMA recursive_triggers=ON;"
                "PRAGMA wal_autocheckpoint=4000; PRAGMA cache_size=-8192;"
                f"PRAGMA mmap_size={_mapped_bytes()}; PRAGMA temp_store=MEMORY; PRAGMA secure_delete=ON;"
            ),
        },
    }


def _replica() -> dict[str, Any]:
    """Return the replica, which a PostgreSQL server may have."""
    parsed = _parse_url(DATABASE_REPLICA_URL)
    if not _is_postgres(parsed) or "pool" not in DATABASES["default"]["OPTIONS"]:
        raise ImproperlyConfigured(
            "DATABASE_REPLICA_URL: write postgres://USER:PASSWORD@HOST/DATABASE of a replica of the server in"
            " DATABASE_URL, or unset it"
        )
    found = _postgres(parsed)
    found["OPTIONS"]["pool"]["timeout"] = 1  # then the read uses the primary, which must not wait longer
    return found


DATABASES = {"default": _database()}
if DATABASE_REPLICA_URL:
    DATABASES["replica"] = _replica()
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTHENTICATION_BACKENDS = ["memoryhub.accounts.clearance.AccountBackend"]
PASSWORD_RESET_TIMEOUT = 7 * 24 * 3600  # seconds; invitations expire after it
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
# django-allauth: no sign-up, no e-mail. Attempts are throttled by memoryhub.accounts.sign_in.
ACCOUNT_ADAPTER = "memoryhub.accounts.second_factors.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = MFA_RATE_LIMITS = False
ACCOUNT_SESSION_REMEMBER = True
MFA_ADAPTER = "memoryhub.accounts.second_factors.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = "memoryhub"
MFA_TOTP_TOLERANCE = 1  # codes before and after the current one, for clocks that differ
SOCIALACCOUNT_ADAPTER = "memoryhub.accounts.single_sign_on.SingleSignOnAdapter"
SOCIALACCOUNT_REQUESTS_TIMEOUT = 10  # seconds to wait for the provider
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
CSRF_FAILURE_VIEW = "memoryhub.web.base.views.csrf_failure"

LANGUAGE_CODE = "en"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# No collectstatic step and so no STATIC_ROOT: whitenoise serves what the finders find, read once at start.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_MAX_AGE = 3600
# A font is never changed under its name; what `asset` names carries a digest (web/base/static_files.py).
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/fonts/"

# The API answers a larger body with 413; uploads of the browser's import stream to disk.
DATA_UPLOAD_MAX_MEMORY_SIZE = MEMORYHUB.max_body_bytes
DATA_UPLOAD_MAX_NUMBER_FIELDS = 3000  # one act names up to 2000 memories
DATA_UPLOAD_MAX_NUMBER_FILES = 4

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
if HTTPS:
    # Browsers take a cookie of such a name from this very host alone, over TLS, for all of its paths.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sessionid", "__Host-csrftoken"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
# A hub on loopback needs no TLS, so these warnings are silenced. On other addresses they are shown.
SILENCED_SYSTEM_CHECKS = (
    ["security.W004", "security.W008", "security.W012", "security.W016"]
    if not HTTPS and set(ALLOWED_HOSTS) <= set(LOOPBACK_HOSTS)
    else []
)

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "connect-src": [SELF],
        "font-src": [SELF],
        "img-src": [SELF, "data:"],
        "manifest-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "upgrade-insecure-requests": HTTPS,
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"without_secrets": {"()": "memoryhub.security.secrets.RedactSecretsFilter"}},
    "formatters": {
        "plain": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "server": {
            "()": "django.utils.log.ServerFormatter",
            "format": "[{server_time}] {message}",
            "style": "{",
        },
        "json": {"()": "memoryhub.core.logs.JsonFormatter"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["without_secrets"],
        },
        "server": {
            "class": "logging.StreamHandler",
            "formatter": "json" if LOG_FORMAT == "json" else "server",
            "filters": ["without_secrets"],
        },
    },
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        "django.request": {"level": "ERROR"},
        # The development server writes whole addresses, with what was searched for.
        "django.server": {"handlers": ["server"], "level": "INFO", "propagate": False},
        # Anyone may send a wrong Host header; a stack trace for each would bury what matters.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        # It logs the address of every request, which may contain a key.
        "httpx2": {"level": "WARNING"},
    },
}
