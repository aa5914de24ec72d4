"""Pictures of every page of the demo, for the documentation: ``manage.py screenshots``."""
