//! Authenticated encryption of cookies and links.

use ballast_domain::Entropy;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::Serialize;
use serde::de::DeserializeOwned;

const NONCE_BYTES: usize = 24;
/// Longer texts are rejected.
const ENCRYPTED_CHARS_MAX: usize = 4_096;

/// What an encrypted text is for. A text encrypted for one purpose cannot be decrypted for
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A session.
    Session,
    /// A flash message.
    Flash,
    /// A link to a poll's results.
    Share,
    /// A link that logs in.
    Enter,
}

impl Purpose {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Session => b"session",
            Self::Flash => b"flash",
            Self::Share => b"share",
            Self::Enter => b"enter",
        }
    }
}

/// Encrypts and decrypts cookies and links.
pub(crate) struct TokenCipher {
    cipher: XChaCha20Poly1305,
}

impl TokenCipher {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(&key.into()),
        }
    }

    /// Encrypts a value to text that fits in a cookie or a path; `None` if serialization
    /// fails, which does not happen for our types.
    pub(crate) fn encrypt<T: Serialize>(
        &self,
        purpose: Purpose,
        what: &T,
        entropy: &dyn Entropy,
    ) -> Option<String> {
        let clear = serde_json::to_vec(what).ok()?;
        let mut sealed = vec![0; NONCE_BYTES];
        entropy.fill(&mut sealed);
        let nonce = XNonce::try_from(&sealed[..]).ok()?;
        let payload = Payload {
            msg: &clear,
            aad: purpose.name(),
        };
        sealed.extend(self.cipher.encrypt(&nonce, payload).ok()?);
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Decrypts a text; `None` if it was not encrypted with this key for this purpose.
    pub(crate) fn decrypt<T: DeserializeOwned>(&self, purpose: Purpose, text: &str) -> Option<T> {
        if text.len() > ENCRYPTED_CHARS_MAX {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, closed) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce = XNonce::try_from(nonce).ok()?;
        let payload = Payload {
            msg: closed,
            aad: purpose.name(),
        };
        let clear = self.cipher.decrypt(&nonce, payload).ok()?;
        serde_json::from_slice(&clear).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;
    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    #[test]
    fn texts_are_bound_to_the_key_and_the_purpose() {
        let cipher = TokenCipher::new([1; 32]);
        let text = cipher.encrypt(Purpose::Session, &"who", &Fixed).unwrap();
        let opened: Option<String> = cipher.decrypt(Purpose::Session, &text);
        assert_eq!(opened.as_deref(), Some("who"));
        assert_eq!(cipher.decrypt::<String>(Purpose::Share, &text), None);
        assert_eq!(
            TokenCipher::new([2; 32]).decrypt::<String>(Purpose::Session, &text),
            None
        );
    }

    #[test]
    fn a_changed_text_is_rejected() {
        let cipher = TokenCipher::new([1; 32]);
        let text = cipher.encrypt(Purpose::Session, &"who", &Fixed).unwrap();
        for place in 0..text.len() {
            let mut bent = text.clone().into_bytes();
            bent[place] = if bent[place] == b'A' { b'B' } else { b'A' };
            let bent = String::from_utf8(bent).unwrap();
            assert_eq!(
                cipher.decrypt::<String>(Purpose::Session, &bent),
                None,
                "{place}"
            );
        }
        for bad in ["", "x", "AAAA", &"A".repeat(5_000)] {
            assert_eq!(cipher.decrypt::<String>(Purpose::Session, bad), None);
        }
    }
}
