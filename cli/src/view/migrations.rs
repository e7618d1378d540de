//! Renders migrations.

use ballast_domain::certificate::AcceptedLoss;
use ballast_domain::migration::{
    LeftoverState, Migration as Record, MigrationEstimate, MigrationStage, MigrationStatus,
    MigrationTerms, OperatorRequest, ReturnKind,
};
use ballast_domain::moving::MigrationPhase;
use ballast_domain::tenant::Slice;

use super::certificate::{count_times, format_milliseconds};
use super::moving::log::describe_finding;
use super::moving::phase_label;
use super::watch::bar::format_percent;
use crate::migration::body::{MigrationBody, MovePlanBody};
use crate::output::Screen;
use crate::table::{self, Table, count_noun, format_number, moment, moment_long, sanitize};

/// `acme`, or `slice 1 of acme`.
pub(crate) fn describe_subject(tenant: &str, slice: u32) -> String {
    match slice {
        0 => tenant.to_owned(),
        slice => format!("slice {slice} of {tenant}"),
    }
}

fn status(screen: &Screen, status: MigrationStatus) -> String {
    let name = status.name();
    match status {
        MigrationStatus::Running => screen.cyan(name),
        MigrationStatus::Waiting => screen.yellow(name),
        MigrationStatus::Completed => screen.green(name),
        MigrationStatus::RolledBack | MigrationStatus::Reversed | MigrationStatus::Cancelled => {
            screen.yellow(name)
        }
        MigrationStatus::Failed => screen.red(name),
    }
}

/// One line on a migration.
pub(crate) fn summary_line(screen: &Screen, migration: &MigrationBody) -> String {
    let record = &migration.record;
    let what = describe_subject(record.tenant_id.as_str(), record.slice);
    let mut line = format!(
        "{}: {what} from {} to {} is {}",
        sanitize(migration.id()),
        record.from,
        record.to,
        status(screen, migration.status)
    );
    match &record.ended {
        Some(ended) => {
            let why = ended.why.as_ref().map(|why| format!(": {}", sanitize(why)));
            line.push_str(&why.unwrap_or_default());
        }
        None => line.push_str(&format!(", {}", sanitize(phase_label(&migration.phase)))),
    }
    if let Some(why) = &record.waiting_for {
        line.push_str(&format!(", waiting for {}", sanitize(why)));
    }
    line
}

/// One line on a started migration, and its price.
pub(crate) fn describe_started(screen: &Screen, migration: &MigrationBody) -> String {
    let price = migration.record.price.as_ref();
    let price = price.map(|price| format!("\n{}", describe_price(price)));
    format!(
        "{}{}",
        summary_line(screen, migration),
        price.unwrap_or_default()
    )
}

/// One line on a migration after a request.
pub(crate) fn describe_request(screen: &Screen, migration: &MigrationBody) -> String {
    let asked = &migration.record.asked;
    let mut text = summary_line(screen, migration);
    if migration.record.is_over() {
        return text;
    }
    if let Some(back) = &asked.back {
        text.push_str(match back.how {
            ReturnKind::Cancel => "; it is being cancelled",
            ReturnKind::Reverse if asked.accept_loss.is_some() => {
                "; it is being moved back; votes that only the target has may be lost"
            }
            ReturnKind::Reverse => "; it is being moved back",
        });
    } else if asked.paused.is_some() {
        text.push_str("; it is paused");
    } else if asked.complete.is_some() {
        text.push_str("; its window is ending");
    }
    text
}

/// A table of migrations.
pub(crate) fn migration_table(screen: &Screen, migrations: &[MigrationBody]) -> String {
    let columns = [
        "migration",
        "tenant",
        "from",
        "to",
        "status",
        "phase",
        "#progress",
        "#pause",
        "requested",
    ];
    let mut table = Table::new(screen, &columns);
    for migration in migrations {
        let record = &migration.record;
        let tenant = match record.slice {
            0 => record.tenant_id.to_string(),
            slice => format!("{}/{slice}", record.tenant_id),
        };
        let row = [
            migration.id().to_owned(),
            tenant,
            record.from.to_string(),
            record.to.to_string(),
            migration.status.name().to_owned(),
            phase_label(&migration.phase).to_owned(),
            format_progress(migration),
            migration
                .pause_ms
                .map_or_else(|| "–".to_owned(), |ms| format!("{ms} ms")),
            moment(screen, record.requested_at),
        ];
        if record.is_over() {
            table.add_dimmed_row(row);
        } else {
            table.add_row(row);
        }
    }
    table.render()
}

/// The progress of the current phase.
fn format_progress(migration: &MigrationBody) -> String {
    let progress = &migration.progress;
    match progress.total.filter(|total| *total > 0) {
        _ if !has_progress(migration) => "–".to_owned(),
        Some(total) => format_percent((progress.done as f64 / total as f64).min(1.0))
            .trim_start()
            .to_owned(),
        None => format_number(progress.done),
    }
}

/// The expected cost of a migration.
fn describe_price(price: &MigrationEstimate) -> String {
    let from = match price.from_moves {
        0 => "default estimate".to_owned(),
        moves => format!("from {}", count_noun(moves, "past migration")),
    };
    format!(
        "expected: {}, {}, about {}; {} of copying, write pause {} ms ({from}); {}",
        count_noun(price.polls, "poll"),
        count_noun(price.rows, "row"),
        count_noun(price.bytes, "byte"),
        format_milliseconds(price.duration_ms),
        format_number(price.pause_ms),
        count_noun(price.neighbours, "neighbour")
    )
}

fn describe_terms(terms: &MigrationTerms) -> String {
    let pause = match terms.max_pause_ms {
        Some(most) => format!("a write pause of at most {most} ms"),
        None => "a write pause of any length".to_owned(),
    };
    let approval = if terms.needs_approval {
        ", once it is approved"
    } else {
        ""
    };
    let sync = match terms.sync {
        true => " in which votes count once both shards have them",
        false => "",
    };
    format!(
        "a window of {}{sync}, {pause}{approval}",
        format_milliseconds(terms.window_ms)
    )
}

/// The plan of a dry run.
pub(crate) fn describe_plan(screen: &Screen, plan: &MovePlanBody) -> String {
    let what = describe_subject(&plan.tenant_id, plan.slice);
    let headline = format!("would move {what} from {} to {}:", plan.from, plan.to);
    let width = plan
        .actions
        .iter()
        .map(|one| phase_label(&one.phase).len())
        .max()
        .unwrap_or(0);
    let mut lines = vec![screen.bold(&sanitize(&headline))];
    for (number, one) in plan.actions.iter().enumerate() {
        let phase = screen.dim(&format!("{:width$}", sanitize(phase_label(&one.phase))));
        lines.push(format!(
            "{:>3}. {phase}  {}",
            number + 1,
            sanitize(&one.action)
        ));
    }
    lines.push(format!("terms: {}", describe_terms(&plan.terms)));
    lines.push(describe_price(&plan.price));
    lines.extend(plan.finish.describe(screen));
    lines.push(screen.dim("dry run: nothing was changed"));
    lines.join("\n")
}

/// A name and its value, if there is one.
type Fact = (&'static str, Option<String>);

/// All about one migration.
pub(crate) fn migration_facts(screen: &Screen, migration: &MigrationBody) -> String {
    let mut rows = request_facts(screen, migration);
    rows.extend(control_facts(screen, &migration.record));
    rows.extend(measured_facts(screen, migration));
    rows.extend(outcome_facts(screen, migration));
    let findings = migration.record.findings.iter();
    rows.extend(findings.map(|one| ("found", Some(describe_finding(one)))));
    table::fact_list(screen, &rows)
}

/// What was requested, and its current state.
fn request_facts(screen: &Screen, migration: &MigrationBody) -> Vec<Fact> {
    let record = &migration.record;
    vec![
        ("migration", Some(migration.id().to_owned())),
        (
            "tenant",
            Some(describe_subject(record.tenant_id.as_str(), record.slice)),
        ),
        ("from", Some(record.from.to_string())),
        ("to", Some(record.to.to_string())),
        ("status", Some(migration.status.name().to_owned())),
        ("phase", Some(phase_label(&migration.phase).to_owned())),
        (
            "progress",
            has_progress(migration).then(|| describe_progress(migration)),
        ),
        ("waiting for", record.waiting_for.clone()),
        ("requested", Some(moment_long(screen, record.requested_at))),
        ("by", Some(record.actor.to_string())),
        ("reason", record.reason.clone()),
        ("terms", Some(describe_terms(&record.terms))),
        (
            "price",
            record
                .price
                .as_ref()
                .map(|price| describe_price(price).replace("expected: ", "")),
        ),
    ]
}

/// Who did what, why and when.
fn describe_word(screen: &Screen, word: &OperatorRequest) -> String {
    let reason = word.reason.as_ref().map(|reason| format!(" ({reason})"));
    let when = moment_long(screen, word.at);
    format!("by {}{}, {when}", word.actor, reason.unwrap_or_default())
}

/// What operators requested of it to end it where it began.
pub(crate) fn describe_return(how: ReturnKind) -> &'static str {
    match how {
        ReturnKind::Cancel => "cancel requested",
        ReturnKind::Reverse => "reversal requested",
    }
}

/// What operators requested of it since.
fn control_facts(screen: &Screen, record: &Record) -> Vec<Fact> {
    let word = |word: &OperatorRequest| describe_word(screen, word);
    let back = record
        .asked
        .back
        .as_ref()
        .map(|back| format!("{} {}", describe_return(back.how), word(&back.word)));
    let accepted = record.asked.accept_loss.as_ref();
    let accepted = accepted.map(|said| format!("accepted {}", word(said)));
    vec![
        ("paused", record.asked.paused.as_ref().map(word)),
        ("approved", record.asked.approved.as_ref().map(word)),
        ("started now", record.asked.start_now.as_ref().map(word)),
        ("return", back),
        ("loss", accepted),
        ("complete", record.asked.complete.as_ref().map(word)),
    ]
}

/// What was measured.
fn measured_facts(screen: &Screen, migration: &MigrationBody) -> Vec<Fact> {
    let record = &migration.record;
    let figures = &record.figures;
    let compared = (figures.compared > 0).then(|| {
        let differences = count_noun(figures.differences, "difference");
        format!(
            "both shards {}, {differences}",
            count_times(figures.compared)
        )
    });
    vec![
        (
            "copied",
            (figures.rows > 0).then(|| {
                format!(
                    "{}, {}",
                    count_noun(figures.rows, "row"),
                    count_noun(figures.bytes, "byte")
                )
            }),
        ),
        (
            "cut over",
            figures.cut_over_at.map(|at| moment_long(screen, at)),
        ),
        (
            "write pause",
            migration.pause_ms.map(|ms| format!("{ms} ms")),
        ),
        (
            "postponed",
            (figures.put_off > 0).then(|| count_times(u64::from(figures.put_off))),
        ),
        (
            "repaired",
            (figures.repaired > 0).then(|| count_noun(figures.repaired, "row")),
        ),
        ("compared", compared),
        (
            "window ends",
            window_ends(migration).map(|at| moment_long(screen, at)),
        ),
        (
            "relaxed",
            figures.alone_since.map(|since| {
                let since = moment_long(screen, since);
                format!("{since}: since then {} alone acknowledges", record.to)
            }),
        ),
    ]
}

/// How it ended.
fn outcome_facts(screen: &Screen, migration: &MigrationBody) -> Vec<Fact> {
    let record = &migration.record;
    let ended = record.ended.as_ref().map(|ended| {
        let why = ended.why.as_ref().map(|why| format!(": {why}"));
        format!(
            "{}{}",
            moment_long(screen, ended.at),
            why.unwrap_or_default()
        )
    });
    vec![
        (
            "abandoned",
            record.given_up.as_ref().map(AcceptedLoss::describe),
        ),
        ("leftover", describe_leftover(record)),
        ("ended", ended),
        (
            "certificate",
            record
                .certificate
                .as_ref()
                .map(|_| format!("ballast migration certificate {}", migration.id())),
        ),
        ("version", Some(migration.version.to_string())),
    ]
}

/// The state of a leftover copy, of an abandoned shard or of one that was unreachable.
fn describe_leftover(record: &Record) -> Option<String> {
    let to = record.copy_left().map_or(&record.to, |(shard, _)| shard);
    let goes = match record.may_remove_copy() {
        true => ", which is to be removed",
        false => "",
    };
    Some(match record.left_behind? {
        LeftoverState::Away => {
            format!("{to} has been unreachable since; it may still have its copy{goes}")
        }
        LeftoverState::Kept => format!("{to} accepts no votes for it and still has its copy{goes}"),
        LeftoverState::Gone => format!("{to} has no copy any more"),
    })
}

/// When the window ends, while it is open.
fn window_ends(migration: &MigrationBody) -> Option<ballast_domain::Timestamp> {
    let record = &migration.record;
    let at = record
        .figures
        .cut_over_at
        .filter(|_| record.stage == MigrationStage::CutOver)?;
    let ms = i64::try_from(record.terms.window_ms).ok()?;
    Some(ballast_domain::Timestamp::from_unix_ms(
        at.unix_ms().saturating_add(ms),
    ))
}

/// Whether the progress describes the current phase. Phases that do not copy report progress only
/// by a note or a rate.
pub(crate) fn has_progress(migration: &MigrationBody) -> bool {
    let words = &migration.progress;
    let copies = ["WaitForSync", "VerifyConsistency"].contains(&migration.phase.as_str());
    !migration.record.is_over() && (copies || words.note.is_some() || words.per_second.is_some())
}

/// Describes the progress of a phase.
pub(crate) fn describe_progress(migration: &MigrationBody) -> String {
    let it = &migration.progress;
    let total = it.total.map(|total| format!("of {}", format_number(total)));
    let rate = it.per_second;
    let counts = [
        Some(format_number(it.done)),
        total,
        Some(it.unit.clone()),
        rate.map(|rate| format!("at {} per second", format_number(rate))),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let mut words = counts.join(" ").trim_end().to_owned();
    if let Some(left) = it.eta_seconds {
        words += &format!(", {} left", format_milliseconds(left * 1_000));
    }
    if let Some(note) = &it.note {
        words += &format!(" ({note})");
    }
    words
}

/// The running migration of a slice, in few words.
pub(crate) fn describe_migration(slice: &Slice) -> Option<String> {
    let moving = slice.moving.as_ref()?;
    let how = match moving.phase {
        MigrationPhase::Copying => format!("is moving to {}", moving.to),
        MigrationPhase::Sealing { .. } => format!("is moving to {}: cutting over", moving.to),
        MigrationPhase::Aborting => format!("stays; the migration to {} is cleaning up", moving.to),
        MigrationPhase::Window => format!("came from {}: in its window", moving.from),
        MigrationPhase::Cleaning => format!("came from {}: cleaning up", moving.from),
    };
    Some(format!("{how} ({})", moving.migration_id))
}

/// How a slice's last migration ended, in few words.
pub(crate) fn describe_last_migration(slice: &Slice) -> Option<String> {
    let last = slice.last_move.as_ref()?;
    // A reversal is a migration of its own, named after the one it undoes.
    let (id, back) = match last.migration_id.0.strip_suffix("-back") {
        Some(id) => (id, true),
        None => (last.migration_id.0.as_str(), false),
    };
    let how = match (last.moved, back) {
        (true, false) => "was moved here",
        (true, true) => "was moved back here",
        (false, _) => "stayed here, a migration was undone",
    };
    Some(format!("{how} ({id})"))
}

#[cfg(test)]
pub(crate) fn example_migration(changes: serde_json::Value) -> MigrationBody {
    let mut body = serde_json::json!({
        "migrationID": "mv-1k6tq8zr4-0a1bc", "tenantID": "acme", "slice": 0,
        "fromShardID": "shard-1", "toShardID": "shard-3", "regions": ["local"],
        "actor": {"type": "token", "name": "ops", "tokenID": "tok-1"}, "reason": "shard-1 is hot",
        "requestedAt": "2026-11-16T09:29:30Z",
        "terms": {"windowMs": 7_200_000, "maxPauseMs": 50, "needsApproval": false},
        "stage": "admitted", "run": 0,
        "price": {"polls": 4, "rows": 12_000, "bytes": 1_440_000, "durationMs": 320,
            "pauseMs": 14, "fromMoves": 7, "neighbours": 21},
        "figures": {"rows": 4_920, "bytes": 590_400, "copyingSince": "2026-11-16T09:29:31Z",
            "putOff": 0, "repaired": 0, "compared": 0, "differences": 0},
        "version": 4, "status": "running", "phase": "WaitForSync", "pauseMs": null,
        "progress": {"done": 4_920, "total": 12_000, "unit": "rows", "perSecond": 2_460,
            "etaSeconds": 3},
        "executionID": "move-tenant:mv-1k6tq8zr4-0a1bc", "fromANewerServer": true,
    });
    for (name, value) in changes.as_object().unwrap() {
        body[name] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting() -> MigrationBody {
        example_migration(json!({
            "stage": "asked", "status": "waiting", "phase": "PlanMove", "slice": 1,
            "waitingFor": "the maintenance window Sun 02:00-04:00",
            "asked": {"paused": {"actor": {"type": "token", "name": "ops", "tokenID": "tok-1"},
                "reason": "lunch", "at": "2026-11-16T09:29:40Z"}},
        }))
    }

    pub(crate) fn completed() -> MigrationBody {
        example_migration(json!({
            "stage": "ended", "status": "completed", "phase": "CleanupOldShard", "pauseMs": 12,
            "figures": {"rows": 12_310, "bytes": 1_440_211, "copyingSince": "2026-11-16T09:00:00Z",
                "cutOverAt": "2026-11-16T09:00:03Z", "pauseMs": 12, "putOff": 1, "repaired": 0,
                "compared": 720, "differences": 0},
            "ended": {"status": "completed", "phase": "CleanupOldShard",
                "at": "2026-11-16T11:00:03Z"},
            "certificate": serde_json::to_value(
                ballast_control_plane::migrations::certificate_signer::CertificateSigner::from_seed(&[7; 32]).unwrap()
                    .sign(crate::view::certificate::example_certificate())).unwrap(),
        }))
    }

    fn given_up() -> MigrationBody {
        let ann = json!({"type": "token", "name": "ann", "tokenID": "tok-2"});
        example_migration(json!({
            "stage": "ended", "status": "reversed", "phase": "Rollback", "pauseMs": 12,
            "asked": {
                "back": {"how": "reverse", "actor": ann, "reason": "its disk is dead",
                    "at": "2026-11-16T09:29:50Z"},
                "acceptLoss": {"actor": ann, "reason": "its disk is dead",
                    "at": "2026-11-16T09:29:50Z"},
            },
            "givenUp": {"shardID": "shard-3", "actor": ann, "reason": "its disk is dead",
                "acceptedAt": "2026-11-16T09:29:50Z", "at": "2026-11-16T09:29:58Z", "epoch": 5,
                "afterPosition": 812, "after": "2026-11-16T09:29:44Z", "present": 12_003},
            "leftBehind": "kept",
            "ended": {"status": "reversed", "phase": "Rollback", "at": "2026-11-16T09:29:59Z"},
        }))
    }

    fn reversed() -> MigrationBody {
        example_migration(json!({
            "stage": "ended", "status": "reversed", "phase": "Rollback", "pauseMs": 12,
            "ended": {"status": "reversed", "phase": "Rollback", "at": "2026-11-16T09:29:59Z",
                "why": "operators asked for it"},
        }))
    }

    #[test]
    fn many_moves() {
        let all = [
            example_migration(json!({})),
            waiting(),
            completed(),
            reversed(),
        ];
        insta::assert_snapshot!(migration_table(&Screen::plain(), &all));
    }

    #[test]
    fn all_about_moves() {
        let screen = Screen::plain();
        let all = [
            example_migration(json!({})),
            waiting(),
            completed(),
            given_up(),
        ];
        let words = all.map(|one| migration_facts(&screen, &one)).join("\n\n");
        insta::assert_snapshot!(words);
    }

    #[test]
    fn one_line_each() {
        let screen = Screen::plain();
        let all = [
            example_migration(json!({})),
            waiting(),
            completed(),
            reversed(),
        ];
        let mut words = all.map(|one| describe_request(&screen, &one)).join("\n");
        words.push_str(&format!(
            "\n\n{}",
            describe_started(&screen, &example_migration(json!({})))
        ));
        insta::assert_snapshot!(words);
    }

    #[test]
    fn what_would_be_done() {
        let body = json!({
            "dryRun": true, "tenantID": "acme", "slice": 0, "fromShardID": "shard-1",
            "toShardID": "shard-3", "terms": {"windowMs": 7_200_000, "needsApproval": true},
            "price": {"polls": 4, "rows": 12_000, "bytes": 1_440_000, "durationMs": 320,
                "pauseMs": 20, "fromMoves": 0, "neighbours": 21},
            "actions": [{"phase": "PlanMove", "action": "claim acme on shard-1"},
                {"phase": "WaitForSync", "action": "copy 4 polls and 12000 rows"}],
        });
        let body: MovePlanBody = serde_json::from_value(body).unwrap();
        insta::assert_snapshot!(describe_plan(&Screen::plain(), &body));
    }
}
