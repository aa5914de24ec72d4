"""The permissions by name. ``roles`` says which role has which; templates use ``perms.memoryhub``."""

VIEW_MEMORY = "memoryhub.view_memory"
ADD_MEMORY = "memoryhub.add_memory"
CHANGE_MEMORY = "memoryhub.change_memory"
DELETE_MEMORY = "memoryhub.delete_memory"
ERASE_MEMORY = "memoryhub.erase_memory"
REPAIR_UNKNOWN = "memoryhub.repair_unknown"
VIEW_PRIVATE = "memoryhub.view_private"
VIEW_SECRET = "memoryhub.view_secret"  # noqa: S105 a permission
VIEW_FACT = "memoryhub.view_fact"
ADD_FACT = "memoryhub.add_fact"
CHANGE_FACT = "memoryhub.change_fact"
DELETE_FACT = "memoryhub.delete_fact"
VIEW_SESSION = "memoryhub.view_session"
VIEW_EVENT = "memoryhub.view_event"
VIEW_INJECTION = "memoryhub.view_injection"
VIEW_JOURNAL = "memoryhub.view_journalentry"
VIEW_RUN = "memoryhub.view_maintenancerun"
ADD_RUN = "memoryhub.add_maintenancerun"  # also changes the settings of projects
VIEW_TOKEN = "memoryhub.view_agenttoken"  # noqa: S105 the tokens of everyone
ADD_TOKEN = "memoryhub.add_agenttoken"  # noqa: S105
CHANGE_TOKEN = "memoryhub.change_agenttoken"  # noqa: S105 also approves and removes OAuth clients
VIEW_USER = "auth.view_user"
ADD_USER = "auth.add_user"
CHANGE_USER = "auth.change_user"
VIEW_GROUP = "auth.view_group"
