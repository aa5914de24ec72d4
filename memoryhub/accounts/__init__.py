"""Who is who, and who may do what: people, their roles, projects, levels, sign-ins, tokens and searches."""
