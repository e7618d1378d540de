//! The OpenAPI document of an API: adds what all operations have in common, and serves the
//! document and its page.

mod shapes;

use axum::routing::get;
use axum::{Json, Router};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::response::Response;
use utoipa::openapi::security::SecurityScheme;
use utoipa::openapi::{Content, Object, OpenApi, PathItem, Ref, RefOr, ResponseBuilder, Type};
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::problem::wrong_method;

/// An HTTP status and its description.
pub type StatusMeaning = (&'static str, &'static str);

/// The errors of all operations.
const ALWAYS: &[StatusMeaning] = &[
    ("400", "The request cannot be read"),
    (
        "422",
        "A value in the request is not valid; `errors` says which",
    ),
    ("500", "An internal error"),
    (
        "503",
        "Temporarily unavailable; try again after `Retry-After`",
    ),
];
/// The errors of operations that name a record.
const NAMING: &[StatusMeaning] = &[("404", "The record does not exist")];
/// The errors of operations that change something.
const CHANGING: &[StatusMeaning] = &[
    ("409", "It contradicts the current state"),
    ("412", "It has changed since you read it"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
];

/// What tells of trying again, and the errors that come with it.
const RETRY_AFTER: &str = "Retry-After";
const RETRIABLE: &[&str] = &["429", "503"];

const JSON: &str = "application/json";

/// The parts of the document that are specific to an API.
pub struct ApiDescription {
    /// The authentication scheme and its name.
    pub security: (&'static str, SecurityScheme),
    /// The errors of all its operations, in addition to those of all APIs.
    pub refusals: &'static [StatusMeaning],
    /// Whether an operation names a record that may not exist.
    pub names_something: fn(&Operation) -> bool,
}

/// Adds the authentication scheme, and the errors of each kind of operation, in shapes that
/// generators of clients accept.
pub fn complete_document(mut document: OpenApi, edge: ApiDescription) -> OpenApi {
    let (name, scheme) = edge.security;
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(name, scheme);
    for item in document.paths.paths.values_mut() {
        for (operation, changes) in operations(item) {
            shapes::describe_input(operation);
            shapes::describe_lines(operation);
            let naming = (edge.names_something)(operation).then_some(NAMING);
            let changing = changes.then_some(CHANGING);
            let lists = [Some(ALWAYS), Some(edge.refusals), naming, changing];
            let any_body = accepts_any_body(operation);
            for (status, meaning) in lists.into_iter().flatten().flatten() {
                if *status == "415" && any_body {
                    continue;
                }
                let answers = &mut operation.responses.responses;
                let response = answers.entry((*status).to_owned());
                response.or_insert_with(|| problem(status, meaning).into());
            }
        }
    }
    shapes::distribute_choices(&mut document);
    shapes::remove_unused_schemas(&mut document);
    document
}

/// The operations of a path, and whether each changes something.
fn operations(item: &mut PathItem) -> Vec<(&mut Operation, bool)> {
    let PathItem {
        get,
        put,
        post,
        delete,
        patch,
        ..
    } = item;
    let looks = get.iter_mut().map(|operation| (operation, false));
    let changes = [put, post, delete, patch]
        .into_iter()
        .flatten()
        .map(|operation| (operation, true));
    looks.chain(changes).collect()
}

fn problem(status: &str, meaning: &str) -> Response {
    let problem = Content::new(Some(Ref::from_schema_name("Problem")));
    let response = ResponseBuilder::new()
        .description(meaning)
        .content("application/problem+json", problem);
    if !RETRIABLE.contains(&status) {
        return response.build();
    }
    let seconds = HeaderBuilder::new()
        .schema(Some(Object::with_type(Type::Integer)))
        .description(Some("After how many seconds to try again."))
        .build();
    response.header(RETRY_AFTER, seconds).build()
}

/// Whether an operation has a body that is not JSON, and whose type is not checked.
fn accepts_any_body(operation: &mut Operation) -> bool {
    shapes::body_contents(operation).is_some_and(|body| !body.contains_key(JSON))
}

/// Whether an operation has a parameter that meets a condition.
pub fn has_parameter(operation: &Operation, such: impl Fn(&Parameter) -> bool) -> bool {
    let mut parameters = operation.parameters.iter().flatten();
    parameters.any(|parameter| match parameter {
        RefOr::T(it) => such(it),
        RefOr::Ref(_) => false,
    })
}

/// Serves the document at `openapi.json` and its page at `docs/`, below a prefix. The page loads
/// nothing from the network.
pub fn document_routes<S: Clone + Send + Sync + 'static>(
    prefix: &str,
    document: OpenApi,
) -> Router<S> {
    let url = format!("{prefix}/openapi.json");
    let page = SwaggerUi::new(format!("{prefix}/docs")).config(
        Config::from(url.clone())
            .try_it_out_enabled(true)
            .validator_url("none"),
    );
    Router::new()
        .route(&url, get(async || Json(document)))
        .merge(page)
        .method_not_allowed_fallback(wrong_method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use tower::ServiceExt as _;
    use utoipa::openapi::path::{HttpMethod, ParameterBuilder, ParameterIn};
    use utoipa::openapi::request_body::RequestBodyBuilder;
    use utoipa::openapi::security::{Http, HttpAuthScheme};
    use utoipa::openapi::{OpenApiBuilder, PathsBuilder};

    fn edge() -> ApiDescription {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        ApiDescription {
            security: ("token", bearer),
            refusals: &[("401", "Who are you?")],
            names_something: |operation| {
                has_parameter(operation, |it| it.parameter_in == ParameterIn::Path)
            },
        }
    }

    fn document(method: HttpMethod, operation: Operation) -> OpenApi {
        let item = PathItem::new(method, operation);
        let paths = PathsBuilder::new().path("/x", item).build();
        OpenApiBuilder::new().paths(paths).build()
    }

    fn statuses(document: &mut OpenApi) -> String {
        let item = document.paths.paths.get_mut("/x").unwrap();
        let (operation, _) = operations(item).remove(0);
        let statuses: Vec<_> = operation.responses.responses.keys().cloned().collect();
        statuses.join(" ")
    }

    #[test]
    fn operations_list_their_errors() {
        let errors = |method, operation| {
            let mut document = complete_document(document(method, operation), edge());
            statuses(&mut document)
        };
        let named = || {
            let id = ParameterBuilder::new()
                .name("id")
                .parameter_in(ParameterIn::Path);
            let mut operation = Operation::new();
            operation.parameters = Some(vec![id.build().into()]);
            operation
        };
        let looks = errors(HttpMethod::Get, Operation::new());
        assert_eq!(looks, "400 401 422 500 503");
        assert_eq!(errors(HttpMethod::Get, named()), "400 401 404 422 500 503");
        assert_eq!(
            errors(HttpMethod::Put, named()),
            "400 401 404 409 412 413 415 422 500 503"
        );
    }

    #[test]
    fn a_body_that_is_not_json_needs_no_content_type() {
        let body = RequestBodyBuilder::new().content("text/plain", Content::default());
        let mut operation = Operation::new();
        operation.request_body = Some(body.build().into());
        let mut document = complete_document(document(HttpMethod::Post, operation), edge());
        assert_eq!(statuses(&mut document), "400 401 409 412 413 422 500 503");
    }

    #[test]
    fn what_may_be_tried_again_says_when() {
        let document = complete_document(document(HttpMethod::Get, Operation::new()), edge());
        let json = document.to_json().unwrap();
        assert_eq!(json.matches(RETRY_AFTER).count(), 2, "{json}");
    }

    #[test]
    fn an_operations_own_responses_stay() {
        let mut operation = Operation::new();
        let own = ResponseBuilder::new().description("own").build();
        let answers = &mut operation.responses.responses;
        answers.insert("503".to_owned(), own.into());
        let document = complete_document(document(HttpMethod::Get, operation), edge());
        let json = document.to_json().unwrap();
        assert!(json.contains(r#""503":{"description":"own"}"#), "{json}");
    }

    #[tokio::test]
    async fn the_document_and_its_page_are_below_the_prefix() {
        let document = document(HttpMethod::Get, Operation::new());
        let pages = document_routes::<()>("/below", document);
        let ask = async |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path);
            let request = request.body(Body::empty()).unwrap();
            pages.clone().oneshot(request).await.unwrap().status()
        };
        assert_eq!(ask("GET", "/below/openapi.json").await, StatusCode::OK);
        assert_eq!(ask("GET", "/below/docs/").await, StatusCode::OK);
        assert_eq!(
            ask("POST", "/below/openapi.json").await,
            StatusCode::METHOD_NOT_ALLOWED
        );
    }
}
