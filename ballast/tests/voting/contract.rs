//! Journey: the API's contract — the OpenAPI document, its page, the fields of every resource, and
//! a page for every error code.

use std::collections::HashSet;

use crate::support::{Instance, text};
use ballast_domain::ErrorCode;
use serde_json::{Value, json};

#[tokio::test]
async fn the_openapi_document_is_unchanged() {
    let it = Instance::start().await;
    let answer = it.anonymous("GET", "/openapi.json").send().await;
    assert_eq!(answer.header("content-type"), "application/json");
    insta::assert_snapshot!("operations", operations(&answer.expect(200)));
}

#[tokio::test]
async fn the_openapi_document_for_tenants_is_unchanged() {
    let it = Instance::start().await;
    let answer = it.route("GET", "/openapi.json").send().await;
    assert_eq!(answer.header("content-type"), "application/json");
    insta::assert_snapshot!("tenants_operations", operations(&answer.expect(200)));
}

/// A line for each operation: its path, id and possible statuses.
fn operations(document: &Value) -> String {
    assert!(text(&document["openapi"]).starts_with("3.1."));
    assert!(!text(&document["servers"][0]["url"]).is_empty());
    let mut lines = Vec::new();
    let mut ids = HashSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let label = format!("{method} {path}");
            assert!(!text(&operation["summary"]).is_empty(), "{label}");
            let id = text(&operation["operationId"]);
            assert!(
                is_verb_and_noun(&id),
                "{label}: {id:?} is not verb and noun"
            );
            assert!(ids.insert(id.clone()), "{label}: {id} names two operations");
            assert_input_is_not_null(operation, &label);
            let answers = operation["responses"].as_object().unwrap();
            for (status, response) in answers {
                assert_described(response, status, &label);
            }
            let mut statuses: Vec<_> = answers.keys().map(String::as_str).collect();
            statuses.sort_unstable();
            lines.push(format!("{method:6} {path} {id}: {}", statuses.join(" ")));
        }
    }
    lines.sort_by_key(|line| line.split_once(' ').unwrap().1.trim().to_owned());
    lines.join("\n")
}

/// The first words of operation ids.
const VERBS: &str = "add approve cancel cast close complete create deploy discard drain explain \
    export get identify import list merge move pause pin preview reject remove resume reverse \
    revoke rotate send signal split start suspend unpin update watch widen withdraw";

/// Whether an operation id is a verb followed by a noun, in camel case.
fn is_verb_and_noun(id: &str) -> bool {
    let verb = id.split(|next: char| next.is_ascii_uppercase()).next();
    let verb = verb.unwrap_or_default();
    VERBS.split(' ').any(|known| known == verb)
        && id.len() > verb.len()
        && id.chars().all(|next| next.is_ascii_alphabetic())
}

/// Checks that an operation's parameters and body cannot be `null`: a header has no null, and the
/// server rejects a body that is one. What is optional may be absent instead.
fn assert_input_is_not_null(operation: &Value, label: &str) {
    let mut schemas = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        schemas.push(&parameter["schema"]);
    }
    let contents = operation["requestBody"]["content"].as_object();
    for content in contents.into_iter().flat_map(|map| map.values()) {
        schemas.push(&content["schema"]);
    }
    for schema in schemas {
        assert!(
            !schema.to_string().contains("\"null\""),
            "{label}: {schema}"
        );
    }
}

/// Checks that a response has a description, that an error is a problem document, and that the
/// lines of NDJSON are not described as one object.
fn assert_described(response: &Value, status: &str, label: &str) {
    assert!(!response["description"].is_null(), "{label} {status}");
    assert!(
        !text(&response["description"]).is_empty(),
        "{label} {status}"
    );
    let content = response["content"].as_object();
    if status >= "400" {
        let kinds: Vec<_> = content.unwrap().keys().collect();
        assert_eq!(kinds, ["application/problem+json"], "{label} {status}");
    }
    if let Some(lines) = content.and_then(|content| content.get("application/x-ndjson")) {
        assert_eq!(lines["schema"]["type"], "string", "{label} {status}");
        let line = &lines["schema"]["contentSchema"]["items"];
        assert!(line.is_object(), "{label} {status}");
    }
}

#[tokio::test]
async fn streams_are_described_by_what_their_lines_and_events_are() {
    let it = Instance::start().await;
    let document = it.route("GET", "/openapi.json").send().await.expect(200);
    let live = &document["paths"]["/polls/{poll}/votes/live"]["get"]["responses"]["200"];
    assert_eq!(
        live["content"]["text/event-stream"]["schema"]["type"],
        "string"
    );
    let votes = &document["paths"]["/votes"]["post"];
    let lines = &votes["requestBody"]["content"]["application/x-ndjson"];
    let line_of = |content: &Value| text(&content["schema"]["contentSchema"]["items"]["$ref"]);
    assert_eq!(line_of(lines), "#/components/schemas/VoteLine");
    let outcomes = &votes["responses"]["200"]["content"]["application/x-ndjson"];
    assert_eq!(line_of(outcomes), "#/components/schemas/Outcome");
    assert!(
        votes["responses"]["415"].is_null(),
        "its body need not be JSON"
    );
}

#[tokio::test]
async fn identifiers_are_spelled_with_a_capital_id() {
    let it = Instance::start().await;
    let mut names = Vec::new();
    let tenants = it.route("GET", "/openapi.json").send().await;
    for document in [it.get("/openapi.json").await, tenants.expect(200)] {
        property_names(&document["components"]["schemas"], &mut names);
        parameter_names(&document["paths"], &mut names);
    }
    for known in ["tenantID", "pollID", "itemID", "voterID"] {
        assert!(names.iter().any(|name| name == known), "{known}");
    }
    // Headers are lower case with dashes.
    for name in names.iter().filter(|name| !name.contains('-')) {
        let is_word = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_lowercase());
        let wrong = name.split("Id").skip(1).any(is_word);
        assert!(!wrong && !name.contains('_'), "{name}");
        let first = name.chars().next().unwrap();
        assert!(first.is_ascii_lowercase(), "{name}");
    }
}

fn property_names(value: &Value, names: &mut Vec<String>) {
    if let Some(properties) = value["properties"].as_object() {
        names.extend(properties.keys().cloned());
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|one| property_names(one, names)),
        Value::Array(items) => items.iter().for_each(|one| property_names(one, names)),
        _ => {}
    }
}

fn parameter_names(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let (Some(name), Some(_)) = (value["name"].as_str(), value["in"].as_str()) {
                names.push(name.to_owned());
            }
            fields.values().for_each(|one| parameter_names(one, names));
        }
        Value::Array(items) => items.iter().for_each(|one| parameter_names(one, names)),
        _ => {}
    }
}

#[tokio::test]
async fn every_readable_resource_has_its_fields() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    it.tenant("beta").await;
    let (key_id, secret) = it.key("acme").await;
    let key = format!("/keys/{key_id}");
    let walk: [(&str, &[&str]); 11] = [
        ("/tenants", &["items", "nextCursor"]),
        (
            "/tenants/acme",
            &[
                "tenantID",
                "status",
                "homeRegion",
                "residency",
                "slices",
                "version",
            ],
        ),
        (
            "/tenants/acme/placement",
            &["tenantID", "shardID", "preferredShardID", "slices", "pin"],
        ),
        (
            "/tenants/acme/placement/explain",
            &[
                "tenantID",
                "shardID",
                "margin",
                "shards",
                "wouldMove",
                "because",
            ],
        ),
        (
            "/placement/drift",
            &["items", "nextCursor", "slicesTotal", "movesTotal", "shards"],
        ),
        ("/shards", &["items", "nextCursor"]),
        (
            "/shards/shard-1",
            &[
                "shardID",
                "region",
                "weight",
                "state",
                "slices",
                "maxSlices",
            ],
        ),
        ("/keys", &["items", "nextCursor"]),
        (
            &key,
            &["keyID", "tenantID", "scopes", "status", "hint", "createdAt"],
        ),
        ("/events", &["items", "nextCursor"]),
        ("/whoami", &["tokenID", "name", "role"]),
    ];
    for (path, fields) in walk {
        let answer = it.call("GET", path).send().await;
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
        assert!(!answer.text.contains(&secret[12..40]), "{path}");
        let body = answer.clone().expect(200);
        for field in fields {
            assert!(body.get(field).is_some(), "{path}: no {field} in {body}");
        }
        if let Some(version) = body["version"].as_u64() {
            assert_eq!(answer.header("etag"), format!("\"{version}\""), "{path}");
        }
    }
}

#[tokio::test]
async fn lists_are_paged_to_the_end() {
    let it = Instance::start().await;
    for number in 0..7 {
        it.tenant(&format!("t-{number}")).await;
    }
    for (path, count) in [
        ("/tenants", 7),
        ("/shards", 4),
        ("/tokens", 1),
        ("/events", 12),
    ] {
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = it.get(&format!("{path}?limit=3{cursor}")).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 3);
            seen.extend(items.iter().map(ToString::to_string));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let total = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((seen.len(), total), (count, count), "{path}");
    }
}

#[tokio::test]
async fn a_change_made_to_an_old_version_is_refused() {
    let it = Instance::start().await;
    let first = it
        .call("POST", "/tenants")
        .json(&json!({ "tenantID": "acme" }));
    let tag = first.send().await.header("etag").to_owned();
    let rename = |name: &str, tag: &str| {
        it.call("PATCH", "/tenants/acme")
            .header("if-match", tag)
            .json(&json!({ "name": name }))
            .send()
    };
    let second = rename("Acme", &tag).await;
    assert_eq!(second.status, 200);
    assert_ne!(second.header("etag"), tag);
    rename("Other", &tag)
        .await
        .expect_error(412, "changed-meanwhile");
    assert_eq!(rename("Acme 2", second.header("etag")).await.status, 200);
    assert_eq!(it.get("/tenants/acme").await["name"], "Acme 2");
}

#[tokio::test]
async fn the_api_page_loads_nothing_from_other_sites() {
    let it = Instance::start().await;
    assert_self_contained(&it.admin, "/admin/v1/openapi.json").await;
    assert_self_contained(&it.router, "\"/openapi.json\"").await;
}

/// Checks that the page below `base` loads all its files from there, and shows `document`.
async fn assert_self_contained(base: &str, document: &str) {
    let http = crate::support::client(None);
    let get =
        |path: &str| crate::support::Call::new(&http, "GET", &format!("{base}/docs/{path}")).send();
    let page = get("").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html"));
    let mut files = Vec::new();
    for tag in page
        .text
        .split('<')
        .filter(|tag| tag.starts_with("script") || tag.starts_with("link"))
    {
        for attribute in ["src=\"", "href=\""] {
            if let Some((_, rest)) = tag.split_once(attribute) {
                files.push(rest.split('"').next().unwrap().to_owned());
            }
        }
    }
    assert!(files.len() >= 3, "{}", page.text);
    for file in files {
        assert!(!file.contains("//"), "{file} comes from elsewhere");
        assert_eq!(get(&file).await.status, 200, "{file}");
    }
    let start = get("swagger-initializer.js").await;
    assert!(start.text.contains(document), "{}", start.text);
}

#[tokio::test]
async fn every_error_code_has_a_page() {
    let it = Instance::start().await;
    for code in ErrorCode::ALL {
        let page = it
            .route("GET", &format!("/problems/{}", code.name()))
            .send()
            .await;
        assert_eq!(page.status, 200, "{}", code.name());
        assert!(page.header("content-type").starts_with("text/html"));
        for part in [code.name(), code.title(), code.next_step()] {
            assert!(
                page.text.contains(part),
                "{}: {part:?} is missing",
                code.name()
            );
        }
    }
    let unknown = it.route("GET", "/problems/nonsense").send().await;
    unknown.expect_error(404, "not-found");
}
