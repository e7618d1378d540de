//! Reading JSON objects, and only objects.
//!
//! Serde reads a struct from an array of its fields too, in their order. A
//! caller who sends `[null, 5]` where an object belongs has made a mistake,
//! and is told so instead of being half understood.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

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
    use crate::limits::Limits;

    #[derive(Debug, Deserialize)]
    struct Holder {
        #[serde(default, deserialize_with = "optional_object")]
        limits: Option<Limits>,
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
