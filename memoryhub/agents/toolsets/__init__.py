"""The toolsets that agents may use, by name."""

from memoryhub.agents.toolset import Toolset
from memoryhub.agents.toolsets.letsgo import LETSGO

TOOLSETS: dict[str, Toolset] = {toolset.name: toolset for toolset in (LETSGO,)}
