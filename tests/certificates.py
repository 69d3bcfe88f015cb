"""A small certificate authority, for tests of TLS."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY: Final = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, as PEM files.

    Attributes:
        certificate: alone.
        key: alone, in PKCS#8.
        both: one behind the other.
    """

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates of users and servers on 127.0.0.1.

    Args:
        directory: where all files are written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority of a test")
        self.path = directory / "authority.pem"
        certificate = self._signed(
            self._name, self._key.public_key(), x509.BasicConstraints(ca=True, path_length=0), x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                decipher_only=False,
            ),
        )  # fmt: skip
        self.path.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, password: str | None = None) -> Identity:
        """Issues a certificate with this common name; the key is encrypted if there is a password."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(
            _name(name),
            key.public_key(),
            x509.BasicConstraints(ca=False, path_length=None),
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
        )
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        public = certificate.public_bytes(Encoding.PEM)
        written = []
        for suffix, content in (("certificate", public), ("key", secret), ("both", public + secret)):
            path = self._directory / f"{name}.{suffix}.pem"
            path.write_bytes(content)
            written.append(path)
        return Identity(*written)

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *extensions: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )
        identifiers = (
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            x509.SubjectKeyIdentifier.from_public_key(key),
        )
        for extension in (*extensions, *identifiers):
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
