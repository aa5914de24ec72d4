"""The toolsets that agents may use, by name."""

from memoryhub.agents.toolset import Toolset
from memoryhub.agents.toolsets.letsgo import LETSGO
from memoryhub.agents.toolsets.memory_mcp import MEMORY_MCP
from memoryhub.agents.toolsets.mira import MIRA
from memoryhub.agents.toolsets.pigo import PIGO

TOOLSETS: dict[str, Toolset] = {toolset.name: toolset for toolset in (LETSGO, MEMORY_MCP, MIRA, PIGO)}
