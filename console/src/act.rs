//! Something that an operator does: a form of ours, sent by somebody who may.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use ballast_control_plane::change::IfMatch;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::validate;
use ballast_domain::bounds::REASON_CHARS_MAX;
use ballast_domain::{Error, ErrorCode, Result};

use crate::console::Console;
use crate::fields::Fields;
use crate::page::error::Broken;
use crate::session::{Turned, Visitor, is_from_elsewhere};

/// A form that was sent by its own page in its own session.
pub(crate) struct Act {
    pub(crate) visitor: Visitor,
    pub(crate) fields: Fields,
}

/// Why a form was not taken.
pub(crate) enum Refused {
    Turned(Turned),
    Broken(Broken),
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Turned(turned) => turned.into_response(),
            Self::Broken(broken) => broken.into_response(),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Broken(error.into())
    }
}

impl Act {
    /// Who wants it, and why.
    pub(crate) fn intent(&self) -> Result<Intent> {
        let reason = self.fields.filled("reason").map(str::to_owned);
        if let Some(reason) = &reason {
            validate::text("/reason", reason, REASON_CHARS_MAX)?;
        }
        Ok(self.visitor.intent(reason))
    }

    /// The version that the page showed: what has changed since is not
    /// changed by somebody who has not seen it.
    pub(crate) fn if_match(&self) -> Result<IfMatch> {
        Ok(match self.fields.optional::<u64>("version")? {
            Some(version) => IfMatch::Versions(vec![version]),
            None => IfMatch::Any,
        })
    }
}

impl FromRequest<Console> for Act {
    type Rejection = Refused;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Refused> {
        use axum::extract::FromRequestParts;
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, console)
            .await
            .map_err(Refused::Turned)?;
        if is_from_elsewhere(&parts.headers) {
            return Err(forged().into());
        }
        let fields = Fields::of_body(body).await?;
        let given = fields.text("csrf").unwrap_or_default();
        if !same(given.as_bytes(), visitor.session.csrf.as_bytes()) {
            return Err(forged().into());
        }
        Ok(Self { visitor, fields })
    }
}

fn forged() -> Error {
    let detail = "the form does not belong to this session: nothing was done";
    Error::new(ErrorCode::ForgedForm, detail)
}

/// Whether two texts are equal, in a time that tells nothing about where they
/// differ.
fn same(one: &[u8], two: &[u8]) -> bool {
    let differing = one
        .iter()
        .zip(two)
        .fold(0, |so_far, (a, b)| so_far | (a ^ b));
    one.len() == two.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn texts_are_compared_whole() {
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"", b"abc"));
        assert!(!same(b"abd", b"abc"));
        assert!(!same(b"abcd", b"abc"));
    }
}
