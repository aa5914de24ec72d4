"""What vectors cost: ``python -m tools.bench.vectors --sizes 10000,100000``.

Prints the processor time of storing a memory with embeddings and without, in batches as an import does and
one by one as agents do. Then what the index in the process takes: the time to read it, and the processor time
of the nearest ten, among all memories and in one project of a hundred.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

SINGLE, BATCH, QUESTIONS = 500, 1000, 40


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,100000", help="vectors in the index, comma-separated")
    parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        set_up()
        storing() if options.inside == "store" else searching(int(options.inside))
        return
    for name in ("none", "wordllama", "none", "wordllama"):
        run("store", name)
    for size in options.sizes.split(","):
        run(size, "none")


def run(what: str, embeddings: str) -> None:
    """In a process and a store of its own."""
    with tempfile.TemporaryDirectory(prefix="memoryhub-bench-") as home:
        environment = {**os.environ, "LETSGO_HOME": home, "MEMORYHUB_EMBEDDINGS": embeddings}
        environment |= {"DJANGO_SETTINGS_MODULE": "memoryhub.settings", "MEMORYHUB_MAX_MEMORIES": "0"}
        for name in ("LETSGO_MEMORY_DB", "LETSGO_MEMORY_LOG", "DATABASE_URL"):
            environment.pop(name, None)
        command = [sys.executable, "-m", "tools.bench.vectors", "--inside", what]
        subprocess.run(command, env=environment, check=True)


def set_up() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def storing() -> None:
    """Microseconds of processor time for each memory."""
    from memoryhub import embeddings, memories
    from memoryhub.access.policy import system_actor
    from memoryhub.memories.schemas import MemoryDraft
    from tools.bench import corpus

    embedder, actor = embeddings.configured(), system_actor("bench")
    lines = list(corpus.memories(corpus.read(None), 5 * BATCH + SINGLE))
    drafts = [MemoryDraft(**line) for line in lines]
    if embedder:
        embedder.documents(["the first one loads what it needs"])

    def batches() -> None:
        for start in range(0, 5 * BATCH, BATCH):
            memories.create_memories(drafts[start : start + BATCH], actor)

    def one_by_one() -> None:
        for draft in drafts[5 * BATCH :]:
            memories.create_memory(draft, actor)

    each = [spent(batches) / (5 * BATCH), spent(one_by_one) / SINGLE]
    name = embedder.name if embedder else "none"
    print(f"store  {name:28} {each[0] * 1e6:6.0f} µs in a batch, {each[1] * 1e6:6.0f} µs alone", flush=True)


def searching(size: int) -> None:
    """The index over vectors made here: what is measured does not depend on what they mean."""
    import numpy as np

    from memoryhub.backends import bulk, vector_index
    from memoryhub.models import Embedding, Memory
    from memoryhub.search.semantic import find_nearest

    dice, model, dimensions = np.random.default_rng(1), "bench/random", 256
    for start in range(0, size, BATCH):
        rows = [
            Memory(content=f"{n}", content_hash=f"{n}", project=f"p{n % 100}")
            for n in range(start, start + BATCH)
        ]
        bulk.insert_objects(rows)
        made = dice.normal(0.05, 1, (BATCH, dimensions)).astype(np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        pairs = [
            (row.pk, model, vector_index.encode_vector(one)) for row, one in zip(rows, made, strict=True)
        ]
        bulk.insert(Embedding, ("memory_id", "model", "vector"), pairs)
    held = vector_index.get_index(model, dimensions)
    read = spent(held.view)
    print(f"index  {size:,} vectors: read in {read:.2f} s, {held.memory_bytes / 1e6:.0f} MB", flush=True)
    questions = dice.normal(0, 1, (QUESTIONS, dimensions)).astype(np.float32)
    questions /= np.linalg.norm(questions, axis=1, keepdims=True)
    for name, rows in (("all", Memory.objects.live()), ("1 %", Memory.objects.live().filter(project="p1"))):
        took = [spent(partial(find_nearest, rows, one, model, 10)) * 1000 for one in questions]
        print(f"nearest ten of {name:4} {statistics.median(took):6.1f} ms", flush=True)


def spent(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
