"""Pictures of every page of the demo, for the documentation: ``python -m tools screenshots``."""
