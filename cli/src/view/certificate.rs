//! Renders certificates of migrations.

use ballast_domain::ShardId;
use ballast_domain::certificate::{AcceptedLoss, Certificate, SignedCertificate, VoteProof};

use crate::output::Screen;
use crate::table::{self, count_noun, format_number, sanitize};
use crate::time::format_exact;

/// Digits of a digest to show.
const DIGEST_CHARS: usize = 16;

/// Formats milliseconds in a suitable unit.
pub(crate) fn format_milliseconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => crate::time::format_duration(i64::try_from(ms).unwrap_or(i64::MAX)),
    }
}

/// `once`, `12 times`.
pub(crate) fn count_times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{} times", format_number(count)),
    }
}

/// Describes what a certificate proves.
pub(crate) fn describe_certificate(screen: &Screen, signed: &SignedCertificate) -> String {
    let it = &signed.certificate;
    let headline = format!(
        "certificate of {}, {}: {} from {} to {}",
        it.migration_id,
        it.status,
        describe_slice(it),
        it.from,
        it.to
    );
    let reason = it.reason.as_ref().map(|reason| format!(" ({reason})"));
    let requester = format!("{}{}", it.actor, reason.unwrap_or_default());
    let owner = format!("{} at epoch {}", it.owner, it.epoch.0);
    let facts = table::fact_list(
        screen,
        &[
            (
                "  votes",
                describe_votes(it.votes.as_ref(), &it.from, &it.to),
            ),
            ("  digests", describe_digests(it.votes.as_ref())),
            (
                "  way back",
                describe_votes(it.votes_back.as_ref(), &it.to, &it.from),
            ),
            ("  digests", describe_digests(it.votes_back.as_ref())),
            ("  LOSS", describe_loss(it, false)),
            ("  abandoned", describe_loss(it, true)),
            (
                "  pause",
                it.pause_ms
                    .map(|ms| format!("writes paused for at most {ms} ms")),
            ),
            ("  took", Some(describe_copied(it))),
            ("  window", it.cut_over_at.map(|_| describe_comparisons(it))),
            (
                "  repaired",
                (it.repaired > 0)
                    .then(|| format!("{} before the cutover", count_noun(it.repaired, "row"))),
            ),
            ("  owner", Some(owner)),
            ("  requested by", Some(requester)),
            ("  because", it.why.clone()),
            ("  ended", Some(format_exact(it.ended_at))),
            (
                "  signed",
                Some(format!("with the key {}", signed.public_key)),
            ),
        ],
    );
    format!("{}\n{facts}", screen.bold(&sanitize(&headline)))
}

fn describe_slice(it: &Certificate) -> String {
    match it.slice {
        0 => it.tenant_id.to_string(),
        slice => format!("slice {slice} of {}", it.tenant_id),
    }
}

/// The proved vote counts of one direction.
fn describe_votes(proved: Option<&VoteProof>, from: &ShardId, to: &ShardId) -> Option<String> {
    let votes = proved?;
    Some(format!(
        "{} acknowledged by {from}, {} present on {to}, {} twice, in {}",
        format_number(votes.acknowledged),
        format_number(votes.present),
        format_number(votes.duplicates),
        count_noun(votes.polls, "poll")
    ))
}

/// The shard that was abandoned, in a window that was synchronous or not: only in the latter are
/// acknowledged votes lost.
fn describe_loss(it: &Certificate, synced: bool) -> Option<String> {
    let lost = it.given_up.as_ref().filter(|lost| lost.synced == synced);
    lost.map(describe_abandoned)
}

/// Which shard was abandoned, what is lost, and why.
fn describe_abandoned(lost: &AcceptedLoss) -> String {
    let text = lost.describe();
    let reason = lost.reason.as_ref().map(|reason| format!(" ({reason})"));
    let there = lost.present.map(|rows| {
        let verb = if rows == 1 { "was" } else { "were" };
        format!("; {} {verb} present", count_noun(rows, "row"))
    });
    format!(
        "{text}{}{}",
        reason.unwrap_or_default(),
        there.unwrap_or_default()
    )
}

fn describe_digests(proved: Option<&VoteProof>) -> Option<String> {
    let votes = proved?;
    let short = |digest: &str| digest.chars().take(DIGEST_CHARS).collect::<String>();
    let (source, target) = (&votes.source_digest, &votes.target_digest);
    Some(match source == target {
        true => format!(
            "{} on both sides, sealed at epoch {}{}",
            short(source),
            votes.sealed_epoch.0,
            votes
                .sealed_position
                .map_or_else(String::new, |position| format!(", position {position}"))
        ),
        false => format!("{} and {}: they differ", short(source), short(target)),
    })
}

fn describe_copied(it: &Certificate) -> String {
    // Rows streamed back are not counted.
    format!(
        "{} in total; {}, {} copied to {}",
        format_milliseconds(it.duration_ms),
        count_noun(it.rows_carried, "row"),
        count_noun(it.bytes_carried, "byte"),
        it.to
    )
}

fn describe_comparisons(it: &Certificate) -> String {
    format!(
        "compared both shards {}, {}",
        count_times(it.compared),
        count_noun(it.differences, "difference")
    )
}

/// Describes a verified certificate.
pub(crate) fn describe_verified(
    screen: &Screen,
    signed: &SignedCertificate,
    trusted: bool,
) -> String {
    let text = match trusted {
        true => "Signature valid: signed with the trusted key.".to_owned(),
        false => format!(
            "Signature valid for the key {}.\nPass --public-key to check that this key is trusted.",
            signed.public_key
        ),
    };
    format!(
        "{}\n\n{}",
        describe_certificate(screen, signed),
        screen.green(&text)
    )
}

#[cfg(test)]
pub(crate) fn example_certificate() -> Certificate {
    let body = serde_json::json!({
        "version": 1, "migrationID": "mv-1k6tq8zr4-0a1bc", "status": "completed",
        "tenantID": "acme", "slice": 0, "fromShardID": "shard-1", "toShardID": "shard-3",
        "ownerShardID": "shard-3", "epoch": 3,
        "actor": {"type": "token", "name": "ops", "tokenID": "tok-1"}, "reason": "shard-1 is hot",
        "votes": {"acknowledged": 12_004, "present": 12_004, "duplicates": 0, "polls": 4,
            "sourceDigest": "9f2c61d0aa41b7e39f2c61d0aa41b7e3",
            "targetDigest": "9f2c61d0aa41b7e39f2c61d0aa41b7e3", "sealedEpoch": 2},
        "pauseMs": 12, "durationMs": 7_203_204, "rowsCarried": 12_310, "bytesCarried": 1_440_211,
        "compared": 720, "differences": 0, "repaired": 0,
        "requestedAt": "2026-11-16T09:00:00Z", "cutOverAt": "2026-11-16T09:00:03Z",
        "endedAt": "2026-11-16T11:00:03.204Z",
    });
    serde_json::from_value(body).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(certificate: Certificate) -> SignedCertificate {
        SignedCertificate {
            certificate,
            public_key: "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=".to_owned(),
            signature: "x".to_owned(),
        }
    }

    #[test]
    fn what_a_move_proved() {
        let screen = Screen::plain();
        let completed = describe_verified(&screen, &signed(example_certificate()), true);
        let mut cancelled = example_certificate();
        cancelled.status = ballast_domain::migration::MigrationStatus::Cancelled;
        (cancelled.votes, cancelled.cut_over_at, cancelled.pause_ms) = (None, None, None);
        cancelled.duration_ms = 845;
        let cancelled = describe_verified(&screen, &signed(cancelled), false);
        let mut lost = example_certificate();
        lost.status = ballast_domain::migration::MigrationStatus::Reversed;
        lost.given_up = serde_json::from_value(serde_json::json!({
            "shardID": "shard-3", "actor": {"type": "token", "name": "ann", "tokenID": "tok-2"},
            "reason": "its disk is dead", "acceptedAt": "2026-11-16T09:29:50Z",
            "at": "2026-11-16T09:29:58Z", "epoch": 5, "afterPosition": 812,
            "after": "2026-11-16T09:29:44Z", "present": 12_003,
        }))
        .unwrap();
        let mut synced = lost.clone();
        if let Some(without) = &mut synced.given_up {
            without.synced = true;
        }
        let lost = describe_verified(&screen, &signed(lost), true);
        let synced = describe_verified(&screen, &signed(synced), true);
        insta::assert_snapshot!(format!("{completed}\n\n{cancelled}\n\n{lost}\n\n{synced}"));
    }
}
