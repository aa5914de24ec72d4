"""A long mixed load and kills under load, with a check of every acknowledged write."""
