"""memoryhub: a self-hosted dashboard and JSON API for what AI agents remember."""

import os

__version__ = "0.1.0"

# NumPy reads this when it is imported. One product of a matrix and a vector gains little from several
# threads, and the threads of several workers wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
