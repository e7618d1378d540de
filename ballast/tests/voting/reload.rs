//! Journey: certificates, proxies and settings, and changing them at run time.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::support::{Call, Instance, InstanceOptions, client, eventually, text};

/// Writes a new self-signed certificate to the files that an instance reads.
fn certificate(home: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let pem = made.cert.pem();
    fs::write(home.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::write(home.join("cert.pem"), &pem).unwrap();
    pem
}

/// Whether a new connection succeeds for a client that trusts only `pem`.
async fn is_trusted(url: &str, pem: &str) -> bool {
    let answer = Call::new(&client(Some(pem)), "GET", url).try_send().await;
    answer.is_some_and(|answer| answer.status == 200)
}

#[tokio::test]
async fn certificates_are_reloaded_on_sighup_and_on_change() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let first = certificate(home.path());
    let options = InstanceOptions {
        args: ["--tls-cert", "cert.pem", "--tls-key", "key.pem"]
            .map(str::to_owned)
            .to_vec(),
        trust: Some(first.clone()),
        ..InstanceOptions::default()
    };
    let mut it = Instance::within(home.clone(), options).await;
    assert!(it.router.starts_with("https://127.0.0.1:"), "{}", it.router);
    assert_eq!(it.get("/whoami").await["role"], "admin");
    let url = format!("{}/healthz", it.router);
    let plain = url.replace("https://", "http://");
    assert!(
        Call::new(&client(None), "GET", &plain)
            .try_send()
            .await
            .is_none()
    );

    let second = certificate(home.path());
    it.process().signal("HUP");
    eventually("the second certificate", async || {
        is_trusted(&url, &second).await.then_some(())
    })
    .await;
    assert!(!is_trusted(&url, &first).await);

    // An unreadable certificate changes nothing.
    fs::write(home.path().join("cert.pem"), "nonsense").unwrap();
    it.process().signal("HUP");
    let process = it.process();
    eventually("the log line", async || {
        process
            .stderr()
            .contains("keeping the old one")
            .then_some(())
    })
    .await;
    assert!(is_trusted(&url, &second).await);

    // Without a signal, a change is noticed within seconds.
    let third = certificate(home.path());
    eventually("the third certificate", async || {
        is_trusted(&url, &third).await.then_some(())
    })
    .await;
}

/// The address in the audit log of a request with forwarding headers.
async fn address_of_forwarded(it: &Instance, tenant: &str, forwarded: &str) -> String {
    it.call("POST", "/tenants")
        .header("x-forwarded-for", forwarded)
        .json(&serde_json::json!({ "tenantID": tenant }))
        .send()
        .await
        .expect(201);
    let events = it.get(&format!("/events?kind=tenant&id={tenant}")).await;
    text(&events["items"][0]["actor"]["address"])
}

#[tokio::test]
async fn forwarded_addresses_count_only_from_trusted_proxies() {
    let it = Instance::start().await;
    assert_eq!(
        address_of_forwarded(&it, "a", "203.0.113.9").await,
        "127.0.0.1"
    );
    let trusting = Instance::with(InstanceOptions {
        args: [
            "--trusted-proxy",
            "127.0.0.0/8",
            "--trusted-proxy",
            "10.0.0.1",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..InstanceOptions::default()
    })
    .await;
    for (tenant, forwarded, seen) in [
        ("a", "203.0.113.9", "203.0.113.9"),
        ("b", "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("c", "203.0.113.9, 10.0.0.1", "203.0.113.9"),
        ("d", "2001:db8::1", "2001:db8::1"),
        ("e", "nonsense", "127.0.0.1"),
    ] {
        assert_eq!(
            address_of_forwarded(&trusting, tenant, forwarded).await,
            seen
        );
    }
}

#[tokio::test]
async fn sighup_reloads_settings_and_keeps_the_old_ones_if_invalid() {
    let mut it = Instance::with(InstanceOptions {
        config: Some("[server]\ntrusted_proxies = []\n".to_owned()),
        ..InstanceOptions::default()
    })
    .await;
    assert_eq!(
        address_of_forwarded(&it, "a", "203.0.113.9").await,
        "127.0.0.1"
    );
    let file = it.home().join("ballast.toml");

    fs::write(&file, "[server]\ntrusted_proxy = [\"127.0.0.1\"]\n").unwrap();
    it.process().signal("HUP");
    let process = it.process();
    eventually("the log line", async || {
        process
            .stderr()
            .contains("keeping the old settings")
            .then_some(())
    })
    .await;
    assert_eq!(
        address_of_forwarded(&it, "b", "203.0.113.9").await,
        "127.0.0.1"
    );

    fs::write(&file, "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n").unwrap();
    it.process().signal("HUP");
    let process = it.process();
    eventually("the new settings", async || {
        process.stderr().contains("settings reloaded").then_some(())
    })
    .await;
    assert_eq!(
        address_of_forwarded(&it, "c", "203.0.113.9").await,
        "203.0.113.9"
    );
    // The audit log has the effective reload and its actor.
    let events = eventually("the event", async || {
        let events = it.all("/events?kind=settings").await;
        (!events.is_empty()).then_some(events)
    })
    .await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["reason"], "SIGHUP");
    assert_eq!(
        events[0]["after"]["server"]["trusted_proxies"],
        serde_json::json!(["127.0.0.1"])
    );
}

#[tokio::test]
async fn a_signal_right_after_the_ready_line_is_handled() {
    for _ in 0..5 {
        let mut it = Instance::start().await;
        it.process().signal("HUP");
        let process = it.process();
        eventually("a reload", async || {
            process.stderr().contains("settings reloaded").then_some(())
        })
        .await;
        assert_eq!(it.get("/whoami").await["role"], "admin");
    }
}
