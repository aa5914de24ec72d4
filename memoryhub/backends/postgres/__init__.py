"""PostgreSQL: the server, schema and triggers, vectors, replicas, rate limits."""
