//! `migration audit`: whether everything that has happened to tenants' records
//! is what the protocol of a move allows. The audit log is replayed here, by
//! the code that decides moves.

use std::collections::BTreeMap;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::certificate::GivenUp;
use ballast_domain::tenant::Tenant;
use ballast_migration_engine::audit::{Audit, AuditedTransition, Changed};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::Remote;
use crate::args::Paging;
use crate::body::Page;
use crate::client::Request;
use crate::failure::{Failure, Verdict};
use crate::output::Screen;
use crate::table::{clean, counted};

/// Whose record is looked at.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The tenant; all of them when absent
    tenant: Option<String>,
}

/// One change, as the audit log has it.
#[derive(Debug, Deserialize)]
struct Event {
    version: u64,
    before: Option<Tenant>,
    after: Option<Tenant>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    #[serde(rename = "tenantID")]
    tenant_id: String,
}

/// What was found of a tenant.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    #[serde(rename = "tenantID")]
    tenant_id: String,
    changes: BTreeMap<AuditedTransition, u64>,
    /// Losses that somebody accepted: legal, and never to be overlooked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    losses: Vec<Loss>,
    faults: Vec<String>,
}

/// A loss that was accepted.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Loss {
    #[serde(rename = "migrationID")]
    migration_id: String,
    given_up: GivenUp,
}

/// A move, as far as it may have lost something.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    #[serde(rename = "migrationID")]
    migration_id: String,
    given_up: Option<GivenUp>,
}

impl AuditArgs {
    /// Does it.
    pub(super) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let names = match self.tenant {
            Some(name) => {
                // One that is not there is told so, and not found without fault.
                let asked = Request::get(&["tenants", &name]);
                let found: Named = remote.client.send(asked).await?.read()?;
                vec![found.tenant_id]
            }
            None => {
                let found: Vec<Named> = everything(remote, Request::get(&["tenants"])).await?;
                found.into_iter().map(|named| named.tenant_id).collect()
            }
        };
        let mut reports = Vec::new();
        for name in names {
            reports.push(report(remote, name).await?);
        }
        let screen = &remote.screen;
        if screen.json {
            let told = serde_json::json!({ "items": reports });
            screen.data(told.to_string().as_bytes())?;
        } else {
            let lines: Vec<_> = reports.iter().map(|report| told(screen, report)).collect();
            screen.data(lines.join("\n").as_bytes())?;
        }
        match reports.iter().all(|report| report.faults.is_empty()) {
            true => Ok(Verdict::Done),
            false => Ok(Verdict::Negative),
        }
    }
}

async fn everything<T: for<'de> Deserialize<'de>>(
    remote: &Remote,
    request: Request,
) -> Result<Vec<T>, Failure> {
    let paging = Paging {
        all: true,
        ..Paging::default()
    };
    let reply = remote.client.list(request, &paging, PAGE_ITEMS_MAX).await?;
    let page: Page<T> = reply.read()?;
    Ok(page.items)
}

async fn report(remote: &Remote, tenant_id: String) -> Result<Report, Failure> {
    let request = Request::get(&["events"])
        .query("kind", Some("tenant"))
        .query("id", Some(&tenant_id));
    let mut events: Vec<Event> = everything(remote, request).await?;
    // They come newest first.
    events.reverse();
    let audit = Audit::of(events.into_iter().map(|event| Changed {
        version: event.version,
        before: event.before,
        after: event.after,
    }));
    let mut faults: Vec<String> = audit.found.iter().map(ToString::to_string).collect();
    let given_up = audit.changes.get(&AuditedTransition::GivenUp).copied().unwrap_or(0);
    let losses = match given_up {
        0 => Vec::new(),
        _ => losses(remote, &tenant_id).await?,
    };
    faults.extend(unnamed(given_up, &losses));
    Ok(Report {
        tenant_id,
        changes: audit.changes,
        losses,
        faults,
    })
}

/// What was given up of a tenant, and by whom.
async fn losses(remote: &Remote, tenant_id: &str) -> Result<Vec<Loss>, Failure> {
    let request = Request::get(&["migrations"])
        .query("tenant", Some(tenant_id))
        .query("status", Some("reversed"));
    let moves: Vec<Moved> = everything(remote, request).await?;
    let losses = moves.into_iter().filter_map(|moved| {
        Some(Loss {
            migration_id: moved.migration_id,
            given_up: moved.given_up?,
        })
    });
    Ok(losses.collect())
}

/// `1 loss`, `2 losses`.
fn losses_of(count: u64) -> String {
    match count {
        1 => "1 loss".to_owned(),
        count => format!("{count} losses"),
    }
}

/// A record that left its owner without a move that tells of it.
fn unnamed(given_up: u64, losses: &[Loss]) -> Option<String> {
    let named = losses.len() as u64;
    (given_up > named).then(|| {
        let more = losses_of(given_up - named);
        format!("{more}, and no move that is over tells of it")
    })
}

fn told(screen: &Screen, report: &Report) -> String {
    let count = |change| report.changes.get(&change).copied().unwrap_or(0);
    let changes: u64 = report.changes.values().sum();
    let head = format!(
        "{}: {}; {} begun, {} turned back, {} cut over (ways back included), {} called off",
        report.tenant_id,
        counted(changes, "change"),
        counted(count(AuditedTransition::Claimed), "move"),
        count(AuditedTransition::Reversed),
        count(AuditedTransition::Committed),
        count(AuditedTransition::Aborted),
    );
    let losses = report.losses.iter().map(|loss| {
        let told = format!("{}: {}", loss.migration_id, loss.given_up.told());
        screen.yellow(&clean(&told))
    });
    let faults = report.faults.iter().map(|fault| screen.red(fault));
    // Where both sides had to have what was acknowledged, nothing of it is lost.
    let lost = report.losses.iter().filter(|loss| !loss.given_up.synced);
    let mut lines = match (report.faults.is_empty(), lost.count()) {
        (true, 0) => vec![format!("{head}; {}", screen.green("all as it must be"))],
        (true, lost) => {
            let accepted = losses_of(lost as u64);
            vec![format!(
                "{head}; {}",
                screen.yellow(&format!("as it may be, with {accepted} accepted"))
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
        let report = |faults: &[&str]| Report {
            tenant_id: "acme".to_owned(),
            changes: BTreeMap::from([(AuditedTransition::Claimed, 2), (AuditedTransition::Committed, 1)]),
            losses: Vec::new(),
            faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        };
        let screen = Screen::plain();
        assert_eq!(
            told(&screen, &report(&[])),
            "acme: 3 changes; 2 moves begun, 0 turned back, 1 cut over (ways back included), 0 called off; \
             all as it must be"
        );
        assert_eq!(
            told(&screen, &report(&["version 7, slice 0: it is gone"])),
            "acme: 3 changes; 2 moves begun, 0 turned back, 1 cut over (ways back included), 0 called off\n  \
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
            told(&screen, &lossy),
            "acme: 3 changes; 2 moves begun, 0 turned back, 1 cut over (ways back included), 0 called off; \
             as it may be, with 1 loss accepted\n  \
             mv-1: what shard-2 took between 2026-11-16T08:59:00.000Z and 2026-11-16T09:00:01.000Z \
             was given up, accepted by ann"
        );
        assert_eq!(unnamed(1, &lossy.losses), None);
        assert!(unnamed(2, &lossy.losses).is_some());
        let json = serde_json::to_string(&report(&[])).unwrap();
        assert_eq!(
            json,
            r#"{"tenantID":"acme","changes":{"claimed":2,"committed":1},"faults":[]}"#
        );
    }
}
