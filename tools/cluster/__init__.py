"""Several nodes against one PostgreSQL: servers, proxies, and a check that nothing is lost or done twice."""
