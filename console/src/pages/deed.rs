//! What an operator does, or is about to do, to something that the path names.
//! Somebody who may not is refused before anything is looked at.

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use ballast_domain::token::Role;
use ballast_domain::{Error, ErrorCode, KeyId, Result, ShardId, TenantId};

use super::names::named;
use crate::act::{Act, Refused};
use crate::console::Console;
use crate::fields::Fields;
use crate::session::Visitor;

/// What a path names.
pub(super) trait Named: Sized + Send {
    fn read(names: &[String]) -> Result<Self>;
}

fn one<T: std::str::FromStr<Err: std::fmt::Display>>(names: &[String], place: usize) -> Result<T> {
    let name = names.get(place).map(String::as_str);
    named(name.unwrap_or_default())
}

impl Named for ShardId {
    fn read(names: &[String]) -> Result<Self> {
        one(names, 0)
    }
}

impl Named for TenantId {
    fn read(names: &[String]) -> Result<Self> {
        one(names, 0)
    }
}

impl Named for (TenantId, KeyId) {
    fn read(names: &[String]) -> Result<Self> {
        Ok((one(names, 0)?, one(names, 1)?))
    }
}

async fn read<T: Named>(parts: &mut Parts) -> Result<T> {
    let names = RawPathParams::from_request_parts(parts, &()).await;
    let names = names.map_err(|bad| Error::new(ErrorCode::NotFound, bad.to_string()))?;
    let names: Vec<String> = names.iter().map(|(_, name)| name.to_owned()).collect();
    T::read(&names)
}

/// A form that an operator sent about something.
pub(super) struct Deed<T> {
    pub(super) console: Console,
    pub(super) id: T,
    pub(super) act: Act,
}

impl<T: Named> FromRequest<Console> for Deed<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Refused> {
        let (mut parts, body) = request.into_parts();
        let id = read(&mut parts).await;
        let act = Act::from_request(Request::from_parts(parts, body), console).await?;
        act.visitor.at_least(Role::Operator)?;
        Ok(Self {
            console: console.clone(),
            id: id?,
            act,
        })
    }
}

/// What an operator asks about before it is done.
pub(super) struct Draft<T> {
    pub(super) console: Console,
    pub(super) visitor: Visitor,
    pub(super) id: T,
    pub(super) fields: Fields,
}

impl<T: Named> FromRequestParts<Console> for Draft<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Refused> {
        let visitor = Visitor::from_request_parts(parts, console)
            .await
            .map_err(Refused::Turned)?;
        visitor.at_least(Role::Operator)?;
        Ok(Self {
            console: console.clone(),
            visitor,
            id: read(parts).await?,
            fields: Fields::of_query(&parts.uri),
        })
    }
}
