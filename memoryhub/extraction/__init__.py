"""From conversations to memories: what to keep of them, and what of that is known already."""
