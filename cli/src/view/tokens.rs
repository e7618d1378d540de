//! Tokens of the admin API, for people.

use ballast_domain::token::AdminToken;

use crate::body::{NewTokenBody, Versioned};
use crate::client::Reply;
use crate::failure::Failure;
use crate::output::Screen;
use crate::table::{self, Table, clean, moment, moment_long};

/// A new token: the secret alone on stdout, what there is to know beside it.
pub(crate) fn secret(screen: &Screen, reply: &Reply) -> Result<(), Failure> {
    if screen.json {
        return screen.data(&reply.bytes);
    }
    let body: NewTokenBody = reply.read()?;
    let end = body
        .expires_at
        .map(|end| format!("; expires {}", moment_long(screen, end)))
        .unwrap_or_default();
    let about = format!(
        "token {} for {}, role {}{end}",
        body.token_id, body.name, body.role
    );
    screen.note(&clean(&about));
    screen.note("");
    screen.data(screen.bold(&clean(&body.token)).as_bytes())?;
    screen.note("");
    screen.note("Keep it now: it is not stored and is not shown again.");
    Ok(())
}

fn status(screen: &Screen, token: &AdminToken) -> &'static str {
    match token.works(screen.now) {
        true => "active",
        false if token.revoked_at.is_some() => "revoked",
        false => "expired",
    }
}

/// Many tokens.
pub(crate) fn table(screen: &Screen, tokens: &[Versioned<AdminToken>]) -> String {
    let columns = [
        "token", "name", "role", "status", "hint", "created", "expires",
    ];
    let mut table = Table::new(screen, &columns);
    for token in tokens {
        let token = &token.value;
        let expires = token.expires_at.map(|end| moment(screen, end));
        let row = [
            token.token_id.to_string(),
            token.name.clone(),
            token.role.name().to_owned(),
            status(screen, token).to_owned(),
            token.hint.clone(),
            moment(screen, token.created_at),
            expires.unwrap_or_else(|| "never".to_owned()),
        ];
        if token.works(screen.now) {
            table.row(row);
        } else {
            table.faint(row);
        }
    }
    table.text()
}

/// All about one token.
pub(crate) fn facts(screen: &Screen, token: &AdminToken) -> String {
    let at = |at: Option<_>| at.map(|at| moment_long(screen, at));
    table::facts(
        screen,
        &[
            ("token", Some(token.token_id.to_string())),
            ("name", Some(token.name.clone())),
            ("role", Some(token.role.name().to_owned())),
            ("status", Some(status(screen, token).to_owned())),
            ("begins with", Some(token.hint.clone())),
            ("created", at(Some(token.created_at))),
            ("expires", at(token.expires_at).or(Some("never".to_owned()))),
            ("revoked", at(token.revoked_at)),
        ],
    )
}

/// One line on a token that was ended.
pub(crate) fn revoked(_: &Screen, token: &Versioned<AdminToken>) -> String {
    let AdminToken { token_id, name, .. } = &token.value;
    clean(&format!("token {token_id} of {name} is revoked"))
}
