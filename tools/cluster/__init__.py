"""Run several nodes on one PostgreSQL, and check that nothing is lost or done twice."""
