//! `migration audit`: checks every change of tenant records against the migration protocol. It
//! replays the audit log with the code that runs migrations.

use std::collections::BTreeMap;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::certificate::AcceptedLoss;
use ballast_domain::tenant::Tenant;
use ballast_migration_engine::audit::{AuditedTransition, HistoryAudit, TenantChange};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::Remote;
use crate::args::PagingArgs;
use crate::body::Page;
use crate::client::Request;
use crate::failure::{CliError, CommandOutcome};
use crate::output::Screen;
use crate::table::{count_noun, sanitize};

/// Which records to audit.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The tenant [default: all]
    tenant: Option<String>,
}

/// One change in the audit log.
#[derive(Debug, Deserialize)]
struct TenantEvent {
    version: u64,
    before: Option<Tenant>,
    after: Option<Tenant>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TenantName {
    #[serde(rename = "tenantID")]
    tenant_id: String,
}

/// The result for one tenant.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditReport {
    #[serde(rename = "tenantID")]
    tenant_id: String,
    changes: BTreeMap<AuditedTransition, u64>,
    /// Losses that an operator accepted: allowed, but always reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    losses: Vec<MigrationLoss>,
    faults: Vec<String>,
}

/// A loss that an operator accepted.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct MigrationLoss {
    #[serde(rename = "migrationID")]
    migration_id: String,
    given_up: AcceptedLoss,
}

/// A reversed migration, with its accepted loss.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReversedMigration {
    #[serde(rename = "migrationID")]
    migration_id: String,
    given_up: Option<AcceptedLoss>,
}

impl AuditArgs {
    /// Runs the command.
    pub(super) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let names = match self.tenant {
            Some(name) => {
                // A missing tenant must be an error, not a clean result.
                let asked = Request::get(&["tenants", &name]);
                let found: TenantName = remote.client.send(asked).await?.read()?;
                vec![found.tenant_id]
            }
            None => {
                let found: Vec<TenantName> = fetch_all(remote, Request::get(&["tenants"])).await?;
                found.into_iter().map(|named| named.tenant_id).collect()
            }
        };
        let mut reports = Vec::new();
        for name in names {
            reports.push(audit_tenant(remote, name).await?);
        }
        let screen = &remote.screen;
        if screen.json {
            let text = serde_json::json!({ "items": reports });
            screen.data(text.to_string().as_bytes())?;
        } else {
            let lines: Vec<_> = reports
                .iter()
                .map(|report| describe_report(screen, report))
                .collect();
            screen.data(lines.join("\n").as_bytes())?;
        }
        match reports.iter().all(|report| report.faults.is_empty()) {
            true => Ok(CommandOutcome::Done),
            false => Ok(CommandOutcome::Negative),
        }
    }
}

async fn fetch_all<T: for<'de> Deserialize<'de>>(
    remote: &Remote,
    request: Request,
) -> Result<Vec<T>, CliError> {
    let paging = PagingArgs {
        all: true,
        ..PagingArgs::default()
    };
    let reply = remote.client.list(request, &paging, PAGE_ITEMS_MAX).await?;
    let page: Page<T> = reply.read()?;
    Ok(page.items)
}

async fn audit_tenant(remote: &Remote, tenant_id: String) -> Result<AuditReport, CliError> {
    let request = Request::get(&["events"])
        .query("kind", Some("tenant"))
        .query("id", Some(&tenant_id));
    let mut events: Vec<TenantEvent> = fetch_all(remote, request).await?;
    // The API lists the newest event first.
    events.reverse();
    let audit = HistoryAudit::replay_history(events.into_iter().map(|event| TenantChange {
        version: event.version,
        before: event.before,
        after: event.after,
    }));
    let mut faults: Vec<String> = audit.findings.iter().map(ToString::to_string).collect();
    let given_up = audit
        .changes
        .get(&AuditedTransition::GivenUp)
        .copied()
        .unwrap_or(0);
    let losses = match given_up {
        0 => Vec::new(),
        _ => fetch_losses(remote, &tenant_id).await?,
    };
    faults.extend(unexplained_losses(given_up, &losses));
    Ok(AuditReport {
        tenant_id,
        changes: audit.changes,
        losses,
        faults,
    })
}

/// Fetches the accepted losses of a tenant.
async fn fetch_losses(remote: &Remote, tenant_id: &str) -> Result<Vec<MigrationLoss>, CliError> {
    let request = Request::get(&["migrations"])
        .query("tenant", Some(tenant_id))
        .query("status", Some("reversed"));
    let moves: Vec<ReversedMigration> = fetch_all(remote, request).await?;
    let losses = moves.into_iter().filter_map(|moved| {
        Some(MigrationLoss {
            migration_id: moved.migration_id,
            given_up: moved.given_up?,
        })
    });
    Ok(losses.collect())
}

/// `1 loss`, `2 losses`.
fn count_losses(count: u64) -> String {
    match count {
        1 => "1 loss".to_owned(),
        count => format!("{count} losses"),
    }
}

/// Reports changes that gave up data without a migration that records it.
fn unexplained_losses(given_up: u64, losses: &[MigrationLoss]) -> Option<String> {
    let named = losses.len() as u64;
    (given_up > named).then(|| {
        let more = count_losses(given_up - named);
        format!("{more} without a finished migration that records it")
    })
}

fn describe_report(screen: &Screen, report: &AuditReport) -> String {
    let count = |change| report.changes.get(&change).copied().unwrap_or(0);
    let changes: u64 = report.changes.values().sum();
    let head = format!(
        "{}: {}; {} started, {} reversed, {} cut over (reversals included), {} cancelled",
        report.tenant_id,
        count_noun(changes, "change"),
        count_noun(count(AuditedTransition::Claimed), "migration"),
        count(AuditedTransition::Reversed),
        count(AuditedTransition::Committed),
        count(AuditedTransition::Aborted),
    );
    let losses = report.losses.iter().map(|loss| {
        let text = format!("{}: {}", loss.migration_id, loss.given_up.describe());
        screen.yellow(&sanitize(&text))
    });
    let faults = report.faults.iter().map(|fault| screen.red(fault));
    // With a sync window, no acknowledged vote is lost.
    let lost = report.losses.iter().filter(|loss| !loss.given_up.synced);
    let mut lines = match (report.faults.is_empty(), lost.count()) {
        (true, 0) => vec![format!("{head}; {}", screen.green("no violations"))],
        (true, lost) => {
            let accepted = count_losses(lost as u64);
            vec![format!(
                "{head}; {}",
                screen.yellow(&format!("no violations, {accepted} accepted"))
            )]
        }
        (false, _) => vec![head],
    };
    lines.extend(losses.chain(faults).map(|line| format!("  {line}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_under_their_tenant() {
        let report = |faults: &[&str]| AuditReport {
            tenant_id: "acme".to_owned(),
            changes: BTreeMap::from([
                (AuditedTransition::Claimed, 2),
                (AuditedTransition::Committed, 1),
            ]),
            losses: Vec::new(),
            faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        };
        let screen = Screen::plain();
        assert_eq!(
            describe_report(&screen, &report(&[])),
            "acme: 3 changes; 2 migrations started, 0 reversed, 1 cut over (reversals included), 0 cancelled; \
             no violations"
        );
        assert_eq!(
            describe_report(&screen, &report(&["version 7, slice 0: it is gone"])),
            "acme: 3 changes; 2 migrations started, 0 reversed, 1 cut over (reversals included), 0 cancelled\n  \
             version 7, slice 0: it is gone"
        );
        let mut lossy = report(&[]);
        lossy.losses = vec![
            serde_json::from_value(serde_json::json!({"migrationID": "mv-1", "givenUp": {
                "shardID": "shard-2", "actor": {"type": "token", "name": "ann", "tokenID": "t"},
                "acceptedAt": "2026-11-16T09:00:00Z", "at": "2026-11-16T09:00:01Z",
                "epoch": 5, "after": "2026-11-16T08:59:00Z",
            }}))
            .unwrap(),
        ];
        assert_eq!(
            describe_report(&screen, &lossy),
            "acme: 3 changes; 2 migrations started, 0 reversed, 1 cut over (reversals included), 0 cancelled; \
             no violations, 1 loss accepted\n  \
             mv-1: shard-2 was abandoned at 2026-11-16T09:00:01.000Z; what it took after \
             2026-11-16T08:59:00.000Z is lost, accepted by ann"
        );
        assert_eq!(unexplained_losses(1, &lossy.losses), None);
        assert!(unexplained_losses(2, &lossy.losses).is_some());
        let json = serde_json::to_string(&report(&[])).unwrap();
        assert_eq!(
            json,
            r#"{"tenantID":"acme","changes":{"claimed":2,"committed":1},"faults":[]}"#
        );
    }
}
