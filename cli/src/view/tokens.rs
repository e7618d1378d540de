//! Renders tokens of the admin API.

use ballast_domain::token::AdminToken;

use crate::body::{NewTokenBody, Versioned};
use crate::client::Reply;
use crate::failure::CliError;
use crate::output::Screen;
use crate::table::{self, Table, moment, moment_long, sanitize};

/// A new token: only the secret goes to stdout, everything else to stderr.
pub(crate) fn show_secret(screen: &Screen, reply: &Reply) -> Result<(), CliError> {
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
    screen.note(&sanitize(&about));
    screen.note("");
    screen.data(screen.bold(&sanitize(&body.token)).as_bytes())?;
    screen.note("");
    screen.note("Keep it now: it is not stored and is not shown again.");
    Ok(())
}

fn token_status(screen: &Screen, token: &AdminToken) -> &'static str {
    match token.works(screen.now) {
        true => "active",
        false if token.revoked_at.is_some() => "revoked",
        false => "expired",
    }
}

/// Many tokens.
pub(crate) fn token_table(screen: &Screen, tokens: &[Versioned<AdminToken>]) -> String {
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
            token_status(screen, token).to_owned(),
            token.hint.clone(),
            moment(screen, token.created_at),
            expires.unwrap_or_else(|| "never".to_owned()),
        ];
        if token.works(screen.now) {
            table.add_row(row);
        } else {
            table.add_dimmed_row(row);
        }
    }
    table.render()
}

/// All about one token.
pub(crate) fn token_facts(screen: &Screen, token: &AdminToken) -> String {
    let at = |at: Option<_>| at.map(|at| moment_long(screen, at));
    table::fact_list(
        screen,
        &[
            ("token", Some(token.token_id.to_string())),
            ("name", Some(token.name.clone())),
            ("role", Some(token.role.name().to_owned())),
            ("status", Some(token_status(screen, token).to_owned())),
            ("begins with", Some(token.hint.clone())),
            ("created", at(Some(token.created_at))),
            ("expires", at(token.expires_at).or(Some("never".to_owned()))),
            ("revoked", at(token.revoked_at)),
        ],
    )
}

/// One line on a revoked token.
pub(crate) fn describe_revoked(_: &Screen, token: &Versioned<AdminToken>) -> String {
    let AdminToken { token_id, name, .. } = &token.value;
    sanitize(&format!("token {token_id} of {name} is revoked"))
}
