"""Which variables hold a secret, by their names alone (F-7). Pure.

The one list of the redactor, of the environment of commands on the host, and of the classifier. A name is
taken apart at `_`, `-`, `.` and where a capital follows a lower-case letter; one such part is enough.
"""

from __future__ import annotations

from odek.patterns import pattern

_PARTS = frozenset(
    (
        *("KEY", "KEYS", "APIKEY", "APIKEYS", "ACCESSKEY", "PRIVATEKEY", "SECRETKEY", "AUTHKEY", "ENCRYPTIONKEY"),
        *("PASS", "PASSWORDS", "PASSPHRASES", "PASSCODE", "PWD", "PW"),
        *("SECRETS", "CREDENTIAL", "CREDENTIALS", "CREDS", "CRED"),
        *("PAT", "JWT", "BEARER", "COOKIE", "AUTH", "BASICAUTH", "AUTHORIZATION", "OTP", "TOTP", "SSHPASS"),
    )
)
_ENDINGS = ("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN")  # also written together: DBPASSWORD, PGPASSWORD
_NEVER = frozenset(("PWD", "OLDPWD", "SSH_AUTH_SOCK"))  # folders, and a socket without which no key of ssh's is used
_PLACES = frozenset(("DIR", "FILE", "FILENAME", "FOLDER", "HOME", "PATH", "SOCK", "SOCKET"))
_BETWEEN = pattern(r"[_.-]+|(?<=[a-z])(?=[A-Z])")


def is_secret_name(name: str) -> bool:
    """Return whether a variable called `name` holds a secret, or says where one is."""
    if name.upper() in _NEVER:
        return False
    return any(part in _PARTS or part.endswith(_ENDINGS) for part in _parts(name))


def names_a_place(name: str) -> bool:
    """Return whether a variable called `name` says where something is: its value is a path, not the thing."""
    return _parts(name)[-1] in _PLACES


def _parts(name: str) -> list[str]:
    return [part.upper().rstrip("0123456789") for part in _BETWEEN.split(name)]
