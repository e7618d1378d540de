//! Reads JSON objects, and only objects.
//!
//! Serde also reads a struct from an array of its fields. A caller that sends `[null, 5]`
//! instead of an object has made a mistake, and gets an error. [`from_json`] reads the body
//! of a request like this, and reports where in it an error is.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::{Error, ErrorCode, Result as Shown, suggest_nearest};

/// Reads a `T` from the text of one JSON object. Text that is not JSON is a malformed
/// request; an invalid value is an invalid field with its JSON pointer.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Shown<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    if let Ok(read) = object(&mut json)
        && json.end().is_ok()
    {
        return Ok(read);
    }
    parse_with_path(bytes)
}

/// Reads the text again and tracks the path, to report where the error is. Tracking is too
/// expensive for the first read.
fn parse_with_path<T: DeserializeOwned>(bytes: &[u8]) -> Shown<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let read = object(tracked).map_err(|inner| {
        let path = track.path().to_string();
        if inner.is_syntax() || inner.is_eof() {
            return Error::new(
                ErrorCode::MalformedRequest,
                format!("the body is not JSON: {inner}"),
            );
        }
        let pointer = match path.as_str() {
            "." => String::new(),
            path => format!(
                "/{}",
                path.replace(['.', '['], "/")
                    .replace(']', "")
                    .replace("//", "/")
            ),
        };
        Error::invalid_field(
            &pointer,
            add_suggestion(&strip_position(&inner.to_string())),
        )
    })?;
    json.end().map_err(|bad| {
        Error::new(
            ErrorCode::MalformedRequest,
            format!("the body has text after its JSON object: {bad}"),
        )
    })?;
    Ok(read)
}

/// Removes the position that serde_json adds; the pointer is more useful.
fn strip_position(message: &str) -> String {
    message
        .split(" at line ")
        .next()
        .unwrap_or(message)
        .to_owned()
}

/// Adds the nearest valid name to serde's message about an unknown field.
pub fn add_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next() {
        Some(unknown)
            if message.contains("unknown field") || message.contains("unknown variant") =>
        {
            format!("{message}{}", suggest_nearest(unknown, quoted))
        }
        _ => message.to_owned(),
    }
}

/// Reads a `T` from an object: for `#[serde(deserialize_with = "object")]`.
pub fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(source: D) -> Result<T, D::Error> {
    source.deserialize_map(ObjectVisitor(PhantomData))
}

/// Reads a `T` from an object, or `None` from `null`.
pub fn optional_object<'de, T, D>(source: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    source.deserialize_option(OptionalVisitor(PhantomData))
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

struct OptionalVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OptionalVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_none<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<Option<T>, D::Error> {
        object(source).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TenantLimits;

    #[derive(Debug, Deserialize)]
    struct Holder {
        #[serde(default, deserialize_with = "optional_object")]
        limits: Option<TenantLimits>,
    }

    #[test]
    fn an_array_is_refused() {
        let read = |text| serde_json::from_str::<Holder>(text).map(|holder| holder.limits);
        assert!(
            read(r#"{"limits":{"votesPerSecond":5}}"#)
                .unwrap()
                .is_some()
        );
        assert!(read(r#"{"limits":null}"#).unwrap().is_none());
        assert!(read("{}").unwrap().is_none());
        let error = read(r#"{"limits":[5,null,null]}"#).unwrap_err().to_string();
        assert!(error.contains("expected an object"), "{error}");
    }
}
