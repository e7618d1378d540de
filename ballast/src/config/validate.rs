//! Validates settings and their combinations, once.

use std::net::SocketAddr;
use std::time::Duration;

use ballast_domain::bounds::{ARRIVAL_ALLOWANCE_MS, ROTATE_OVERLAP_SECONDS_MAX};
use ballast_router::KeyPlace;

use super::{Config, Network};

type Finding = (&'static str, String);

/// The first invalid value, with its key.
pub(crate) fn check(config: &Config) -> Result<(), Finding> {
    server(config)?;
    placement(config)?;
    keys(config)?;
    if !(1..=1_000).contains(&config.fleet.shards) {
        return Err(("fleet.shards", "must be from 1 to 1000".to_owned()));
    }
    router(config)?;
    shards(config)?;
    config.moves.check()?;
    config.load.check()?;
    config.hotspots.check()?;
    config.calendar.check()?;
    workflows(config)?;
    console(config)?;
    traces(config)?;
    super::webhooks::check(&config.webhooks)?;
    tracing_subscriber::EnvFilter::try_new(&config.log.filter)
        .map(drop)
        .map_err(|error| ("log.filter", error.to_string()))
}

fn console(config: &Config) -> Result<(), Finding> {
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    match config.console.session.0 {
        short if short < Duration::from_secs(1) => {
            Err(("console.session", "must be at least 1s".to_owned()))
        }
        long if long > week => Err(("console.session", "must be at most 7d".to_owned())),
        _ => Ok(()),
    }
}

fn router(config: &Config) -> Result<(), Finding> {
    let set = &config.router;
    if !(100..=100_000_000).contains(&set.cache_entries) {
        let message = "must be from 100 to 100000000".to_owned();
        return Err(("router.cache_entries", message));
    }
    if set.cache_ttl.0 < Duration::from_secs(1) {
        return Err(("router.cache_ttl", "must be at least 1s".to_owned()));
    }
    if set.results_max_age.0 > Duration::from_secs(60) {
        return Err(("router.results_max_age", "must be at most 1m".to_owned()));
    }
    // The arrival allowance: a vote that is held longer is no longer judged by its
    // arrival time.
    if set.hold_max.0 > Duration::from_millis(ARRIVAL_ALLOWANCE_MS.unsigned_abs()) {
        return Err(("router.hold_max", "must be at most 10s".to_owned()));
    }
    for (key, count) in [
        ("router.held_requests_max", set.held_requests_max),
        (
            "router.held_requests_per_tenant_max",
            set.held_requests_per_tenant_max,
        ),
        ("router.held_mib_max", set.held_mib_max),
        (
            "router.held_mib_per_tenant_max",
            set.held_mib_per_tenant_max,
        ),
        ("router.viewers_max", set.viewers_max),
        ("router.viewers_per_tenant_max", set.viewers_per_tenant_max),
    ] {
        if !(1..=1_000_000).contains(&count) {
            return Err((key, "must be from 1 to 1000000".to_owned()));
        }
    }
    if set.dual_read_sample > 1_000_000 {
        let message = "must be from 0 to 1000000".to_owned();
        return Err(("router.dual_read_sample", message));
    }
    Ok(())
}

fn shards(config: &Config) -> Result<(), Finding> {
    let set = &config.shards;
    for (key, value, least, most) in [
        (
            "shards.voters_in_memory_max",
            set.voters_in_memory_max,
            1_000,
            10_000_000_000,
        ),
        ("shards.checkpoint_mib", set.checkpoint_mib, 1, 65_536),
        ("shards.feed_mib", set.feed_mib, 0, 1_048_576),
    ] {
        if !(least..=most).contains(&value) {
            return Err((key, format!("must be from {least} to {most}")));
        }
    }
    Ok(())
}

fn workflows(config: &Config) -> Result<(), Finding> {
    let set = &config.workflows;
    if set.keep_ended.0 < Duration::from_secs(60) {
        return Err(("workflows.keep_ended", "must be at least 1m".to_owned()));
    }
    if !(1..=100_000).contains(&set.tasks_max) {
        return Err(("workflows.tasks_max", "must be from 1 to 100000".to_owned()));
    }
    Ok(())
}

fn server(config: &Config) -> Result<(), Finding> {
    let server = &config.server;
    address(&server.listen).map_err(|message| ("server.listen", message))?;
    if server.tls_cert.is_some() != server.tls_key.is_some() {
        let key = if server.tls_cert.is_some() {
            "server.tls_cert"
        } else {
            "server.tls_key"
        };
        return Err((key, "tls_cert and tls_key go together".to_owned()));
    }
    for proxy in &server.trusted_proxies {
        proxy
            .parse::<Network>()
            .map_err(|message| ("server.trusted_proxies", message))?;
    }
    if let Some(url) = &server.public_url
        && !is_http(url)
    {
        return Err((
            "server.public_url",
            format!("{url:?} is not an http:// or https:// URL"),
        ));
    }
    Ok(())
}

/// Reads `ADDR:PORT`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let named = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    named
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| format!("{text:?} is not an ADDRESS:PORT such as 127.0.0.1:8080 or [::]:8080"))
}

fn traces(config: &Config) -> Result<(), Finding> {
    if let Some(url) = &config.traces.otlp_endpoint
        && !is_http(url)
    {
        let message = format!("{url:?} is not an http:// or https:// URL");
        return Err(("traces.otlp_endpoint", message));
    }
    let sample = config.traces.sample;
    if (0.0..=1.0).contains(&sample) {
        Ok(())
    } else {
        Err(("traces.sample", format!("{sample} is not from 0 to 1")))
    }
}

pub(super) fn is_http(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

fn placement(config: &Config) -> Result<(), Finding> {
    let (busy, calm) = (config.placement.busy_at, config.placement.calm_at);
    if !(0.01..=1.0).contains(&busy) {
        return Err(("placement.busy_at", format!("{busy} is not from 0.01 to 1")));
    }
    if !(0.0..busy).contains(&calm) {
        return Err((
            "placement.calm_at",
            format!("{calm} is not from 0 to below busy_at ({busy})"),
        ));
    }
    Ok(())
}

fn keys(config: &Config) -> Result<(), Finding> {
    let overlap = config.keys.rotate_overlap.0;
    if overlap > Duration::from_secs(ROTATE_OVERLAP_SECONDS_MAX.unsigned_abs()) {
        return Err(("keys.rotate_overlap", "must be at most 90 days".to_owned()));
    }
    if config.keys.places.is_empty() {
        return Err(("keys.places", "name at least one place".to_owned()));
    }
    for place in &config.keys.places {
        place
            .parse::<KeyPlace>()
            .map_err(|error| ("keys.places", error.to_string()))?;
    }
    Ok(())
}
