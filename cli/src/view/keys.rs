//! Renders API keys.

use ballast_domain::key::KeyMode;

use crate::body::{KeyBody, NewKeyBody};
use crate::client::Reply;
use crate::failure::CliError;
use crate::output::Screen;
use crate::table::{self, Table, moment, moment_long, sanitize};

/// A new key: only the secret goes to stdout, everything else to stderr.
pub(crate) fn show_secret(screen: &Screen, reply: &Reply) -> Result<(), CliError> {
    if screen.json {
        return screen.data(&reply.bytes);
    }
    let body: NewKeyBody = reply.read()?;
    let mut about = format!(
        "{} key {} of {}: {}",
        body.mode,
        body.key_id,
        body.tenant_id,
        body.scopes.join(", ")
    );
    if let Some(end) = body.expires_at {
        about.push_str(&format!("; expires {}", moment_long(screen, end)));
    }
    screen.note(&about);
    if let (Some(old), Some(end)) = (&body.replaces, body.overlap_ends_at) {
        let end = moment_long(screen, end);
        screen.note(&format!("it replaces {old}, which works until {end}"));
    }
    screen.note("");
    screen.data(screen.bold(&sanitize(&body.key)).as_bytes())?;
    screen.note("");
    screen.note("Keep it now: it is not stored and is not shown again.");
    Ok(())
}

fn scope_names(body: &KeyBody) -> String {
    let names: Vec<&str> = body.key.scopes.iter().map(|scope| scope.name()).collect();
    names.join(", ")
}

fn mode_name(body: &KeyBody) -> &'static str {
    match body.key.mode {
        KeyMode::Live => "live",
        KeyMode::Test => "test",
    }
}

/// Many keys.
pub(crate) fn key_table(screen: &Screen, keys: &[KeyBody]) -> String {
    let columns = [
        "key", "tenant", "status", "expires", "scopes", "used", "name", "hint",
    ];
    let mut table = Table::new(screen, &columns);
    for body in keys {
        let or_dash =
            |at: Option<_>, none: &str| at.map_or_else(|| none.to_owned(), |at| moment(screen, at));
        let row = [
            body.key.key_id.to_string(),
            body.key.tenant_id.to_string(),
            body.status.clone(),
            or_dash(body.key.expires_at, "never"),
            scope_names(body),
            or_dash(body.last_used_at, "never"),
            body.key.name.clone().unwrap_or_else(|| "–".to_owned()),
            body.key.hint.clone(),
        ];
        if body.status == "active" {
            table.add_row(row);
        } else {
            table.add_dimmed_row(row);
        }
    }
    table.render()
}

/// The throttle of a key, while it lasts.
fn describe_throttle(screen: &Screen, body: &KeyBody) -> Option<String> {
    let throttle = body.key.throttle.as_ref()?;
    let often = throttle.limit_at(screen.now)?;
    let until = moment_long(screen, throttle.until);
    Some(format!(
        "{often} calls/s until {until}: it overloaded its shard"
    ))
}

/// All about one key.
pub(crate) fn key_facts(screen: &Screen, body: &KeyBody) -> String {
    let at = |at: Option<_>| at.map(|at| moment_long(screen, at));
    let key = &body.key;
    let never = || Some("never".to_owned());
    table::fact_list(
        screen,
        &[
            ("key", Some(key.key_id.to_string())),
            ("tenant", Some(key.tenant_id.to_string())),
            ("name", key.name.clone()),
            ("status", Some(body.status.clone())),
            ("throttled", describe_throttle(screen, body)),
            ("mode", Some(mode_name(body).to_owned())),
            ("scopes", Some(scope_names(body))),
            ("begins with", Some(key.hint.clone())),
            ("created", at(Some(key.created_at))),
            ("last used", at(body.last_used_at).or_else(never)),
            ("expires", at(key.expires_at).or_else(never)),
            ("revoked", at(key.revoked_at)),
            (
                "replaced by",
                key.replaced_by.as_ref().map(ToString::to_string),
            ),
            ("version", Some(body.version.to_string())),
        ],
    )
}

/// One line on a revoked key.
pub(crate) fn describe_revoked(_: &Screen, body: &KeyBody) -> String {
    format!(
        "key {} of {} is revoked",
        body.key.key_id, body.key.tenant_id
    )
}

/// The tenant of a secret, then all about its key.
pub(crate) fn describe_identified(screen: &Screen, body: &KeyBody) -> String {
    let verdict = if body.status == "active" {
        screen.green("it works")
    } else {
        screen.red(&format!("it does not work: {}", body.status))
    };
    let tenant = &body.key.tenant_id;
    format!(
        "This is a key of {tenant}, and {verdict}.\n\n{}",
        key_facts(screen, body)
    )
}
