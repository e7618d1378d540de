//! The greeting, once requests are served.

use ballast_control_plane::api::PREFIX;
use ballast_domain::text::count_noun;
use serde_json::json;

use super::first_start::AdminTokenState;
use super::listener::RunningServer;
use super::parts::Services;
use crate::config::Config;
use ballast_cli::Screen;

/// Prints the URLs: one JSON line, or a few lines for people.
pub(crate) fn ready(
    screen: &Screen,
    serving: &RunningServer,
    parts: &Services,
    config: &Config,
    token: &AdminTokenState,
) {
    let base = parts.public_url();
    let admin = format!("{base}{PREFIX}");
    tracing::info!(address = %serving.address, data_dir = %parts.data_dir.display(), "ready");
    let text = if screen.json {
        json!({ "router": base, "admin": admin }).to_string()
    } else {
        for_people(parts, config, token, &admin)
    };
    // Stdout may be closed; go on.
    let _ = screen.data(text.as_bytes());
}

fn for_people(parts: &Services, config: &Config, token: &AdminTokenState, admin: &str) -> String {
    let base = parts.public_url();
    let snapshot = parts.plane.fleet().snapshot();
    let shards = count_noun(snapshot.shards().len() as u64, "shard");
    let slices: u64 = snapshot
        .fleet
        .shards()
        .iter()
        .map(|shard| shard.slices)
        .sum();
    let slices = count_noun(slices, "tenant slice");
    let token_line = match token {
        AdminTokenState::Old => {
            "unchanged (lost? stop Ballast and run: ballast token reset)".to_owned()
        }
        AdminTokenState::Fresh(secret) => {
            format!("{}   (shown only once; store it now)", secret.expose())
        }
        AdminTokenState::InFile(file) => format!("in {}", file.display()),
    };
    let export = match token {
        AdminTokenState::Fresh(secret) => format!("\n  export BALLAST_TOKEN={}", secret.expose()),
        AdminTokenState::InFile(file) => {
            format!("\n  export BALLAST_TOKEN=$(cat {})", file.display())
        }
        AdminTokenState::Old => String::new(),
    };
    let console = match config.console.enabled {
        true => format!("  console  {base}/console   (log in with the token)\n"),
        false => String::new(),
    };
    format!(
        "Ballast is running.\n\
         \x20 router   {base}\n\
         \x20 admin    {admin}   (API: {admin}/docs/)\n\
{console}\
         \x20 data     {data}   ({shards} in region {region}, {slices})\n\
         \x20 token    {token_line}\n\
         Next, in another terminal:\n\
         \x20 export BALLAST_URL={admin}{export}\n\
         \x20 ballast tenant create acme && ballast placement explain acme\n\
         Press Ctrl-C to stop.",
        data = parts.data_dir.display(),
        region = config.fleet.region,
    )
}
