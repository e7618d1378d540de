//! Reading JSON objects, and only objects.
//!
//! Serde reads a struct from an array of its fields too, in their order. A
//! caller who sends `[null, 5]` where an object belongs has made a mistake,
//! and is told so instead of being half understood. [`from_json`] reads the
//! body of a request so, and says where in it something is wrong.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::{Error, ErrorCode, Result as Shown, suggest_nearest};

/// Reads a `T` from the text of one JSON object. What cannot be read is told
/// as a malformed request, what cannot be as an invalid field with its place.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Shown<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    if let Ok(read) = object(&mut json)
        && json.end().is_ok()
    {
        return Ok(read);
    }
    explained(bytes)
}

/// Reads it again, and keeps track of where: that costs as much as reading.
fn explained<T: DeserializeOwned>(bytes: &[u8]) -> Shown<T> {
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
        Error::invalid_field(&pointer, add_suggestion(&without_place(&inner.to_string())))
    })?;
    json.end().map_err(|bad| {
        Error::new(
            ErrorCode::MalformedRequest,
            format!("the body goes on after its end: {bad}"),
        )
    })?;
    Ok(read)
}

/// serde_json adds where in the text it was; the pointer says it better.
fn without_place(message: &str) -> String {
    message
        .split(" at line ")
        .next()
        .unwrap_or(message)
        .to_owned()
}

/// Adds the nearest valid name to serde's word on an unknown field.
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

/// Reads a `T` from an object, or nothing from `null`.
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
    fn an_array_is_no_object() {
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
