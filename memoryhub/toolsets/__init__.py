"""The toolsets that agents may use, by name."""

from memoryhub.toolsets.base import Toolset
from memoryhub.toolsets.letsgo import LETSGO
from memoryhub.toolsets.memory_mcp import MEMORY_MCP
from memoryhub.toolsets.mira import MIRA
from memoryhub.toolsets.pigo import PIGO

TOOLSETS: dict[str, Toolset] = {toolset.name: toolset for toolset in (LETSGO, MEMORY_MCP, MIRA, PIGO)}
