"""The pages."""

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, path

from memoryhub.web.views import auth, home, switch

urlpatterns: list[URLPattern] = [
    path("", home.home, name="home"),
    path("login/", login_not_required(auth.Login.as_view()), name="login"),
    path("logout/", auth.Logout.as_view(), name="logout"),
    path("switch/", switch.turn_switch, name="switch"),
]
