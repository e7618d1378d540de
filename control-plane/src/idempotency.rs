//! `Idempotency-Key`: a create that is sent twice happens once and gets the same
//! reply twice.
//!
//! The commit of the create also writes the reply, so neither ever exists
//! without the other. A reply may contain a secret that is shown once (a new
//! API key), which the store must not be able to read. It is therefore sealed
//! under a key derived from the caller's own token, of which the store only has
//! a hash. A caller that repeats the request sends the token, and with it the
//! key.

use std::fmt;

use ballast_domain::bounds::IDEMPOTENCY_HOURS;
use ballast_domain::credential::Credential;
use ballast_domain::registry::RememberedReply;
use ballast_domain::{Error, ErrorCode, Result, TokenId};
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::plane::ControlPlane;

const NONCE_BYTES: usize = 24;

/// The identity of one idempotent request.
#[derive(Clone)]
pub struct Idempotency {
    id: String,
    key: [u8; 32],
    fingerprint: String,
}

/// The plaintext of a sealed reply.
#[derive(Serialize, Deserialize)]
struct SealedReply<'a> {
    fingerprint: String,
    #[serde(borrow)]
    body: &'a RawValue,
}

impl Idempotency {
    /// The request of this token and `Idempotency-Key`; `request` is its
    /// method, path and body.
    pub fn new(token_id: &TokenId, token: &Credential, key: &str, request: &[&[u8]]) -> Self {
        let id = digest(&[
            b"ballast/reply/id/1",
            token_id.as_str().as_bytes(),
            key.as_bytes(),
        ]);
        Self {
            id: hex(&id[..16]),
            key: digest(&[
                b"ballast/reply/key/1",
                token.expose().as_bytes(),
                key.as_bytes(),
            ]),
            fingerprint: hex(&digest(request)),
        }
    }

    /// The id under which the reply is stored; independent of the request's body.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The reply to an earlier identical request, if there was one.
    pub async fn replay(&self, plane: &ControlPlane) -> Result<Option<Box<RawValue>>> {
        let Some(reply) = plane.registry().reply(&self.id, plane.now()).await? else {
            return Ok(None);
        };
        let unreadable = || Error::internal("read a remembered reply", "it cannot be decrypted");
        if reply.sealed.len() < NONCE_BYTES {
            return Err(unreadable());
        }
        let (nonce, sealed) = reply.sealed.split_at(NONCE_BYTES);
        let nonce = XNonce::try_from(nonce).map_err(|_| unreadable())?;
        let clear = self
            .cipher()
            .decrypt(&nonce, sealed)
            .map_err(|_| unreadable())?;
        let SealedReply { fingerprint, body } = serde_json::from_slice(&clear)
            .map_err(|source| Error::internal("read a remembered reply", source))?;
        if fingerprint != self.fingerprint {
            return Err(Error::new(
                ErrorCode::IdempotencyMismatch,
                "this Idempotency-Key was sent before with another path or body",
            ));
        }
        Ok(Some(body.to_owned()))
    }

    /// Seals a reply.
    pub fn seal<T: Serialize>(&self, plane: &ControlPlane, answer: &T) -> Result<RememberedReply> {
        let failed = |source| Error::internal("remember the reply", source);
        let body = serde_json::value::to_raw_value(answer).map_err(failed)?;
        let clear = serde_json::to_vec(&SealedReply {
            fingerprint: self.fingerprint.clone(),
            body: &body,
        })
        .map_err(failed)?;
        let mut sealed = vec![0; NONCE_BYTES];
        plane.entropy().fill(&mut sealed);
        let nonce = XNonce::try_from(&sealed[..])
            .map_err(|_| Error::internal("remember the reply", "wrong nonce length"))?;
        let closed = self
            .cipher()
            .encrypt(&nonce, &clear[..])
            .map_err(|_| Error::internal("remember the reply", "the cipher refused"))?;
        sealed.extend(closed);
        Ok(RememberedReply {
            id: self.id.clone(),
            sealed,
            expires_at: plane.now().plus_seconds(IDEMPOTENCY_HOURS * 3_600),
        })
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.key.into())
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Idempotency({})", self.id)
    }
}

/// Hashes several parts, each preceded by its length, so that different lists
/// of parts never hash alike.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use ballast_domain::credential::Purpose;

    use super::*;
    use crate::intent::Intent;
    use crate::keys::{self, NewKey};
    use crate::tenants::{self, NewTenant};
    use crate::testing;

    fn request(token: &Credential, body: &str) -> Idempotency {
        let id = "tok-1".parse().unwrap();
        Idempotency::new(&id, token, "retry-1", &[b"POST", b"/keys", body.as_bytes()])
    }

    async fn with_key(token: &Credential, plane: &ControlPlane) -> String {
        let mut intent = Intent::ballast("test", "a reason");
        let new: NewTenant = serde_json::from_str(r#"{"tenantID":"acme"}"#).unwrap();
        tenants::create(plane, &intent, new).await.unwrap();
        intent.idempotency = Some(request(token, "{}"));
        let tenant = "acme".parse().unwrap();
        let made = keys::create(plane, &intent, &tenant, &NewKey::default())
            .await
            .unwrap();
        made.key
    }

    #[tokio::test]
    async fn a_repeated_create_shows_the_same_secret_again() {
        let (_directory, plane, token) = testing::plane().await;
        let secret = with_key(&token, &plane).await;
        let again = request(&token, "{}").replay(&plane).await.unwrap().unwrap();
        assert!(again.get().contains(&secret));
        let other = request(&token, r#"{"test":true}"#)
            .replay(&plane)
            .await
            .unwrap_err();
        assert_eq!(other.code(), ErrorCode::IdempotencyMismatch);
    }

    #[tokio::test]
    async fn stored_replies_do_not_reveal_the_secret() {
        let (directory, plane, token) = testing::plane().await;
        let secret = with_key(&token, &plane).await;
        for file in std::fs::read_dir(directory.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            for hidden in [secret.as_bytes(), token.expose().as_bytes()] {
                let found = bytes.windows(hidden.len()).any(|window| window == hidden);
                assert!(!found, "a secret is on disk in clear");
            }
        }
        // Another token with the same idempotency key cannot decrypt it.
        let stranger = Credential::generate(Purpose::AdminToken, plane.entropy());
        assert!(request(&stranger, "{}").replay(&plane).await.is_err());
    }
}
