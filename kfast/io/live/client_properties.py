"""Properties of Kafka's own clients (`--command-config`), as kafka-python takes them.

Source: Kafka 4.1, docs/security; SslConfigs.java, SaslConfigs.java, CommonClientConfigs.java.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from kfast.errors import InputError
from kfast.io.files import Source, abbreviate, check_utf8, load

__all__ = ["client_arguments", "parse_properties"]

_PLAIN: dict[str, tuple[str, Callable[[str], str | int]]] = {
    "client.id": ("client_id", str),
    "security.protocol": ("security_protocol", str.upper),
    "sasl.mechanism": ("sasl_mechanism", str.upper),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
    "request.timeout.ms": ("request_timeout_ms", int),
    "default.api.timeout.ms": ("bootstrap_timeout_ms", int),
    "retry.backoff.ms": ("retry_backoff_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "connections.max.idle.ms": ("connections_max_idle_ms", int),
}
"""Properties, what kafka-python calls each, and what reads its value."""
_TLS = frozenset({
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.certificates",
    "ssl.keystore.location", "ssl.keystore.type", "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
})
_UNUSED = frozenset({
    "ssl.truststore.password", "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols",
    "sasl.client.callback.handler.class", "ssl.provider", "ssl.secure.random.implementation",
})
"""What has no meaning for PEM files and Python's TLS."""
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Read Java properties: `key=value`, `key: value`, comments, continued lines, escapes."""
    properties = {}
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)
    for line in joined.splitlines():
        line = line.lstrip()
        if not line or line[0] in "#!":
            continue
        match = re.match(r"((?:\\.|[^\s=:\\])*)\s*[=:]?\s*(.*)", line)
        assert match is not None
        key, value = (_ESCAPE.sub(_unescape, part) for part in match.groups())
        properties[key] = value.rstrip()
    return properties


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROL.get(code, code)


def client_arguments(path: Source | None) -> tuple[dict[str, Any], list[str]]:
    """Arguments of kafka-python's clients that a file of properties asks for.

    Returns
    -------
    arguments, notes
        The notes name properties that are not heeded.

    Raises
    ------
    InputError
        The file cannot be read, or has a property of SASL or TLS that cannot be heeded.
    """
    if path is None:
        return {}, []
    name, data, _ = load(path, lambda _name, _head: None)
    check_utf8(name, data)
    properties = parse_properties(data.decode())
    arguments: dict[str, Any] = {}
    for key, (argument, parse) in _PLAIN.items():
        if key in properties:
            try:
                arguments[argument] = parse(properties[key])
            except ValueError:
                raise InputError(
                    f"{name}: {key} is {properties[key]!r}; right is a whole number"
                ) from None
    arguments |= _sasl(name, properties, arguments) | _tls(name, properties, arguments)
    known = {*_PLAIN, *_TLS, *_UNUSED, "sasl.jaas.config", "bootstrap.servers"}
    unheeded = sorted(properties.keys() - known)
    unsafe = [key for key in unheeded if key.startswith(("sasl.", "ssl.", "security."))]
    if unsafe:
        raise InputError(
            f"{name}: {abbreviate(unsafe)} cannot be heeded; right are {abbreviate(sorted(_TLS))}"
            ", sasl.mechanism and sasl.jaas.config"
        )
    return arguments, [f"{name}: not heeded: {abbreviate(unheeded)}"] if unheeded else []


def _sasl(
    name: str, properties: Mapping[str, str], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """User and password, from the line of JAAS."""
    if not arguments.get("security_protocol", "PLAINTEXT").startswith("SASL"):
        return {}
    mechanism = arguments.get("sasl_mechanism", "GSSAPI")
    if mechanism not in _MECHANISMS:
        raise InputError(
            f"{name}: sasl.mechanism is {mechanism!r}; right is one of {', '.join(_MECHANISMS)}"
        )
    options = {
        match[1]: re.sub(r"\\(.)", r"\1", match[2] or match[3] or match[4] or "")
        for match in _OPTION.finditer(properties.get("sasl.jaas.config", ""))
    }
    if mechanism == "GSSAPI":
        service = options.get("serviceName")
        return {"sasl_mechanism": mechanism} | (
            {"sasl_kerberos_service_name": service} if service else {}
        )
    if not {"username", "password"} <= options.keys():
        raise InputError(
            f"{name}: sasl.jaas.config names no username or no password; right is"
            ' org.apache.kafka.common.security.plain.PlainLoginModule required username="u"'
            ' password="p";'
        )
    return {
        "sasl_mechanism": mechanism, "sasl_plain_username": options["username"],
        "sasl_plain_password": options["password"],
    }


def _tls(name: str, properties: Mapping[str, str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A context of TLS with the certificates of PEM files."""
    if not arguments.get("security_protocol", "PLAINTEXT").endswith("SSL"):
        return {}
    for store in ("truststore", "keystore"):
        kind = properties.get(f"ssl.{store}.type", "JKS").upper()
        location = properties.get(f"ssl.{store}.location")
        if location is not None and kind != "PEM":
            raise InputError(
                f"{name}: ssl.{store}.location is {location}, a {kind} store, which Python cannot"
                f" read; right is a PEM file with ssl.{store}.type=PEM (keytool -exportcert -rfc,"
                " openssl pkcs12 -in)"
            )
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.truststore.location"),
            cadata=properties.get("ssl.truststore.certificates"),
        )
        if "ssl.keystore.location" in properties:
            context.load_cert_chain(
                properties["ssl.keystore.location"], password=properties.get("ssl.key.password", "")
            )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise InputError(f"{name}: a certificate or key cannot be used: {error}") from error
    check = properties.get("ssl.endpoint.identification.algorithm", "https") != ""
    context.check_hostname = check
    return {"ssl_context": context, "ssl_check_hostname": check}
