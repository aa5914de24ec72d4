"""What a curator may tune, and where each value came from. Pure: ``settings.py`` reads it first of all."""

from memoryhub.config.loader import ENV_PREFIX, OPERATOR_VARIABLES, ConfigError, Loaded, load, parse_flag
from memoryhub.config.tunables import WHOLES, Config

__all__ = [
    "ENV_PREFIX",
    "OPERATOR_VARIABLES",
    "WHOLES",
    "Config",
    "ConfigError",
    "Loaded",
    "load",
    "parse_flag",
]
