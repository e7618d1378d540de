//! Signs certificates and verifies their signatures.

use std::fmt;

use ballast_domain::certificate::{Certificate, SignedCertificate};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// Signs certificates with an ed25519 key.
pub struct CertificateSigner {
    key: Ed25519KeyPair,
}

/// The seed does not make a valid key.
#[derive(Debug, thiserror::Error)]
#[error("the signing key cannot be used")]
pub struct InvalidSeed;

/// Why a certificate is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateVerifyError {
    /// The key or the signature is not base64.
    #[error("its {0} is not valid base64")]
    Unreadable(&'static str),
    /// The signature does not match its key, or the certificate was changed.
    #[error("its signature does not match: it was changed, or not signed with this key")]
    Forged,
    /// It is signed with a key other than the trusted one.
    #[error("it is signed with the key {found}, not with {trusted}")]
    OtherKey {
        /// The key that signed it.
        found: String,
        /// The key that is trusted.
        trusted: String,
    },
}

impl CertificateSigner {
    /// A signer with the key derived from this seed.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, InvalidSeed> {
        let key = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| InvalidSeed)?;
        Ok(Self { key })
    }

    /// The public key, in base64.
    #[must_use]
    pub fn public_key(&self) -> String {
        STANDARD.encode(self.key.public_key().as_ref())
    }

    /// Signs a certificate.
    #[must_use]
    pub fn sign(&self, certificate: Certificate) -> SignedCertificate {
        let signature = self.key.sign(certificate.signed_text().as_bytes());
        SignedCertificate {
            certificate,
            public_key: self.public_key(),
            signature: STANDARD.encode(signature.as_ref()),
        }
    }
}

/// Verifies a certificate's signature and, if a trusted key is given, that it was
/// signed with that key.
pub fn verify(
    signed: &SignedCertificate,
    trusted: Option<&str>,
) -> Result<(), CertificateVerifyError> {
    let read = |what, text: &str| {
        let read = STANDARD.decode(text.trim());
        read.map_err(|_| CertificateVerifyError::Unreadable(what))
    };
    if let Some(trusted) = trusted
        && trusted.trim() != signed.public_key
    {
        return Err(CertificateVerifyError::OtherKey {
            found: signed.public_key.clone(),
            trusted: trusted.trim().to_owned(),
        });
    }
    let key = UnparsedPublicKey::new(&ED25519, read("public key", &signed.public_key)?);
    let signature = read("signature", &signed.signature)?;
    let text = signed.certificate.signed_text();
    key.verify(text.as_bytes(), &signature)
        .map_err(|_| CertificateVerifyError::Forged)
}

/// The key is a secret: show only its public part.
impl fmt::Debug for CertificateSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CertificateSigner")
            .field(&self.public_key())
            .finish()
    }
}
