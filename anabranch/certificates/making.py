"""New authorities and certificates. Nothing here reads or writes a file.

Keys are P-256. Regions and clients have authorities of their own, so that no client can speak as a
region (docs/security.md, T1 to T3).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from anabranch.certificates.names import dns_name

# Machines whose clocks are a little behind take a new certificate, too.
_BACKDATED: Final = timedelta(hours=1)


class Pair(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Facts(NamedTuple):
    """What `anabranch cert show` tells. `serial`: in hex, as in sync-tls-denied-serials."""

    subject: str
    issuer: str
    dns_names: list[str]
    serial: str
    not_before: datetime
    not_after: datetime
    is_authority: bool

    def days_left(self) -> int:
        """Days until the certificate ends; below 0 after it."""
        return (self.not_after - datetime.now(UTC)).days


def new_authority(name: str, days: int) -> Pair:
    """An authority that signs certificates; `name` is its common name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    certificate = (
        _builder(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_region(authority: Pair, region: str, cluster: str, days: int) -> Pair:
    """A certificate of a region, which dials and accepts with it."""
    return _signed(
        authority,
        region,
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
        [dns_name(region, cluster)],
        days,
    )


def new_client(authority: Pair, user: str, days: int) -> Pair:
    """A certificate of a client: its common name is the user's name."""
    return _signed(authority, user, [ExtendedKeyUsageOID.CLIENT_AUTH], [], days)


def renewed(authority: Pair, certificate: bytes, days: int) -> Pair:
    """A new key and a new certificate with the names and uses of `certificate`.

    Raises:
        ValueError: `certificate` was not signed by `authority`, or is one itself.
    """
    former = x509.load_pem_x509_certificate(certificate)
    if facts(certificate).is_authority:
        raise ValueError("this is a certificate authority: make another, and trust both for a time")
    try:
        former.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    except InvalidSignature:
        raise ValueError("another authority has signed it") from None
    uses = former.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    common = former.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    return _signed(authority, str(common), list(uses), _dns_names(former), days)


def facts(certificate: bytes) -> Facts:
    """What a certificate says. ValueError if it is none."""
    read = x509.load_pem_x509_certificate(certificate)
    try:
        constraints = read.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        is_authority = False
    else:
        is_authority = constraints.ca
    return Facts(
        read.subject.rfc4514_string(),
        read.issuer.rfc4514_string(),
        _dns_names(read),
        f"{read.serial_number:X}",
        read.not_valid_before_utc,
        read.not_valid_after_utc,
        is_authority,
    )


def _signed(
    authority: Pair,
    common_name: str,
    uses: list[x509.ObjectIdentifier],
    dns_names: list[str],
    days: int,
) -> Pair:
    signer = x509.load_pem_x509_certificate(authority.certificate)
    signing_key = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(signing_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the authority is none that `anabranch cert create-ca` makes")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_named(common_name), signer.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
    )
    if dns_names:
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in dns_names])
        builder = builder.add_extension(names, critical=False)
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _dns_names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
