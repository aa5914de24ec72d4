"""The configuration and the source of each value. Pure, because ``settings.py`` loads it."""

from memoryhub.config.environment import ConfigError
from memoryhub.config.loader import (
    ENV_PREFIX,
    OPERATOR_VARIABLES,
    LoadedConfig,
    load_config,
)
from memoryhub.config.tunables import WEIGHT_GROUPS, Config, parse_flag

__all__ = [
    "ENV_PREFIX",
    "OPERATOR_VARIABLES",
    "WEIGHT_GROUPS",
    "Config",
    "ConfigError",
    "LoadedConfig",
    "load_config",
    "parse_flag",
]
