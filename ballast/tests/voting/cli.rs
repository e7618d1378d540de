//! The built binary against a real control plane on a real port: its output and its exit codes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use crate::support::process::ballast_path;
use serde_json::Value;

/// A running instance with three shards, and the command line with its address and token.
struct CliInstance {
    url: String,
    token: String,
    dir: tempfile::TempDir,
    server: Child,
}

impl Drop for CliInstance {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

struct Ran {
    exit: i32,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|bad| panic!("{bad}: {}", self.out))
    }

    fn problem(&self) -> Value {
        serde_json::from_str(&self.err).unwrap_or_else(|bad| panic!("{bad}: {}", self.err))
    }
}

impl CliInstance {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ballast.toml"), "[fleet]\nshards = 3\n").unwrap();
        let mut server = Command::new(ballast_path())
            .args(["up", "--json", "--listen", "127.0.0.1:0"])
            .args(["--data-dir", "served", "--admin-token-file", "served-token"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = server.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let token = std::fs::read_to_string(dir.path().join("served-token")).unwrap();
        Self {
            url: ready["admin"].as_str().unwrap().to_owned(),
            token: token.trim().to_owned(),
            dir,
            server,
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(ballast_path());
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("BALLAST_URL", &self.url)
            .env("BALLAST_TOKEN", &self.token)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let ran = finished(self.command(args).output().unwrap());
        assert!(!ran.err.contains(&self.token), "the token is never shown");
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    fn run_ok(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.exit, 0, "{args:?}: {}", ran.err);
        ran
    }
}

fn finished(output: Output) -> Ran {
    Ran {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_tenant_is_managed_from_the_command_line() {
    let it = CliInstance::start();
    let empty = it.run_ok(&["tenant", "list"]);
    assert_eq!(empty.out, "");
    assert!(empty.err.contains("ballast tenant create acme"));

    let made = it.run_ok(&["tenant", "create", "acme", "--name", "Acme", "--json"]);
    assert_eq!(made.json()["tenantID"], "acme");
    assert!(
        it.run_ok(&["tenant", "create", "bolt"])
            .out
            .starts_with("created tenant bolt on shard-")
    );
    let listed = it
        .run_ok(&["tenant", "list", "--limit", "1", "--json"])
        .json();
    assert_eq!(listed["items"][0]["tenantID"], "acme");
    let cursor = listed["nextCursor"].as_str().unwrap();
    assert!(
        it.run_ok(&["tenant", "list", "--limit", "1"])
            .err
            .contains(cursor)
    );
    let all = it
        .run_ok(&["--json", "tenant", "list", "--limit", "1", "--all"])
        .json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert_eq!(all["nextCursor"], Value::Null);

    let changed = it.run_ok(&[
        "tenant",
        "update",
        "acme",
        "--votes-per-second",
        "5",
        "--if-match",
        "1",
        "--json",
    ]);
    assert_eq!(changed.json()["limits"]["votesPerSecond"], 5);
    let lifted = it.run_ok(&[
        "tenant",
        "update",
        "acme",
        "--no-votes-per-second",
        "--json",
    ]);
    assert_eq!(lifted.json()["limits"]["votesPerSecond"], Value::Null);
    let stale = it.run(&["tenant", "suspend", "acme", "--if-match", "1", "--json"]);
    assert_eq!(
        (stale.exit, &stale.problem()["code"]),
        (1, &"changed-meanwhile".into())
    );
    it.run_ok(&["tenant", "suspend", "acme", "--reason", "unpaid & late"]);
    let events = it.run_ok(&[
        "event", "list", "--kind", "tenant", "--id", "acme", "--since", "1h", "--json",
    ]);
    assert_eq!(events.json()["items"][0]["reason"], "unpaid & late");
    assert!(
        it.run_ok(&["event", "list"])
            .out
            .contains("status active → suspended")
    );

    let asked = it.run(&["tenant", "close", "acme"]);
    assert_eq!(asked.exit, 2);
    assert!(asked.err.contains("--yes"), "{}", asked.err);
    it.run_ok(&["tenant", "close", "acme", "--yes"]);
    let refused = it.run(&["tenant", "resume", "acme"]);
    assert_eq!(refused.exit, 1);
    assert!(refused.err.contains("next:"), "{}", refused.err);
}

#[test]
fn a_key_is_managed_from_the_command_line() {
    let it = CliInstance::start();
    it.run_ok(&["tenant", "create", "acme"]);
    it.run_ok(&["tenant", "create", "bolt"]);
    let shown = it.run_ok(&[
        "key",
        "create",
        "acme",
        "--scopes",
        "vote,read",
        "--expires",
        "30d",
    ]);
    let secret = shown.out.trim();
    assert!(
        secret.starts_with("bl_live_"),
        "only the secret is on stdout: {secret}"
    );
    assert!(shown.err.contains("not shown again"));
    let made = it
        .run_ok(&["key", "create", "acme", "--test", "--json"])
        .json();
    assert!(made["key"].as_str().unwrap().starts_with("bl_test_"));

    let id = made["keyID"].as_str().unwrap();
    let foreign = it.run(&["key", "rotate", "bolt", id]);
    assert_eq!(foreign.exit, 1, "{}", foreign.err);
    let rotated = it
        .run_ok(&["key", "rotate", "acme", id, "--overlap", "1h", "--json"])
        .json();
    assert_eq!(rotated["replaces"], id);
    it.run_ok(&["key", "update", id, "--name", "web"]);
    assert!(it.run_ok(&["key", "list", "acme"]).out.contains("web"));

    let mut child = it
        .command(&["key", "identify"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(secret.as_bytes())
        .unwrap();
    let reply = finished(child.wait_with_output().unwrap());
    assert_eq!(reply.exit, 0, "{}", reply.err);
    assert!(
        reply.out.contains("a key of acme, and it works"),
        "{}",
        reply.out
    );
    it.run_ok(&["key", "revoke", id]);
    let gone = it.run(&["key", "identify", made["key"].as_str().unwrap()]);
    assert_eq!(
        gone.exit, 1,
        "a key that does not work is a negative verdict"
    );
}

#[test]
fn placement_is_explained_and_previewed() {
    let it = CliInstance::start();
    for n in 0..30 {
        it.run_ok(&["tenant", "create", &format!("tenant-{n}")]);
    }
    let reply = it.run_ok(&["placement", "explain", "tenant-1"]);
    assert!(reply.out.contains("and belongs there"), "{}", reply.out);
    let body = it
        .run_ok(&["placement", "explain", "tenant-1", "--json"])
        .json();
    assert_eq!(body["shards"].as_array().unwrap().len(), 3);
    // A change that the explanation names as moving the tenant does move it.
    let change = &body["wouldMove"][0];
    let args: Vec<&str> = change["command"]
        .as_str()
        .unwrap()
        .split(' ')
        .skip(1)
        .collect();
    it.run_ok(&args);
    let moved = it
        .run_ok(&["placement", "show", "tenant-1", "--json"])
        .json();
    assert_eq!(moved["preferredShardID"], change["toShardID"]);
    let due = it.run_ok(&["placement", "drift"]);
    assert!(due.out.contains("due to move"), "{}", due.out);

    let args = ["placement", "preview", "add", "shard-4", "--weight", "3"];
    let text = it.run_ok(&args);
    assert!(
        text.out.contains("of 30 tenants would move"),
        "{}",
        text.out
    );
    let body = it
        .run_ok(&[&args[..], &["--all", "--limit", "2", "--json"]].concat())
        .json();
    assert_eq!(
        body["items"].as_array().unwrap().len() as u64,
        body["movesTotal"].as_u64().unwrap()
    );
    it.run_ok(&[
        "placement",
        "pin",
        "tenant-1",
        "shard-2",
        "--reason",
        "why not",
    ]);
    assert!(
        it.run_ok(&["placement", "explain", "tenant-1"])
            .out
            .contains("pinned by first-admin (why not)")
    );
    it.run_ok(&["placement", "unpin", "tenant-1"]);
    let early = it.run(&[
        "placement",
        "explain",
        "tenant-1",
        "--at",
        "2h ago",
        "--json",
    ]);
    assert_eq!(
        (early.exit, &early.problem()["code"]),
        (1, &"no-history".into())
    );
    assert!(
        it.run_ok(&["placement", "explain", "tenant-1", "--at", "now"])
            .out
            .starts_with("As of")
    );
}

#[test]
fn shards_and_tokens() {
    let it = CliInstance::start();
    it.run_ok(&["shard", "add", "shard-9", "--zone", "gold", "--weight", "2"]);
    it.run_ok(&["shard", "zones", "shard-9", "a", "b"]);
    it.run_ok(&["shard", "state", "shard-9", "draining"]);
    let body = it
        .run_ok(&[
            "shard",
            "update",
            "shard-9",
            "--max-slices",
            "7",
            "--no-zones",
            "--json",
        ])
        .json();
    assert_eq!(
        (&body["maxSlices"], &body["zones"]),
        (&7.into(), &serde_json::json!([]))
    );
    for weight in ["0", "-1"] {
        let refused = it.run(&["shard", "weight", "shard-9", weight, "--json"]);
        assert_eq!(
            (refused.exit, &refused.problem()["code"]),
            (1, &"invalid-field".into())
        );
    }
    assert_eq!(it.run(&["shard", "weight", "shard-9", "NaN"]).exit, 2);
    assert_eq!(it.run(&["shard", "remove", "shard-9"]).exit, 2);
    assert_eq!(
        it.run_ok(&["shard", "remove", "shard-9", "--yes", "--json"])
            .out,
        "{}\n"
    );
    assert!(it.run_ok(&["shard", "list"]).out.starts_with("SHARD"));

    let shown = it.run_ok(&["token", "create", "--role", "viewer", "--name", "eye"]);
    let file = it.dir.path().join("viewer");
    std::fs::write(&file, &shown.out).unwrap();
    let file = file.to_str().unwrap();
    let me = it
        .run_ok(&["token", "whoami", "--token-file", file, "--json"])
        .json();
    assert_eq!(me["name"], "eye", "--token-file wins over BALLAST_TOKEN");
    let refused = it.run(&["tenant", "create", "x", "--token-file", file, "--json"]);
    assert_eq!(
        (refused.exit, &refused.problem()["code"]),
        (1, &"missing-role".into())
    );
    it.run_ok(&["token", "revoke", me["tokenID"].as_str().unwrap()]);
    assert_eq!(it.run(&["token", "whoami", "--token-file", file]).exit, 1);
    assert!(it.run_ok(&["token", "list"]).out.contains("revoked"));
}

#[test]
fn errors_have_exit_codes() {
    let it = CliInstance::start();
    let away = it.run(&["tenant", "list", "--url", "http://127.0.0.1:1", "--json"]);
    assert_eq!(
        (away.exit, &away.problem()["code"]),
        (3, &"unreachable".into())
    );
    let usage = it.run(&["tenant", "crate", "--json"]);
    assert_eq!((usage.exit, &usage.problem()["code"]), (2, &"usage".into()));
    for args in [
        &["tenant", "show", ".."][..],
        &["tenant", "update", "acme"],
        &["key", "create", "acme", "--expires", "soonish"],
        &["tenant", "list", "--timeout", "a while"],
        &["tenant", "list", "--url", "nowhere"],
        &["tenant", "list", "--token-file", "no-such-file"],
        &["frobnicate"],
    ] {
        assert_eq!(it.run(args).exit, 2, "{args:?}");
    }
    for bad in ["a/b", "a\u{7}b", "Acme", "a?b", "%2e%2e"] {
        let refused = it.run(&["tenant", "show", bad, "--json"]);
        assert_eq!(refused.exit, 1, "{bad:?}");
        assert_eq!(refused.problem()["code"], "invalid-field", "{bad:?}");
    }
    let mut unknown = it.command(&["tenant", "list"]);
    let unknown = finished(unknown.env_remove("BALLAST_TOKEN").output().unwrap());
    assert_eq!(unknown.exit, 2, "no token");
    let elsewhere = it.url.replace("/admin/v1", "/elsewhere");
    assert_eq!(it.run(&["tenant", "list", "--url", &elsewhere]).exit, 1);
}

#[test]
fn the_token_file_of_up_is_found() {
    let it = CliInstance::start();
    let home = it.dir.path().join("ballast-data");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("admin-token"), format!("{}\n", it.token)).unwrap();
    let mut command = it.command(&["token", "whoami"]);
    assert!(
        command
            .env_remove("BALLAST_TOKEN")
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let it = CliInstance::start();
    for args in [
        &["completions", "bash"][..],
        &["shard", "list", "--json"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = it
            .command(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let ran = finished(output);
        assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{args:?}");
    }
}
