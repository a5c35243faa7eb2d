"""Whom odek believes on a TLS connection (B43 b): the CAs that the environment names, else the system's."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence

from odek.errors import ConfigError
from odek.text import clip, visible

# Where systems keep their CAs. A Python that was built elsewhere (a frozen binary, one from
# python.org) looks in places that do not exist here.
_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/etc/openssl/cert.pem",
)


def read_tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Return a verifying context. Raises ConfigError when SSL_CERT_FILE or SSL_CERT_DIR cannot be used."""
    file = env.get("SSL_CERT_FILE") or None
    folder = env.get("SSL_CERT_DIR") or None
    if folder is not None and not os.path.isdir(folder):  # OpenSSL would say nothing
        raise ConfigError(f'SSL_CERT_DIR names no directory: "{_shown(folder)}"')
    try:
        context = ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f'SSL_CERT_FILE "{_shown(file or "")}" cannot be used: {reason}') from error
    if file is None and folder is None and not has_cas(context, ssl.get_default_verify_paths().openssl_capath):
        load_first_bundle(context, _SYSTEM_BUNDLES)
    return context


def has_cas(context: ssl.SSLContext, folder: str) -> bool:
    """Return whether `context` holds a CA, or will look one up in OpenSSL's `folder`."""
    return bool(context.cert_store_stats()["x509_ca"]) or (os.path.isdir(folder) and bool(os.listdir(folder)))


def load_first_bundle(context: ssl.SSLContext, bundles: Sequence[str]) -> None:
    """Load the first file of `bundles` that exists, if any does."""
    for bundle in bundles:
        if os.path.isfile(bundle):
            context.load_verify_locations(cafile=bundle)
            return


def _shown(path: str) -> str:
    return clip(visible(path), 200)
