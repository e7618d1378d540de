//! Extractors for forms and previews about a record named in the path. The operator
//! role is checked before anything is read.

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use ballast_domain::token::AdminRole;
use ballast_domain::{Error, ErrorCode, KeyId, Result, ShardId, TenantId};

use super::links::parse_path_id;
use crate::console::Console;
use crate::fields::Fields;
use crate::form_submission::{FormRejection, FormSubmission};
use crate::session::Visitor;

/// IDs that can be parsed from a path.
pub(super) trait FromPath: Sized + Send {
    fn read(names: &[String]) -> Result<Self>;
}

fn parse_segment<T: std::str::FromStr<Err: std::fmt::Display>>(
    names: &[String],
    place: usize,
) -> Result<T> {
    let name = names.get(place).map(String::as_str);
    parse_path_id(name.unwrap_or_default())
}

impl FromPath for ShardId {
    fn read(names: &[String]) -> Result<Self> {
        parse_segment(names, 0)
    }
}

impl FromPath for TenantId {
    fn read(names: &[String]) -> Result<Self> {
        parse_segment(names, 0)
    }
}

impl FromPath for (TenantId, KeyId) {
    fn read(names: &[String]) -> Result<Self> {
        Ok((parse_segment(names, 0)?, parse_segment(names, 1)?))
    }
}

async fn read_ids<T: FromPath>(parts: &mut Parts) -> Result<T> {
    let names = RawPathParams::from_request_parts(parts, &()).await;
    let names = names.map_err(|bad| Error::new(ErrorCode::NotFound, bad.to_string()))?;
    let names: Vec<String> = names.iter().map(|(_, name)| name.to_owned()).collect();
    T::read(&names)
}

/// A form submission about a record, by an operator.
pub(super) struct OperatorForm<T> {
    pub(super) console: Console,
    pub(super) id: T,
    pub(super) act: FormSubmission,
}

impl<T: FromPath> FromRequest<Console> for OperatorForm<T> {
    type Rejection = FormRejection;

    async fn from_request(request: Request, console: &Console) -> Result<Self, FormRejection> {
        let (mut parts, body) = request.into_parts();
        let id = read_ids(&mut parts).await;
        let act = FormSubmission::from_request(Request::from_parts(parts, body), console).await?;
        act.visitor.at_least(AdminRole::Operator)?;
        Ok(Self {
            console: console.clone(),
            id: id?,
            act,
        })
    }
}

/// A request for a preview of an action, by an operator.
pub(super) struct OperatorPreview<T> {
    pub(super) console: Console,
    pub(super) visitor: Visitor,
    pub(super) id: T,
    pub(super) fields: Fields,
}

impl<T: FromPath> FromRequestParts<Console> for OperatorPreview<T> {
    type Rejection = FormRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Console,
    ) -> Result<Self, FormRejection> {
        let visitor = Visitor::from_request_parts(parts, console)
            .await
            .map_err(FormRejection::AccessDenied)?;
        visitor.at_least(AdminRole::Operator)?;
        Ok(Self {
            console: console.clone(),
            visitor,
            id: read_ids(parts).await?,
            fields: Fields::from_query(&parts.uri),
        })
    }
}
