//! The specification of a poll, and its validation.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::bounds::{
    EXPECTED_VOTERS_MAX, LANES_DEFAULT, LANES_MAX, POLL_COUNTERS_MAX, POLL_ITEMS_MAX,
    POLL_TEXT_CHARS_MAX,
};
use crate::clock::Timestamp;
use crate::error::{Error, Result};

/// The specification of a poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollSpec {
    /// Its display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its items, in this order.
    pub items: Vec<ItemSpec>,
    /// When it starts taking votes; at once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening_time: Option<Timestamp>,
    /// When it stops taking votes.
    pub expiration_time: Timestamp,
    /// How many voters are expected, if that is set: Ballast prepares for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_voters: Option<u64>,
    /// Its options.
    #[serde(flatten)]
    pub options: PollOptions,
}

/// An item of a poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ItemSpec {
    /// Its display name.
    #[schema(min_length = 1, max_length = 200)]
    pub item_name: String,
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
}

/// The options of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollOptions {
    /// Whether a vote may be changed or withdrawn until closing.
    pub vote_changeable: bool,
    /// How many items one voter may choose.
    pub choices_max: u16,
    /// Whether results are hidden until the poll has closed.
    pub results_hidden_until_closed: bool,
    /// How many lanes each item's counter is spread over.
    pub lanes: u16,
}

impl Default for PollOptions {
    fn default() -> Self {
        Self {
            vote_changeable: false,
            choices_max: 1,
            results_hidden_until_closed: false,
            lanes: LANES_DEFAULT,
        }
    }
}

impl PollOptions {
    /// Checks a number of lanes.
    pub fn check_lanes(lanes: u16) -> Result<()> {
        if (1..=LANES_MAX).contains(&lanes) {
            return Ok(());
        }
        let message = format!("it must be from 1 to {LANES_MAX}");
        Err(Error::invalid_field("/lanes", message))
    }
}

impl PollSpec {
    /// Checks whether the poll can be created at `now`.
    pub fn check(&self, now: Timestamp) -> Result<()> {
        self.check_texts()?;
        let options = &self.options;
        if self.expiration_time <= now {
            let message = format!("{} is not in the future", self.expiration_time);
            return Err(Error::invalid_field("/expirationTime", message));
        }
        if self
            .opening_time
            .is_some_and(|opens| opens >= self.expiration_time)
        {
            let message = "it must be before the expirationTime";
            return Err(Error::invalid_field("/openingTime", message));
        }
        if let Some(voters) = self.expected_voters
            && !(1..=EXPECTED_VOTERS_MAX).contains(&voters)
        {
            let message = format!("it must be from 1 to {EXPECTED_VOTERS_MAX}");
            return Err(Error::invalid_field("/expectedVoters", message));
        }
        if !(1..=self.items.len()).contains(&usize::from(options.choices_max)) {
            let message = format!(
                "it must be from 1 to the number of items, {}",
                self.items.len()
            );
            return Err(Error::invalid_field("/choicesMax", message));
        }
        PollOptions::check_lanes(options.lanes)?;
        self.check_counters(options.lanes)
    }

    /// Checks that the items and lanes do not need too many counters.
    pub fn check_counters(&self, lanes: u16) -> Result<()> {
        let most = POLL_COUNTERS_MAX / self.items.len().max(1);
        if usize::from(lanes) <= most {
            return Ok(());
        }
        let items = self.items.len();
        let message = format!("with {items} items it must be at most {most}");
        Err(Error::invalid_field("/lanes", message))
    }

    fn check_texts(&self) -> Result<()> {
        if !(1..=POLL_ITEMS_MAX).contains(&self.items.len()) {
            let message = format!(
                "there must be 1 to {POLL_ITEMS_MAX} items, not {}",
                self.items.len()
            );
            return Err(Error::invalid_field("/items", message));
        }
        if let Some(title) = &self.title {
            check_text("/title", title)?;
        }
        let mut names = HashSet::new();
        for (place, item) in self.items.iter().enumerate() {
            let pointer = format!("/items/{place}");
            check_text(&pointer, &item.item_name)?;
            if let Some(text) = &item.description {
                check_text(&format!("{pointer}/description"), text)?;
            }
            if !names.insert(item.item_name.as_str()) {
                let message = format!("there is another item called {:?}", item.item_name);
                return Err(Error::invalid_field(&pointer, message));
            }
        }
        Ok(())
    }
}

fn check_text(pointer: &str, text: &str) -> Result<()> {
    let message = if text.trim().is_empty() {
        "it is empty".to_owned()
    } else if text.chars().count() > POLL_TEXT_CHARS_MAX {
        format!("it is longer than {POLL_TEXT_CHARS_MAX} characters")
    } else if text.chars().any(char::is_control) {
        "it contains a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::invalid_field(pointer, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> PollSpec {
        let item = |name: &str| ItemSpec {
            item_name: name.to_owned(),
            description: None,
        };
        PollSpec {
            title: None,
            items: vec![item("one"), item("two")],
            opening_time: None,
            expiration_time: Timestamp::from_unix_ms(1_000),
            expected_voters: None,
            options: PollOptions::default(),
        }
    }

    #[test]
    fn errors_name_the_invalid_field() {
        let now = Timestamp::from_unix_ms(500);
        assert!(spec().check(now).is_ok());
        type Breakage = fn(&mut PollSpec);
        let cases: [(&str, Breakage); 12] = [
            ("/items", |spec| spec.items.clear()),
            ("/items/1", |spec| {
                spec.items[1].item_name = "one".to_owned()
            }),
            ("/items/0", |spec| spec.items[0].item_name = " ".to_owned()),
            ("/title", |spec| spec.title = Some("a\u{0}b".to_owned())),
            ("/expirationTime", |spec| {
                spec.expiration_time = Timestamp::from_unix_ms(500)
            }),
            ("/openingTime", |spec| {
                spec.opening_time = Some(spec.expiration_time)
            }),
            ("/expectedVoters", |spec| spec.expected_voters = Some(0)),
            ("/expectedVoters", |spec| {
                spec.expected_voters = Some(u64::MAX);
            }),
            ("/choicesMax", |spec| spec.options.choices_max = 3),
            ("/choicesMax", |spec| spec.options.choices_max = 0),
            ("/lanes", |spec| spec.options.lanes = 257),
            ("/lanes", |spec| {
                let many = (0..1_000).map(|n| ItemSpec {
                    item_name: n.to_string(),
                    description: None,
                });
                spec.items = many.collect();
                spec.options.lanes = 21;
            }),
        ];
        for (pointer, break_it) in cases {
            let mut spec = spec();
            break_it(&mut spec);
            let problem = spec.check(now).unwrap_err().problem();
            assert_eq!(problem.errors[0].pointer, pointer);
        }
    }
}
