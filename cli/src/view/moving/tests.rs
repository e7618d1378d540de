//! What is seen of moves, phase by phase.

use ballast_domain::Timestamp;
use serde_json::{Value, json};

use super::log::MigrationLog;
use super::*;
use crate::view::migrations::example_migration;

const NOW: Timestamp = Timestamp::from_unix_ms(1_794_821_400_000);

fn see(migration: &MigrationBody, columns: usize, rows: usize) -> String {
    let scene = MigrationScene {
        migration,
        link: Connection::Up,
        now: NOW,
    };
    let lines = frame(&scene, columns, rows);
    assert!(lines.len() < rows.max(2), "{} lines", lines.len());
    let texts: Vec<String> = lines
        .iter()
        .map(|line| line.text().trim_end().to_owned())
        .collect();
    texts.join("\n")
}

fn by_ops() -> Value {
    json!({"actor": {"type": "token", "name": "ops", "tokenID": "tok-1"}, "at": "2026-11-16T09:29:40Z"})
}

fn figures() -> Value {
    json!({"rows": 12_310, "bytes": 1_440_211, "copyingSince": "2026-11-16T09:29:31Z",
        "cutOverAt": "2026-11-16T09:29:34Z", "pauseMs": 12, "putOff": 1, "repaired": 0,
        "compared": 24, "differences": 0})
}

fn in_window() -> MigrationBody {
    example_migration(json!({
        "stage": "cutOver", "phase": "MonitorDualRead", "pauseMs": 12, "figures": figures(),
        "progress": {"done": 24, "unit": "comparisons", "note": "both sides agree"},
    }))
}

fn going_back() -> MigrationBody {
    example_migration(json!({
        "stage": "cutOver", "phase": "Rollback", "pauseMs": 12, "figures": figures(),
        "asked": {"back": {"how": "reverse", "actor": by_ops()["actor"], "at": by_ops()["at"]}},
        "progress": {"done": 10, "total": 40, "unit": "rows"},
    }))
}

fn ended(status: &str, phase: &str, why: Value) -> MigrationBody {
    example_migration(json!({
        "stage": "ended", "status": status, "phase": phase, "pauseMs": 12, "figures": figures(),
        "ended": {"status": status, "phase": phase, "at": "2026-11-16T09:29:59Z", "why": why},
    }))
}

fn waiting() -> MigrationBody {
    example_migration(json!({
        "stage": "asked", "status": "waiting", "phase": "PlanMove", "figures":
            {"rows": 0, "bytes": 0}, "progress": {"done": 0, "total": 12_000, "unit": "rows",
            "note": "waiting for somebody to resume it"},
        "waitingFor": "somebody to resume it", "asked": {"paused": by_ops()},
    }))
}

#[test]
fn each_phase() {
    let all = [
        waiting(),
        example_migration(json!({})),
        in_window(),
        going_back(),
        ended("reversed", "Rollback", json!("operators asked for it")),
        ended("completed", "CleanupOldShard", Value::Null),
    ];
    let seen = all.map(|one| see(&one, 100, 30));
    insta::assert_snapshot!(seen.join("\n\n----\n\n"));
}

#[test]
fn a_small_terminal_keeps_where_it_stands() {
    insta::assert_snapshot!(see(&example_migration(json!({})), 60, 9));
}

#[test]
fn no_size_is_too_small() {
    for rows in [2, 3, 4, 5, 8, 12, 20, 40] {
        for columns in [1, 2, 8, 20, 60, 300] {
            for one in [waiting(), in_window(), going_back()] {
                see(&one, columns, rows);
            }
        }
    }
}

#[test]
fn a_pipe_is_told_each_change_once() {
    let mut teller = MigrationLog::default();
    let mut lines = teller.log_changes(&waiting(), NOW);
    lines.extend(teller.log_changes(&waiting(), NOW));
    for done in [4_920, 5_000, 6_000, 12_000, 12_000] {
        let mut copying = example_migration(json!({}));
        copying.progress.done = done;
        lines.extend(teller.log_changes(&copying, NOW.plus_seconds(1)));
    }
    lines.push(teller.log_disconnected(NOW.plus_seconds(2)));
    lines.push(teller.log_disconnected(NOW.plus_seconds(3)));
    lines.extend(teller.log_changes(&in_window(), NOW.plus_seconds(4)));
    let mut differ = in_window();
    differ.record.figures.differences = 2;
    lines.extend(teller.log_changes(&differ, NOW.plus_seconds(5)));
    lines.extend(teller.log_changes(&going_back(), NOW.plus_seconds(6)));
    let end = ended("reversed", "Rollback", json!("operators asked for it"));
    lines.extend(teller.log_changes(&end, NOW.plus_seconds(7)));
    lines.extend(teller.log_changes(&end, NOW.plus_seconds(7)));
    insta::assert_snapshot!(lines.join("\n"));
}
