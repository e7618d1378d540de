//! What browsers carry for us, sealed: nobody else can read, make or change
//! it.

use ballast_domain::Entropy;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::Serialize;
use serde::de::DeserializeOwned;

const NONCE_BYTES: usize = 24;
/// What is longer is none of ours.
const SEALED_CHARS_MAX: usize = 4_096;

/// What something sealed is for: what was sealed for one thing opens nothing
/// else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A session.
    Session,
    /// A word for the next page.
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

/// Seals and opens.
pub(crate) struct Seal {
    cipher: XChaCha20Poly1305,
}

impl Seal {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(&key.into()),
        }
    }

    /// The sealed text, fit for a cookie or a path; `None` when it cannot be
    /// sealed, which does not happen to anything of ours.
    pub(crate) fn seal<T: Serialize>(
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

    /// What was sealed; `None` when it was not sealed here for this.
    pub(crate) fn open<T: DeserializeOwned>(&self, purpose: Purpose, text: &str) -> Option<T> {
        if text.len() > SEALED_CHARS_MAX {
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
    fn what_is_sealed_is_opened_only_here_and_for_the_same_purpose() {
        let seal = Seal::new([1; 32]);
        let text = seal.seal(Purpose::Session, &"who", &Fixed).unwrap();
        let opened: Option<String> = seal.open(Purpose::Session, &text);
        assert_eq!(opened.as_deref(), Some("who"));
        assert_eq!(seal.open::<String>(Purpose::Share, &text), None);
        assert_eq!(
            Seal::new([2; 32]).open::<String>(Purpose::Session, &text),
            None
        );
    }

    #[test]
    fn what_was_changed_is_not_opened() {
        let seal = Seal::new([1; 32]);
        let text = seal.seal(Purpose::Session, &"who", &Fixed).unwrap();
        for place in 0..text.len() {
            let mut bent = text.clone().into_bytes();
            bent[place] = if bent[place] == b'A' { b'B' } else { b'A' };
            let bent = String::from_utf8(bent).unwrap();
            assert_eq!(
                seal.open::<String>(Purpose::Session, &bent),
                None,
                "{place}"
            );
        }
        for bad in ["", "x", "AAAA", &"A".repeat(5_000)] {
            assert_eq!(seal.open::<String>(Purpose::Session, bad), None);
        }
    }
}
