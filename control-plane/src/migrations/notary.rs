//! Who signs certificates, and whether a signature is right.

use std::fmt;

use ballast_domain::certificate::{Certificate, Signed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// Signs certificates with an ed25519 key.
pub struct Notary {
    key: Ed25519KeyPair,
}

/// A seed that is no key.
#[derive(Debug, thiserror::Error)]
#[error("the signing key cannot be used")]
pub struct BadSeed;

/// Why a certificate is not to be believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disbelief {
    /// Key or signature are no base64.
    #[error("its {0} is no base64")]
    Unreadable(&'static str),
    /// It was not signed with its key, or was changed since.
    #[error("its signature does not fit: it was changed, or not signed with this key")]
    Forged,
    /// It is signed with another key than the one that is trusted.
    #[error("it is signed with the key {found}, not with {trusted}")]
    OtherKey {
        /// The key that signed it.
        found: String,
        /// The key that is trusted.
        trusted: String,
    },
}

impl Notary {
    /// One who signs with the key of this seed.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, BadSeed> {
        let key = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| BadSeed)?;
        Ok(Self { key })
    }

    /// The public key, in base64.
    #[must_use]
    pub fn public_key(&self) -> String {
        STANDARD.encode(self.key.public_key().as_ref())
    }

    /// Signs a certificate.
    #[must_use]
    pub fn sign(&self, certificate: Certificate) -> Signed {
        let signature = self.key.sign(certificate.text().as_bytes());
        Signed {
            certificate,
            public_key: self.public_key(),
            signature: STANDARD.encode(signature.as_ref()),
        }
    }
}

/// Whether a certificate is what was signed, and signed with the key that is
/// trusted, if one is.
pub fn verify(signed: &Signed, trusted: Option<&str>) -> Result<(), Disbelief> {
    let read = |what, text: &str| {
        let read = STANDARD.decode(text.trim());
        read.map_err(|_| Disbelief::Unreadable(what))
    };
    if let Some(trusted) = trusted
        && trusted.trim() != signed.public_key
    {
        return Err(Disbelief::OtherKey {
            found: signed.public_key.clone(),
            trusted: trusted.trim().to_owned(),
        });
    }
    let key = UnparsedPublicKey::new(&ED25519, read("public key", &signed.public_key)?);
    let signature = read("signature", &signed.signature)?;
    let text = signed.certificate.text();
    key.verify(text.as_bytes(), &signature)
        .map_err(|_| Disbelief::Forged)
}

/// A key is a secret.
impl fmt::Debug for Notary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notary").field(&self.public_key()).finish()
    }
}
