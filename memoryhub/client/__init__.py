"""The Python client of a hub, and the command line for people."""
