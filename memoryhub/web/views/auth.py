"""Signing in and out."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView


class Login(LoginView):
    """Someone who is signed in already goes straight on."""

    redirect_authenticated_user = True


class Logout(LogoutView):
    """POST only; ends the session, and with it the switches."""
