//! Changes what the macros derive into shapes that generators of clients accept.
//!
//! ```text
//!   an optional parameter or body    may be absent, and is not null
//!   lines of JSON                    text, whose schema is the list of its lines
//!   all of (one of A, B) and C       one of (all of A, C), (all of B, C)
//!   schemas that nothing refers to   are removed
//! ```

use std::collections::{BTreeMap, HashSet};

use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::schema::{AllOf, OneOf, SchemaType};
use utoipa::openapi::{
    Array, Content, KnownFormat, ObjectBuilder, OpenApi, RefOr, Schema, SchemaFormat, Type,
};

/// The media type of one JSON object per line.
const JSON_LINES: &str = "application/x-ndjson";
/// Where references to schemas lead.
const SCHEMAS: &str = "#/components/schemas/";

/// Makes optional parameters and bodies ones that may be absent. Derived from an `Option`,
/// their schemas allow `null`, which no header can be and which is no body.
pub(super) fn describe_input(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(Parameter {
            schema: Some(schema),
            ..
        }) = parameter
        {
            remove_null(schema);
        }
    }
    let contents = body_contents(operation);
    for content in contents.into_iter().flat_map(BTreeMap::values_mut) {
        if let RefOr::T(Content {
            schema: Some(schema),
            ..
        }) = content
        {
            remove_null(schema);
        }
    }
}

/// What the body may be, by media type.
pub(super) fn body_contents(
    operation: &mut Operation,
) -> Option<&mut BTreeMap<String, RefOr<Content>>> {
    match operation.request_body.as_mut()? {
        RefOr::T(body) => Some(&mut body.content),
        RefOr::Ref(_) => None,
    }
}

fn remove_null(schema: &mut RefOr<Schema>) {
    let is_null = |schema: &RefOr<Schema>| {
        let RefOr::T(Schema::Object(object)) = schema else {
            return false;
        };
        object.schema_type == SchemaType::Type(Type::Null)
    };
    match schema {
        RefOr::T(Schema::Object(object)) => remove_null_type(&mut object.schema_type),
        RefOr::T(Schema::Array(array)) => remove_null_type(&mut array.schema_type),
        RefOr::T(Schema::OneOf(choice)) => {
            choice.items.retain(|item| !is_null(item));
            if let [only] = choice.items.as_slice() {
                *schema = only.clone();
            }
        }
        _ => {}
    }
}

fn remove_null_type(kind: &mut SchemaType) {
    if let SchemaType::Array(kinds) = kind {
        kinds.retain(|kind| *kind != Type::Null);
        if let [only] = kinds.as_slice() {
            *kind = SchemaType::Type(only.clone());
        }
    }
}

/// Describes lines of JSON as text. Otherwise a generated client would send or read one
/// object, which is only right for one line.
pub(super) fn describe_lines(operation: &mut Operation) {
    if let Some(content) = body_contents(operation).and_then(|body| body.get_mut(JSON_LINES)) {
        describe_as_text(content);
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response
            && let Some(content) = response.content.get_mut(JSON_LINES)
        {
            describe_as_text(content);
        }
    }
}

fn describe_as_text(content: &mut RefOr<Content>) {
    let RefOr::T(content) = content else { return };
    let lines = content.schema.take().map(Array::new);
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
        .description(Some("One JSON object per line, in UTF-8."))
        .content_media_type(JSON_LINES)
        .content_schema(lines);
    content.schema = Some(text.into());
}

/// Moves the choice out of schemas that are all of a choice and of fields.
pub(super) fn distribute_choices(document: &mut OpenApi) {
    let Some(components) = &mut document.components else {
        return;
    };
    let choices: BTreeMap<String, OneOf> = components
        .schemas
        .iter()
        .filter_map(|(name, schema)| match schema {
            RefOr::T(Schema::OneOf(choice)) => Some((format!("{SCHEMAS}{name}"), choice.clone())),
            _ => None,
        })
        .collect();
    for schema in components.schemas.values_mut() {
        if let RefOr::T(Schema::AllOf(all)) = schema
            && let Some(choice) = distribute(all, &choices)
        {
            *schema = Schema::OneOf(choice).into();
        }
    }
}

fn distribute(all: &AllOf, choices: &BTreeMap<String, OneOf>) -> Option<OneOf> {
    let choice_of = |part: &RefOr<Schema>| match part {
        RefOr::Ref(reference) => choices.get(&reference.ref_location),
        RefOr::T(_) => None,
    };
    let at = all
        .items
        .iter()
        .position(|part| choice_of(part).is_some())?;
    let choice = choice_of(&all.items[at])?;
    let variants = choice.items.iter().map(|variant| {
        let mut all = all.clone();
        all.items[at] = variant.clone();
        all.description = None;
        RefOr::T(Schema::AllOf(all))
    });
    let mut distributed = OneOf::new();
    distributed.items = variants.collect();
    distributed.description = all.description.clone();
    Some(distributed)
}

/// Removes schemas that nothing refers to: macros register the parts of generic types that
/// they then write out.
pub(super) fn remove_unused_schemas(document: &mut OpenApi) {
    loop {
        // A document that cannot be written is not served either.
        let Ok(text) = document.to_json() else { return };
        let references = text.split(SCHEMAS).skip(1);
        let used: HashSet<_> = references
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let Some(components) = &mut document.components else {
            return;
        };
        let before = components.schemas.len();
        components
            .schemas
            .retain(|name, _| used.contains(name.as_str()));
        if components.schemas.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use utoipa::openapi::path::ParameterBuilder;
    use utoipa::openapi::request_body::RequestBodyBuilder;
    use utoipa::openapi::{
        AllOfBuilder, ComponentsBuilder, Object, OneOfBuilder, OpenApiBuilder, Ref, ResponseBuilder,
    };

    fn with_body(kind: &str, schema: impl Into<RefOr<Schema>>) -> Operation {
        let body = RequestBodyBuilder::new().content(kind, Content::new(Some(schema)));
        let mut operation = Operation::new();
        operation.request_body = Some(body.build().into());
        operation
    }

    fn to_value(operation: &Operation) -> Value {
        serde_json::to_value(operation).unwrap()
    }

    #[test]
    fn what_is_optional_may_be_absent_but_not_null() {
        let types = SchemaType::from_iter([Type::String, Type::Null]);
        let text = ObjectBuilder::new().schema_type(types);
        let header = ParameterBuilder::new().name("h").schema(Some(text));
        let either = OneOfBuilder::new()
            .item(Object::with_type(Type::Null))
            .item(Ref::from_schema_name("Body"));
        let mut operation = with_body("application/json", either);
        operation.parameters = Some(vec![header.build().into()]);
        describe_input(&mut operation);
        let json = to_value(&operation);
        assert_eq!(json["parameters"][0]["schema"], json!({ "type": "string" }));
        let body = &json["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(*body, json!({ "$ref": "#/components/schemas/Body" }));
    }

    #[test]
    fn lines_are_text() {
        let line = Ref::from_schema_name("Line");
        let mut operation = with_body(JSON_LINES, line.clone());
        let own = ResponseBuilder::new().content(JSON_LINES, Content::new(Some(line)));
        let answers = &mut operation.responses.responses;
        answers.insert("200".to_owned(), own.build().into());
        describe_lines(&mut operation);
        let json = to_value(&operation);
        for part in [&json["requestBody"], &json["responses"]["200"]] {
            let schema = &part["content"][JSON_LINES]["schema"];
            assert_eq!(schema["type"], "string");
            assert_eq!(schema["format"], "binary");
            assert_eq!(schema["contentMediaType"], JSON_LINES);
            let line = &schema["contentSchema"]["items"]["$ref"];
            assert_eq!(*line, "#/components/schemas/Line");
        }
    }

    #[test]
    fn a_choice_with_fields_is_a_choice_of_objects_and_unused_schemas_go() {
        let choice = OneOfBuilder::new()
            .item(Object::with_type(Type::Integer))
            .item(Object::with_type(Type::Boolean));
        let both = AllOfBuilder::new()
            .item(Ref::from_schema_name("Choice"))
            .item(Object::with_type(Type::Object))
            .description(Some("Both"));
        let components = ComponentsBuilder::new()
            .schema("Choice", choice)
            .schema("Both", both)
            .schema("Used", Array::new(Ref::from_schema_name("Both")))
            .schema("User", Array::new(Ref::from_schema_name("Used")));
        let mut document = OpenApiBuilder::new()
            .components(Some(components.build()))
            .build();
        distribute_choices(&mut document);
        let json = serde_json::to_value(&document).unwrap();
        let both = &json["components"]["schemas"]["Both"];
        assert_eq!(both["description"], "Both");
        let kinds: Vec<_> = both["oneOf"].as_array().unwrap().iter().collect();
        let kinds = kinds.iter().map(|all| &all["allOf"][0]["type"]);
        assert_eq!(kinds.collect::<Vec<_>>(), ["integer", "boolean"]);
        assert_eq!(both["oneOf"][1]["allOf"][1]["type"], "object");
        // Each removal leaves another one unused: only what the paths use remains.
        remove_unused_schemas(&mut document);
        assert!(document.components.unwrap().schemas.is_empty());
    }
}
