//! `migration audit`: whether everything that has happened to tenants' records
//! is what the protocol of a move allows. The audit log is replayed here, by
//! the code that decides moves.

use std::collections::BTreeMap;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::tenant::Tenant;
use ballast_migration_engine::audit::{Audit, Change, Changed};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::cli::Remote;
use crate::cli::args::Paging;
use crate::cli::body::Page;
use crate::cli::client::Request;
use crate::cli::failure::{Failure, Verdict};
use crate::cli::output::Screen;
use crate::cli::table::counted;

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
    changes: BTreeMap<Change, u64>,
    faults: Vec<String>,
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
    let faults = audit.found.iter().map(ToString::to_string).collect();
    Ok(Report {
        tenant_id,
        changes: audit.changes,
        faults,
    })
}

fn told(screen: &Screen, report: &Report) -> String {
    let count = |change| report.changes.get(&change).copied().unwrap_or(0);
    let changes: u64 = report.changes.values().sum();
    let head = format!(
        "{}: {}; {} begun, {} cut over, {} brought back, {} called off",
        report.tenant_id,
        counted(changes, "change"),
        counted(count(Change::Claimed), "move"),
        count(Change::Committed),
        count(Change::Reversed),
        count(Change::Aborted),
    );
    if report.faults.is_empty() {
        return format!("{head}; {}", screen.green("all as it must be"));
    }
    let faults = report.faults.iter().map(|fault| screen.red(fault));
    let mut lines = vec![head];
    lines.extend(faults.map(|fault| format!("  {fault}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_under_their_tenant() {
        let report = |faults: &[&str]| Report {
            tenant_id: "acme".to_owned(),
            changes: BTreeMap::from([(Change::Claimed, 2), (Change::Committed, 1)]),
            faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        };
        let screen = Screen::plain();
        assert_eq!(
            told(&screen, &report(&[])),
            "acme: 3 changes; 2 moves begun, 1 cut over, 0 brought back, 0 called off; \
             all as it must be"
        );
        assert_eq!(
            told(&screen, &report(&["version 7, slice 0: it is gone"])),
            "acme: 3 changes; 2 moves begun, 1 cut over, 0 brought back, 0 called off\n  \
             version 7, slice 0: it is gone"
        );
        let json = serde_json::to_string(&report(&[])).unwrap();
        assert_eq!(
            json,
            r#"{"tenantID":"acme","changes":{"claimed":2,"committed":1},"faults":[]}"#
        );
    }
}
