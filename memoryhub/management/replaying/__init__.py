"""Playing a recorded session of Claude Code through a hub's endpoint."""
