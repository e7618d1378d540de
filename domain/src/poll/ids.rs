//! The ids of polls, items and voters.
//!
//! Routers make poll and item ids; both are opaque to callers. A poll's id begins with its
//! creation time, so ids sort in the order of creation. Voter ids come from the tenant's
//! application.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::bounds::VOTER_ID_BYTES_MAX;
use crate::clock::Timestamp;
use crate::entropy::Entropy;

/// Crockford's base 32 in lower case: no letter looks like a digit.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const POLL_DIGITS: usize = 26;
const ITEM_DIGITS: usize = 13;

/// The error for a text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {noun}: {rule}")]
pub struct BadPollId {
    noun: &'static str,
    text: String,
    rule: &'static str,
}

impl BadPollId {
    fn new(noun: &'static str, text: &str, rule: &'static str) -> Self {
        let text = text.chars().take(48).collect();
        Self { noun, text, rule }
    }
}

/// A poll: `poll-` and 26 letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, pattern = "^poll-[0-7][0-9a-hjkmnp-tv-z]{25}$", example = "poll-01kb5q6s3ww3q0v9d1nqz8t5ma")]
pub struct PollId(u128);

/// An item of a poll: `item-` and 13 letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, pattern = "^item-[0-9a-f][0-9a-hjkmnp-tv-z]{12}$", example = "item-7q0v9d1nqz8t5")]
pub struct ItemId(u64);

impl PollId {
    /// Makes a new id.
    pub fn random(now: Timestamp, entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        let ms = u128::from(now.unix_ms().max(0).unsigned_abs() & 0xffff_ffff_ffff);
        Self(ms << 80 | u128::from_be_bytes(bytes) >> 48)
    }

    /// The id with this number.
    pub const fn from_number(number: u128) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u128 {
        self.0
    }

    /// The hash that decides the poll's slice, see [`crate::tenant::find_slice`]. Part of the
    /// stored format.
    pub fn hash(self) -> u64 {
        xxh3_64_with_seed(&self.0.to_be_bytes(), 0x706f_6c6c)
    }
}

impl ItemId {
    /// The id of a poll's item at this position.
    pub fn from_position(poll: PollId, place: u16) -> Self {
        Self(xxh3_64_with_seed(
            &poll.0.to_be_bytes(),
            0x6974_656d_0000 | u64::from(place),
        ))
    }

    /// The id with this number.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// Writes the lowest bits of a number, five at a time.
fn write_digits(
    f: &mut fmt::Formatter<'_>,
    prefix: &str,
    number: u128,
    digits: usize,
) -> fmt::Result {
    let mut text = [0; 5 + POLL_DIGITS];
    text[..5].copy_from_slice(prefix.as_bytes());
    for (place, digit) in text[5..5 + digits].iter_mut().enumerate() {
        let shift = 5 * (digits - 1 - place);
        *digit = ALPHABET[(number >> shift) as usize & 31];
    }
    f.pad(std::str::from_utf8(&text[..5 + digits]).unwrap_or_default())
}

const fn digit_values() -> [u8; 256] {
    let mut values = [255; 256];
    let mut value = 0;
    while value < 32 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
}

static DIGIT_VALUES: [u8; 256] = digit_values();

/// Reads what [`write_digits`] wrote; `None` if it is anything else.
fn read_digits(prefix: &str, digits: usize, text: &str) -> Option<u128> {
    let text = text.strip_prefix(prefix)?.as_bytes();
    if text.len() != digits {
        return None;
    }
    let mut number: u128 = 0;
    for digit in text {
        let value = DIGIT_VALUES[usize::from(*digit)];
        if value == 255 || number >> 123 != 0 {
            return None;
        }
        number = number << 5 | u128::from(value);
    }
    Some(number)
}

macro_rules! text_form {
    ($name:ident, $noun:literal, $prefix:literal, $digits:ident, $rule:literal, $read:expr) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl FromStr for $name {
            type Err = BadPollId;
            fn from_str(text: &str) -> Result<Self, BadPollId> {
                read_digits($prefix, $digits, text)
                    .and_then($read)
                    .map(Self)
                    .ok_or_else(|| BadPollId::new($noun, text, $rule))
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadPollId;
            fn try_from(text: String) -> Result<Self, BadPollId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_digits(f, $prefix, u128::from(self.0), $digits)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

text_form!(
    PollId,
    "poll ID",
    "poll-",
    POLL_DIGITS,
    "it is \"poll-\" and 26 letters and digits",
    Some
);
text_form!(
    ItemId,
    "item ID",
    "item-",
    ITEM_DIGITS,
    "it is \"item-\" and 13 letters and digits",
    |number| u64::try_from(number).ok()
);

/// The id of a voter, as the tenant's application names it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, min_length = 1, max_length = 128, example = "user-1")]
pub struct VoterId(Box<str>);

impl VoterId {
    /// Checks the text of a voter id.
    pub fn new(text: &str) -> Result<Self, BadPollId> {
        let rule = match text {
            "" => "it is empty",
            long if long.len() > VOTER_ID_BYTES_MAX => "it is longer than 128 bytes",
            odd if odd.chars().any(char::is_control) => "it contains a control character",
            _ => return Ok(Self(text.into())),
        };
        Err(BadPollId::new("voter ID", text, rule))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VoterId {
    type Err = BadPollId;
    fn from_str(text: &str) -> Result<Self, BadPollId> {
        Self::new(text)
    }
}

impl TryFrom<String> for VoterId {
    type Error = BadPollId;
    fn try_from(text: String) -> Result<Self, BadPollId> {
        Self::new(&text)
    }
}

impl From<VoterId> for String {
    fn from(id: VoterId) -> String {
        id.0.into()
    }
}

/// A voter may be a person, so debug output and logs do not contain the id.
impl fmt::Debug for VoterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "voter of {} bytes", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Fixed(u8);
    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    proptest! {
        #[test]
        fn ids_survive_their_text(poll: u128, item: u64) {
            let (poll, item) = (PollId(poll), ItemId(item));
            prop_assert_eq!(poll.to_string().parse(), Ok(poll));
            prop_assert_eq!(item.to_string().parse(), Ok(item));
        }

        #[test]
        fn texts_sort_as_ids_do(one: u128, two: u128) {
            prop_assert_eq!(one.cmp(&two), PollId(one).to_string().cmp(&PollId(two).to_string()));
        }

        #[test]
        fn a_text_that_is_read_is_the_one_that_would_be_written(text in "(poll|item)-[0-9a-z]{13}([0-9a-z]{13})?") {
            if let Ok(id) = text.parse::<PollId>() {
                prop_assert_eq!(id.to_string(), text.clone());
            }
            if let Ok(id) = text.parse::<ItemId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn the_forms_are_pinned() {
        let now = Timestamp::from_unix_ms(1_794_821_400_123);
        let poll = PollId::random(now, &Fixed(0xab));
        assert_eq!(poll.to_string(), "poll-01m7hv29hvnentqaxbnentqaxb");
        assert_eq!(
            ItemId::from_position(poll, 3).to_string(),
            "item-04zpwarsde5gb"
        );
        assert_eq!(poll.hash(), 12_466_590_237_387_822_394);
    }

    #[test]
    fn invalid_ids_are_refused() {
        let too_high = format!("poll-8{}", "0".repeat(25));
        for bad in ["", "poll-", "poll-01", &too_high, "item-0000000000000"] {
            assert!(bad.parse::<PollId>().is_err(), "{bad}");
        }
        for bad in ["item-", "item-zzzzzzzzzzzzz", "item-000000000000u"] {
            assert!(bad.parse::<ItemId>().is_err(), "{bad}");
        }
        for bad in ["", "a\nb", &"x".repeat(129)] {
            assert!(VoterId::new(bad).is_err(), "{bad:?}");
        }
        assert!(VoterId::new("Zoë / 1").is_ok());
        assert!(!format!("{:?}", VoterId::new("zoe").unwrap()).contains("zoe"));
    }
}
