//! What is said once requests can be served.

use ballast_control_plane::api::PREFIX;
use serde_json::json;

use super::first_start::Token;
use super::listener::Serving;
use super::parts::Parts;
use crate::config::Config;
use ballast_cli::Screen;

/// Says where everything is: one JSON line, or a few lines for people.
pub(crate) fn ready(
    screen: &Screen,
    serving: &Serving,
    parts: &Parts,
    config: &Config,
    token: &Token,
) {
    let base = parts.public_url();
    let admin = format!("{base}{PREFIX}");
    tracing::info!(address = %serving.address, data_dir = %parts.data_dir.display(), "ready");
    let text = if screen.json {
        json!({ "router": base, "admin": admin }).to_string()
    } else {
        for_people(parts, config, token, &admin)
    };
    // Whoever started us may not be listening; that is no reason to stop.
    let _ = screen.data(text.as_bytes());
}

fn for_people(parts: &Parts, config: &Config, token: &Token, admin: &str) -> String {
    let base = parts.public_url();
    let snapshot = parts.plane.fleet().snapshot();
    let shards = snapshot.shards().len();
    let slices: u64 = snapshot
        .fleet
        .shards()
        .iter()
        .map(|shard| shard.slices)
        .sum();
    let token_line = match token {
        Token::Old => "as before (lost it? stop Ballast, then: ballast token reset)".to_owned(),
        Token::Fresh(secret) => format!("{}   (shown this once: keep it)", secret.expose()),
        Token::InFile(file) => format!("in {}", file.display()),
    };
    let export = match token {
        Token::Fresh(secret) => format!("\n  export BALLAST_TOKEN={}", secret.expose()),
        Token::InFile(file) => format!("\n  export BALLAST_TOKEN=$(cat {})", file.display()),
        Token::Old => String::new(),
    };
    let console = match config.console.enabled {
        true => format!("  console  {base}/console   (log in with the token)\n"),
        false => String::new(),
    };
    format!(
        "Ballast is up.\n\
         \x20 router   {base}\n\
         \x20 admin    {admin}   (API: {admin}/docs/)\n\
{console}\
         \x20 data     {data}   ({shards} shards in region {region}, {slices} tenant slices)\n\
         \x20 token    {token_line}\n\
         Next, in another terminal:\n\
         \x20 export BALLAST_URL={admin}{export}\n\
         \x20 ballast tenant create acme && ballast placement explain acme\n\
         Ctrl-C stops.",
        data = parts.data_dir.display(),
        region = config.fleet.region,
    )
}
