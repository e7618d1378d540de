//! Form submissions: the session is checked, the CSRF token is compared, the fields are read.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use ballast_control_plane::change::IfMatch;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::validate;
use ballast_domain::bounds::REASON_CHARS_MAX;
use ballast_domain::{Error, ErrorCode, Result};

use crate::console::Console;
use crate::fields::Fields;
use crate::page::error::ErrorPage;
use crate::session::{AccessDenied, Visitor, is_cross_site};

/// A submitted form whose session and CSRF token are valid.
pub(crate) struct FormSubmission {
    pub(crate) visitor: Visitor,
    pub(crate) fields: Fields,
}

/// Why a form submission was rejected.
pub(crate) enum FormRejection {
    AccessDenied(AccessDenied),
    ErrorPage(ErrorPage),
}

impl IntoResponse for FormRejection {
    fn into_response(self) -> Response {
        match self {
            Self::AccessDenied(denied) => denied.into_response(),
            Self::ErrorPage(page) => page.into_response(),
        }
    }
}

impl From<Error> for FormRejection {
    fn from(error: Error) -> Self {
        Self::ErrorPage(error.into())
    }
}

impl FormSubmission {
    /// The audit-log intent: the operator and the reason.
    pub(crate) fn intent(&self) -> Result<Intent> {
        let reason = self.fields.filled("reason").map(str::to_owned);
        if let Some(reason) = &reason {
            validate::text("/reason", reason, REASON_CHARS_MAX)?;
        }
        Ok(self.visitor.intent(reason))
    }

    /// The record version that the page showed, so that a concurrent change is not
    /// overwritten unseen.
    pub(crate) fn if_match(&self) -> Result<IfMatch> {
        Ok(match self.fields.optional::<u64>("version")? {
            Some(version) => IfMatch::Versions(vec![version]),
            None => IfMatch::Any,
        })
    }
}

impl FromRequest<Console> for FormSubmission {
    type Rejection = FormRejection;

    async fn from_request(request: Request, console: &Console) -> Result<Self, FormRejection> {
        use axum::extract::FromRequestParts;
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, console)
            .await
            .map_err(FormRejection::AccessDenied)?;
        if is_cross_site(&parts.headers) {
            return Err(forged_form().into());
        }
        let fields = Fields::read_body(body).await?;
        let csrf_token = fields.text("csrf").unwrap_or_default();
        if !equal_in_constant_time(csrf_token.as_bytes(), visitor.session.csrf.as_bytes()) {
            return Err(forged_form().into());
        }
        Ok(Self { visitor, fields })
    }
}

fn forged_form() -> Error {
    let detail = "the form's CSRF token does not match this session; nothing was done";
    Error::new(ErrorCode::ForgedForm, detail)
}

/// Compares two texts in constant time.
fn equal_in_constant_time(one: &[u8], two: &[u8]) -> bool {
    let differing = one
        .iter()
        .zip(two)
        .fold(0, |so_far, (a, b)| so_far | (a ^ b));
    one.len() == two.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::equal_in_constant_time;

    #[test]
    fn texts_are_compared_whole() {
        assert!(equal_in_constant_time(b"abc", b"abc"));
        assert!(!equal_in_constant_time(b"", b"abc"));
        assert!(!equal_in_constant_time(b"abd", b"abc"));
        assert!(!equal_in_constant_time(b"abcd", b"abc"));
    }
}
