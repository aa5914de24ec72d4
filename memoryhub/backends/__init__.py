"""The SQL dialect of the database: full-text and vector indexes, triggers, bulk statements, lookups."""
