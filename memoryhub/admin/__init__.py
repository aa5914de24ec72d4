"""The Django admin for curators.

Every list contains only rows that the user may see. Every change goes through the services under the user's
name. Widgets, logs and confirmation pages reveal nothing hidden.
"""

from django.contrib import admin

from memoryhub.admin import accounts, activity, facts, memories

__all__ = ["accounts", "activity", "facts", "memories"]

admin.site.site_header = "memoryhub admin"
admin.site.site_title = "memoryhub admin"
admin.site.index_title = "Admin"
# With the sidebar, lists would be cut off at a width of 1280 pixels.
admin.site.enable_nav_sidebar = False
admin.site.empty_value_display = "–"
