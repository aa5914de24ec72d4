"""A stored passkey, as a browser would have created it, and a session that may change second factors."""

from __future__ import annotations

import time

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.models import User
from django.test import Client
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

FLAGS = AuthenticatorData.FLAG.AT | AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV


def create_passkey(user: User, name: str = "Laptop") -> Authenticator:
    """Store a passkey and recovery codes for a person."""
    key = ES256.from_cryptography_key(ec.generate_private_key(ec.SECP256R1()).public_key())
    number = websafe_encode(f"{user.pk} {name}".encode()[:200])
    data = AttestedCredentialData.create(bytes(16), number.encode(), key)
    signed = AuthenticatorData.create(bytes(32), FLAGS, 0, data)
    response = {
        "clientDataJSON": websafe_encode(b'{"type":"webauthn.create","challenge":"","origin":""}'),
        "attestationObject": websafe_encode(bytes(AttestationObject.create("none", signed, {}))),
    }
    credential = {"id": number, "rawId": number, "type": "public-key", "response": response}
    RecoveryCodes.activate(user)
    stored = {"name": name, "credential": credential}
    passkey: Authenticator = Authenticator.objects.create(user=user, type="webauthn", data=stored)
    return passkey


def confirm_session(client: Client, user: User) -> Client:
    """Make a session one in which the person has just entered their password again."""
    session = client.session
    session["account_authentication_methods"] = [
        {"method": "password", "at": time.time(), "reauthenticated": True}
    ]
    session["account_authentication_methods_user"] = str(user.pk)
    session.save()
    return client
