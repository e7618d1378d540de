//! Credentials: the format of the secrets of API keys and admin tokens.
//!
//! ```text
//!   bl_live_ 4fQ…(43 base-62 characters, 256 random bits)… a81Zq0
//!   prefix   secret                                        CRC-32, base 62
//! ```
//! The prefix lets secret scanners recognise a credential in a repository. The checksum
//! distinguishes a typo from a wrong key without a look-up. Only the SHA-256 hash of the whole
//! text is stored. 256 random bits cannot be guessed, so no slow password hash is needed on
//! the request path.

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::entropy::Entropy;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 62^43 > 2^256.
const SECRET_CHARS: usize = 43;
/// 62^6 > 2^32.
const CHECKSUM_CHARS: usize = 6;

/// What a credential is for, which its prefix says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A tenant's key for real traffic.
    LiveKey,
    /// A tenant's key for tests.
    TestKey,
    /// An operator's token for the admin API.
    AdminToken,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::LiveKey, Self::TestKey, Self::AdminToken];

    /// The prefix of every credential with this purpose.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::LiveKey => "bl_live_",
            Self::TestKey => "bl_test_",
            Self::AdminToken => "bl_admin_",
        }
    }
}

/// A secret in plain text. It is shown once and never stored; `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    text: String,
    purpose: Purpose,
}

/// The SHA-256 hash of a credential: what is stored and looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CredentialHash([u8; 32]);

/// Why a text is not a valid credential, without a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCredential {
    /// It has no known prefix.
    #[error("it does not begin with bl_live_, bl_test_ or bl_admin_")]
    Foreign,
    /// It is too short, too long, or has invalid characters.
    #[error("it is incomplete or has invalid characters")]
    Malformed,
    /// Its checksum does not match: a typo.
    #[error("its checksum does not match, so it was mistyped or copied incompletely")]
    Mistyped,
}

impl Credential {
    /// Generates a new credential.
    pub fn generate(purpose: Purpose, entropy: &dyn Entropy) -> Self {
        let mut text = String::with_capacity(64);
        text.push_str(purpose.prefix());
        let end = text.len() + SECRET_CHARS;
        let mut bytes = [0; 64];
        while text.len() < end {
            entropy.fill(&mut bytes);
            // 248 = 4 · 62: bytes above are drawn again, so that every character is equally
            // likely.
            for byte in bytes.iter().filter(|byte| **byte < 248) {
                if text.len() < end {
                    text.push(char::from(ALPHABET[usize::from(byte % 62)]));
                }
            }
        }
        let sum = checksum(text.as_bytes());
        text.extend(sum.map(char::from));
        Self { text, purpose }
    }

    /// Parses and checks a credential.
    pub fn parse(text: &str) -> Result<Self, BadCredential> {
        let purpose = check(text)?;
        Ok(Self {
            text: text.to_owned(),
            purpose,
        })
    }

    /// Its purpose.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The secret itself, for the one time it is shown.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Its hash, which is stored.
    pub fn hash(&self) -> CredentialHash {
        hash(&self.text)
    }

    /// The first characters, by which people recognise it in a list.
    pub fn hint(&self) -> String {
        let prefix = self.purpose.prefix().len();
        format!("{}…", &self.text[..prefix + 4])
    }
}

/// Checks the form and the checksum of `text` without allocating, and returns its purpose and
/// hash: for the request path.
pub fn inspect(text: &str) -> Result<(Purpose, CredentialHash), BadCredential> {
    let purpose = check(text)?;
    Ok((purpose, hash(text)))
}

/// `text` with every credential in it shortened to its first characters, for logs and traces.
pub fn redact(text: &str) -> Cow<'_, str> {
    let (mut clean, mut rest) = (String::new(), text);
    while let Some(start) = first_prefix(rest) {
        let secret = &rest[start..];
        let end = secret
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(secret.len());
        let shown = secret
            .match_indices('_')
            .nth(1)
            .map_or(0, |(place, _)| place + 1);
        let shown = (shown + 4).min(end);
        clean.push_str(&rest[..start + shown]);
        clean.push('…');
        rest = &secret[end..];
    }
    if clean.is_empty() {
        return Cow::Borrowed(text);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// The position of the first credential prefix. All prefixes begin with `bl_`, so one pass is
/// enough.
fn first_prefix(text: &str) -> Option<usize> {
    let mut places = text.match_indices("bl_").map(|(place, _)| place);
    places.find(|place| {
        let begins = |purpose: &Purpose| text[*place..].starts_with(purpose.prefix());
        Purpose::ALL.iter().any(begins)
    })
}

fn check(text: &str) -> Result<Purpose, BadCredential> {
    let purpose = Purpose::ALL
        .into_iter()
        .find(|purpose| text.starts_with(purpose.prefix()))
        .ok_or(BadCredential::Foreign)?;
    let bytes = text.as_bytes();
    let body = &bytes[purpose.prefix().len()..];
    if body.len() != SECRET_CHARS + CHECKSUM_CHARS || !body.iter().all(u8::is_ascii_alphanumeric) {
        return Err(BadCredential::Malformed);
    }
    let (signed, sum) = bytes.split_at(bytes.len() - CHECKSUM_CHARS);
    if checksum(signed) == sum {
        Ok(purpose)
    } else {
        Err(BadCredential::Mistyped)
    }
}

fn hash(text: &str) -> CredentialHash {
    CredentialHash(Sha256::digest(text.as_bytes()).into())
}

fn checksum(signed: &[u8]) -> [u8; CHECKSUM_CHARS] {
    let mut rest = crc32fast::hash(signed) as usize;
    let mut sum = [0; CHECKSUM_CHARS];
    for place in sum.iter_mut().rev() {
        *place = ALPHABET[rest % 62];
        rest /= 62;
    }
    sum
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.hint())
    }
}

impl CredentialHash {
    /// The bytes of the hash.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The half of the hash that is used for look-ups. Its comparison need not take constant
    /// time, because an attacker cannot choose the hash of a guess.
    pub fn handle(&self) -> u128 {
        let mut half = [0; 16];
        half.copy_from_slice(&self.0[..16]);
        u128::from_be_bytes(half)
    }

    /// The hash in hexadecimal, as the registry indexes it.
    pub fn to_hex(self) -> String {
        use fmt::Write;
        self.0
            .iter()
            .fold(String::with_capacity(64), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            })
    }

    /// Compares both hashes in constant time, so that the duration does not reveal where they
    /// differ.
    pub fn matches(&self, other: &Self) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |found, (one, two)| found | (one ^ two));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for CredentialHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialHash({}…)", &self.to_hex()[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Counting(std::sync::atomic::AtomicU8);
    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0.fetch_add(7, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    fn sample(purpose: Purpose) -> Credential {
        Credential::generate(purpose, &Counting(3.into()))
    }

    #[test]
    fn generated_credentials_parse() {
        for purpose in Purpose::ALL {
            let drawn = sample(purpose);
            assert_eq!(Credential::parse(drawn.expose()), Ok(drawn.clone()));
            assert_eq!(inspect(drawn.expose()), Ok((purpose, drawn.hash())));
        }
    }

    #[test]
    fn every_single_character_typo_is_detected() {
        let text = sample(Purpose::LiveKey).expose().to_owned();
        for place in Purpose::LiveKey.prefix().len()..text.len() {
            let mut typo = text.clone().into_bytes();
            typo[place] = if typo[place] == b'x' { b'y' } else { b'x' };
            let typo = String::from_utf8(typo).unwrap();
            assert_eq!(Credential::parse(&typo), Err(BadCredential::Mistyped));
        }
    }

    #[test]
    fn foreign_and_incomplete_texts_are_distinguished() {
        let text = sample(Purpose::TestKey).expose().to_owned();
        assert_eq!(Credential::parse("sk_live_1"), Err(BadCredential::Foreign));
        assert_eq!(Credential::parse(""), Err(BadCredential::Foreign));
        assert_eq!(
            Credential::parse(&text[..40]),
            Err(BadCredential::Malformed)
        );
        assert_eq!(
            Credential::parse(&format!("{text}0")),
            Err(BadCredential::Malformed)
        );
        assert_eq!(
            Credential::parse("bl_live_\u{1F5F3}"),
            Err(BadCredential::Malformed)
        );
    }

    #[test]
    fn a_secret_never_shows_in_debug_output() {
        let drawn = sample(Purpose::AdminToken);
        let shown = format!("{drawn:?} {:?}", drawn.hash());
        assert!(!shown.contains(&drawn.expose()[14..]), "{shown}");
    }

    #[test]
    fn secrets_are_redacted() {
        let drawn = sample(Purpose::LiveKey);
        let text = format!("/resolve?a=1&api_key={0}&b={0}", drawn.expose());
        let clean = redact(&text);
        assert_eq!(clean.matches(&drawn.hint()).count(), 2, "{clean}");
        assert!(!clean.contains(&drawn.expose()[12..]), "{clean}");
        assert!(
            clean.starts_with("/resolve?a=1&api_key=bl_live_"),
            "{clean}"
        );
        assert_eq!(redact("nothing here"), "nothing here");
        assert_eq!(redact("bl_live_"), "bl_live_…");
    }

    #[test]
    fn the_format_is_pinned() {
        // A golden value: a change of alphabet, checksum or hash would invalidate every
        // existing key.
        let text = "bl_live_0000000000000000000000000000000000000000000";
        let whole = format!(
            "{text}{}",
            String::from_utf8_lossy(&checksum(text.as_bytes()))
        );
        assert_eq!(
            whole,
            "bl_live_000000000000000000000000000000000000000000034Ah44"
        );
    }

    #[test]
    fn text_full_of_secrets_is_redacted() {
        // As long as a request's head may be.
        let text = "bl_live_0123456789,".repeat(20_000);
        assert_eq!(redact(&text), "bl_live_0123…,".repeat(20_000));
    }

    struct RepeatedBytes(Vec<u8>);
    impl Entropy for RepeatedBytes {
        fn fill(&self, bytes: &mut [u8]) {
            for (byte, next) in bytes.iter_mut().zip(self.0.iter().cycle()) {
                *byte = next % 248;
            }
        }
    }

    fn drawn() -> impl Strategy<Value = Credential> {
        let purpose = prop::sample::select(&Purpose::ALL[..]);
        let bytes = prop::collection::vec(any::<u8>(), 64);
        (purpose, bytes)
            .prop_map(|(purpose, bytes)| Credential::generate(purpose, &RepeatedBytes(bytes)))
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(bl_(live|test|admin)_)?.{0,70}") {
            let parsed = Credential::parse(&text);
            let (seen, inspected) = (parsed.clone().err(), inspect(&text).err());
            prop_assert_eq!(seen, inspected);
            if let Ok(credential) = parsed {
                prop_assert_eq!(credential.expose(), text);
            }
        }

        #[test]
        fn generated_credentials_parse_and_near_texts_do_not(
            credential in drawn(),
            place in any::<prop::sample::Index>(),
            other in any::<char>(),
        ) {
            let text = credential.expose();
            prop_assert_eq!(Credential::parse(text), Ok(credential.clone()));
            let place = place.index(text.len());
            let mut near: Vec<char> = text.chars().collect();
            near[place] = other;
            let near: String = near.into_iter().collect();
            prop_assert_eq!(Credential::parse(&near).is_ok(), near == text);
            prop_assert!(Credential::parse(&text[..place]).is_err());
            let (longer, later) = (format!("{text}{other}"), format!("{other}{text}"));
            prop_assert!(Credential::parse(&longer).is_err());
            prop_assert!(Credential::parse(&later).is_err());
        }

        #[test]
        fn no_secret_remains_in_any_text(
            credential in drawn(), before in ".{0,30}", after in ".{0,30}",
        ) {
            let text = format!("{before}{}{after}", credential.expose());
            let clean = redact(&text).into_owned();
            let secret = &credential.expose()[credential.purpose().prefix().len() + 4..];
            prop_assert!(!clean.contains(&secret[..8]) || before.contains(&secret[..8])
                || after.contains(&secret[..8]), "{}", clean);
        }
    }
}
