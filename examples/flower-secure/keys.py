"""What a secure federation needs: an authority, the SuperLink's certificate, a key pair for each node."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 30


def certificates(folder: Path) -> None:
    """Write ``ca.crt``, and ``server.pem`` with ``server.key`` for 127.0.0.1; the authority's own key is not kept."""
    ca_key, server_key = _key(), _key()
    ca_name, server_name = _name("fedprof example CA"), _name("fedprof example SuperLink")
    ca = _builder(ca_name, ca_name, ca_key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca = ca.add_extension(_usage(signs=True), critical=True)
    server = _builder(server_name, ca_name, server_key)
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = server.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    server = server.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    server = server.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    server = server.add_extension(authority, critical=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(ca.sign(ca_key, hashes.SHA384()).public_bytes(pem))
    (folder / "server.pem").write_bytes(server.sign(ca_key, hashes.SHA384()).public_bytes(pem))
    _write_secret(folder / "server.key", _private(server_key, serialization.PrivateFormat.PKCS8))


def node_key(path: Path) -> Path:
    """Write a node's private key to ``path`` and its public key beside it, as ``ssh-keygen -t ecdsa -b 384`` would."""
    key = _key()
    _write_secret(path, _private(key, serialization.PrivateFormat.OpenSSH))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_suffix(".pub").write_bytes(public)
    return path


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(minutes=5))
    builder = builder.not_valid_after(now + dt.timedelta(days=DAYS))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
