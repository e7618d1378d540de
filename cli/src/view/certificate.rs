//! Certificates of moves, for people.

use ballast_domain::ShardId;
use ballast_domain::certificate::{Certificate, GivenUp, Signed, VotesProved};

use crate::output::Screen;
use crate::table::{self, clean, counted, number};
use crate::time::exact;

/// How many digits of a digest tell it from another at a glance.
const DIGEST_CHARS: usize = 16;

/// So many milliseconds, in a unit that people use.
pub(crate) fn took(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => crate::time::span(i64::try_from(ms).unwrap_or(i64::MAX)),
    }
}

/// `once`, `12 times`.
pub(crate) fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{} times", number(count)),
    }
}

/// What a certificate proves, in words.
pub(crate) fn lines(screen: &Screen, signed: &Signed) -> String {
    let it = &signed.certificate;
    let headline = format!(
        "certificate of {}, {}: {} from {} to {}",
        it.migration_id,
        it.status,
        slice(it),
        it.from,
        it.to
    );
    let reason = it.reason.as_ref().map(|reason| format!(" ({reason})"));
    let asked = format!("{}{}", it.actor, reason.unwrap_or_default());
    let owner = format!("{} at epoch {}", it.owner, it.epoch.0);
    let facts = table::facts(
        screen,
        &[
            ("  votes", votes(it.votes.as_ref(), &it.from, &it.to)),
            ("  digests", digests(it.votes.as_ref())),
            ("  back", votes(it.votes_back.as_ref(), &it.to, &it.from)),
            ("  digests", digests(it.votes_back.as_ref())),
            ("  GIVEN UP", lost(it, false)),
            ("  without", lost(it, true)),
            (
                "  pause",
                it.pause_ms
                    .map(|ms| format!("{ms} ms without votes at the longest")),
            ),
            ("  took", Some(carried(it))),
            ("  window", it.cut_over_at.map(|_| window(it))),
            (
                "  repaired",
                (it.repaired > 0)
                    .then(|| format!("{} rows before the cutover", number(it.repaired))),
            ),
            ("  owner", Some(owner)),
            ("  asked by", Some(asked)),
            ("  because", it.why.clone()),
            ("  ended", Some(exact(it.ended_at))),
            (
                "  signed",
                Some(format!("with the key {}", signed.public_key)),
            ),
        ],
    );
    format!("{}\n{facts}", screen.bold(&clean(&headline)))
}

fn slice(it: &Certificate) -> String {
    match it.slice {
        0 => it.tenant_id.to_string(),
        slice => format!("slice {slice} of {}", it.tenant_id),
    }
}

/// What is proved of the way from one shard to another.
fn votes(proved: Option<&VotesProved>, from: &ShardId, to: &ShardId) -> Option<String> {
    let votes = proved?;
    let polls = match votes.polls {
        1 => "1 poll".to_owned(),
        polls => format!("{} polls", number(polls)),
    };
    Some(format!(
        "{} acknowledged by {from}, {} present on {to}, {} twice, in {polls}",
        number(votes.acknowledged),
        number(votes.present),
        number(votes.duplicates),
    ))
}

/// What was given up, if that was acknowledged, or was not.
fn lost(it: &Certificate, synced: bool) -> Option<String> {
    let lost = it.given_up.as_ref().filter(|lost| lost.synced == synced);
    lost.map(given_up)
}

/// What was given up, by whom, and why.
fn given_up(lost: &GivenUp) -> String {
    let told = lost.told();
    let reason = lost.reason.as_ref().map(|reason| format!(" ({reason})"));
    let there = lost.present.map(|rows| {
        let rows = number(rows);
        format!("; {rows} rows were there then")
    });
    format!(
        "{told}{}{}",
        reason.unwrap_or_default(),
        there.unwrap_or_default()
    )
}

fn digests(proved: Option<&VotesProved>) -> Option<String> {
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

fn carried(it: &Certificate) -> String {
    // What streamed back is not counted.
    let there = match it.votes_back {
        Some(_) => " there",
        None => "",
    };
    format!(
        "{} in all; {} rows, {} bytes carried{there}",
        took(it.duration_ms),
        number(it.rows_carried),
        number(it.bytes_carried)
    )
}

fn window(it: &Certificate) -> String {
    format!(
        "both sides compared {}, {}",
        times(it.compared),
        counted(it.differences, "difference")
    )
}

/// That a certificate is what was signed.
pub(crate) fn verified(screen: &Screen, signed: &Signed, trusted: bool) -> String {
    let told = match trusted {
        true => "It is what was signed with the trusted key.".to_owned(),
        false => format!(
            "It is what was signed with the key {}. Whether that key is to be trusted, --public-key says.",
            signed.public_key
        ),
    };
    format!("{}\n\n{}", lines(screen, signed), screen.green(&told))
}

#[cfg(test)]
pub(crate) fn example() -> Certificate {
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

    fn signed(certificate: Certificate) -> Signed {
        Signed {
            certificate,
            public_key: "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=".to_owned(),
            signature: "x".to_owned(),
        }
    }

    #[test]
    fn what_a_move_proved() {
        let screen = Screen::plain();
        let completed = verified(&screen, &signed(example()), true);
        let mut cancelled = example();
        cancelled.status = ballast_domain::migration::Status::Cancelled;
        (cancelled.votes, cancelled.cut_over_at, cancelled.pause_ms) = (None, None, None);
        cancelled.duration_ms = 845;
        let cancelled = verified(&screen, &signed(cancelled), false);
        let mut lost = example();
        lost.status = ballast_domain::migration::Status::Reversed;
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
        let lost = verified(&screen, &signed(lost), true);
        let synced = verified(&screen, &signed(synced), true);
        insta::assert_snapshot!(format!("{completed}\n\n{cancelled}\n\n{lost}\n\n{synced}"));
    }
}
