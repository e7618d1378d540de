//! The JSON of polls in requests and responses.

use std::fmt;

use ballast_domain::poll::{ItemSpec, Poll, PollOptions, PollPhase, PollSpec};
use ballast_domain::{ItemId, PollId, Timestamp};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The poll to create.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "items": ["Tabs", "Spaces"], "expirationTime": "2027-01-01T00:00:00Z", "title": "Indentation"
}))]
pub(crate) struct NewPoll {
    /// The items, in this order: names, or objects with a name and a description.
    #[schema(min_items = 1, max_items = 1000)]
    items: Vec<NewItem>,
    /// When it stops taking votes.
    expiration_time: Timestamp,
    /// Its display name.
    #[schema(min_length = 1, max_length = 200)]
    title: Option<String>,
    /// When it starts taking votes; at once if absent.
    opening_time: Option<Timestamp>,
    /// Whether a vote may be changed or withdrawn until closing; no if absent.
    vote_changeable: Option<bool>,
    /// How many items one voter may choose; 1 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    choices_max: Option<u16>,
    /// Whether results are hidden until the poll has closed; no if absent.
    results_hidden_until_closed: Option<bool>,
    /// How many lanes each item's counter is spread over; 10 if absent.
    #[schema(minimum = 1, maximum = 256)]
    lanes: Option<u16>,
    /// How many voters are expected. If there are many, the counters get more lanes
    /// before the poll opens, and the tenant is not moved during the rush.
    #[schema(minimum = 1, maximum = 100_000_000_000_u64)]
    expected_voters: Option<u64>,
}

/// An item: its name, or an object with its name.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum NewItem {
    /// Its name.
    Name(String),
    /// Its name and description.
    Described(ItemSpec),
}

/// Implemented by hand, so that error messages use the words of this API.
impl<'de> Deserialize<'de> for NewItem {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = NewItem;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or an object with an itemName")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<NewItem, E> {
                Ok(NewItem::Name(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NewItem, A::Error> {
                ItemSpec::deserialize(MapAccessDeserializer::new(map)).map(NewItem::Described)
            }
        }
        source.deserialize_any(ItemVisitor)
    }
}

impl NewPoll {
    /// The poll's specification with defaults filled in, not validated yet.
    pub(super) fn spec(self) -> PollSpec {
        let default = PollOptions::default();
        let items = self.items.into_iter().map(|item| match item {
            NewItem::Name(item_name) => ItemSpec {
                item_name,
                description: None,
            },
            NewItem::Described(item) => item,
        });
        PollSpec {
            title: self.title,
            items: items.collect(),
            opening_time: self.opening_time,
            expiration_time: self.expiration_time,
            expected_voters: self.expected_voters,
            options: PollOptions {
                vote_changeable: self.vote_changeable.unwrap_or(default.vote_changeable),
                choices_max: self.choices_max.unwrap_or(default.choices_max),
                results_hidden_until_closed: self
                    .results_hidden_until_closed
                    .unwrap_or(default.results_hidden_until_closed),
                lanes: self.lanes.unwrap_or(default.lanes),
            },
        }
    }
}

/// A poll.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PollView {
    /// Its id.
    #[serde(rename = "pollID")]
    pub(super) poll_id: PollId,
    /// Its items.
    items: Vec<ItemView>,
    /// When it stops taking votes.
    expiration_time: Timestamp,
    /// Its display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// When it starts taking votes.
    #[serde(skip_serializing_if = "Option::is_none")]
    opening_time: Option<Timestamp>,
    /// Whether a vote may be changed or withdrawn until closing.
    vote_changeable: bool,
    /// How many items one voter may choose.
    choices_max: u16,
    /// Whether results are hidden until the poll has closed.
    results_hidden_until_closed: bool,
    /// How many lanes each item's counter is spread over.
    lanes: u16,
    /// How many voters are expected, if that was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_voters: Option<u64>,
    /// Whether it takes votes now.
    state: PollPhase,
    /// When it was created.
    created_at: Timestamp,
    /// When it closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_at: Option<Timestamp>,
}

/// An item of a poll.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemView {
    /// Its id.
    #[serde(rename = "itemID")]
    item_id: ItemId,
    /// Its display name.
    item_name: String,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

impl PollView {
    /// Describes a poll as of `now`.
    pub(super) fn from_poll(poll: Poll, now: Timestamp) -> Self {
        let state = poll.phase(now);
        let ids: Vec<_> = poll.item_ids().collect();
        let PollSpec {
            title,
            items,
            opening_time,
            expiration_time,
            expected_voters,
            options,
        } = poll.spec;
        let items = ids.into_iter().zip(items).map(|(item_id, item)| ItemView {
            item_id,
            item_name: item.item_name,
            description: item.description,
        });
        Self {
            poll_id: poll.poll_id,
            items: items.collect(),
            expiration_time,
            title,
            opening_time,
            vote_changeable: options.vote_changeable,
            choices_max: options.choices_max,
            results_hidden_until_closed: options.results_hidden_until_closed,
            lanes: options.lanes,
            expected_voters,
            state,
            created_at: poll.created_at,
            closed_at: poll.closed_at,
        }
    }
}

/// A change of a poll.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "lanes": 32 }))]
pub(crate) struct PollPatch {
    /// The new number of lanes of each item's counter. It cannot be reduced.
    #[schema(minimum = 1, maximum = 256)]
    pub(super) lanes: u16,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::ErrorCode;
    use ballast_domain::object::from_json;

    fn pointer(text: &str) -> (ErrorCode, String) {
        let error = from_json::<NewPoll>(text.as_bytes()).unwrap_err();
        let errors = error.problem().errors;
        let pointer = errors.first().map(|found| found.pointer.clone());
        (error.code(), pointer.unwrap_or_default())
    }

    #[test]
    fn items_are_names_or_objects() {
        let text = r#"{"items":["a",{"itemName":"b","description":"c"}],
            "expirationTime":"9999-12-31T23:59:59Z"}"#;
        let spec = from_json::<NewPoll>(text.as_bytes()).unwrap().spec();
        assert_eq!(spec.items[0].item_name, "a");
        assert_eq!(spec.items[1].description.as_deref(), Some("c"));
        assert_eq!(spec.options, PollOptions::default());
    }

    #[test]
    fn errors_name_the_invalid_field() {
        let end = r#""expirationTime":"2030-01-01T00:00:00Z""#;
        let invalid = |text: &str, place: &str| {
            let expected = (ErrorCode::InvalidField, place.to_owned());
            assert_eq!(pointer(text), expected, "{text}");
        };
        invalid(&format!(r#"{{"items":["a",5],{end}}}"#), "/items/1");
        invalid(&format!(r#"{{"items":[["a",null]],{end}}}"#), "/items/0");
        invalid(
            &format!(r#"{{"items":[{{"itemName":7}}],{end}}}"#),
            "/items/0/itemName",
        );
        invalid(
            &format!(r#"{{"items":["a"],{end},"choicesMax":"2"}}"#),
            "/choicesMax",
        );
        invalid(
            r#"{"items":["a"],"expirationTime":"soon"}"#,
            "/expirationTime",
        );
        invalid(&format!(r#"{{"items":["a"],{end},"x":1}}"#), "/x");
        invalid("[]", "");
        assert_eq!(pointer("{").0, ErrorCode::MalformedRequest);
    }
}
