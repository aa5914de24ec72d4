"""The admin: where a curator keeps the memory healthy.

Every list begins with the gate of the person's request, every change goes through ``store``, ``facts`` and
``tokens`` under the person's name, and nothing one may not see leaks through widgets, logs or confirmations.
"""

from django.contrib import admin

from memoryhub.admin import facts, journal, memories, people, runs, sessions, tokens

__all__ = ["facts", "journal", "memories", "people", "runs", "sessions", "tokens"]

admin.site.site_header = "memoryhub curation"
admin.site.site_title = "memoryhub curation"
admin.site.index_title = "Curation"
# Its place goes to the columns of the lists, which are cut off at 1280 pixels otherwise.
admin.site.enable_nav_sidebar = False
admin.site.empty_value_display = "–"
