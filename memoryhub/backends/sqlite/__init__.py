"""SQLite: schema and triggers, erasing, rebuilt indexes, pages of a damaged file."""
