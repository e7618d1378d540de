//! The text form of a plan: overloaded shards, migrations with reasons, price, expected
//! effect, and what could not be relieved and why.

use std::fmt::{self, Write};

use ballast_domain::tenant::SliceId;

use super::report::{
    MigrationCause, MissingShards, NoReliefReason, Plan, PlannedMigration, ShardEffect,
    UnrelievedShard,
};

/// Migrations listed in the text; the JSON has all.
const MOVES_SHOWN: usize = 20;
/// Shards listed in the text.
const SHARDS_SHOWN: usize = 20;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        finding(self, f)?;
        cure(self, f)?;
        effect(self, f)?;
        not_helped(self, f)
    }
}

fn finding(plan: &Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let totals = &plan.totals;
    writeln!(f, "Plan of {} (revision {})", plan.made_at, plan.revision)?;
    match totals.over_before {
        0 => writeln!(f, "Finding: every shard is under its limits.")?,
        1 => writeln!(f, "Finding: 1 shard is over a limit.")?,
        many => writeln!(f, "Finding: {many} shards are over a limit.")?,
    }
    let mut over: Vec<&ShardEffect> = plan.shards.iter().collect();
    over.retain(|shard| shard.before.share > shard.limit_for(shard.before.measure));
    over.sort_by(|one, two| two.before.share.total_cmp(&one.before.share));
    for shard in over.iter().take(SHARDS_SHOWN) {
        writeln!(
            f,
            "  {} is at {} of its {} (limit {})",
            shard.shard_id,
            percent(shard.before.share),
            shard.before.measure.name(),
            percent(shard.limit_for(shard.before.measure)),
        )?;
    }
    more(f, over.len(), SHARDS_SHOWN, "shards")?;
    let required_move = |step: &&PlannedMigration| {
        matches!(
            step.cause,
            MigrationCause::Leave { .. } | MigrationCause::Pin { .. }
        )
    };
    let waiting: usize = plan.waiting.iter().map(|waiting| waiting.slices).sum();
    match plan.moves.iter().filter(required_move).count() + waiting {
        0 => Ok(()),
        1 => writeln!(f, "  1 slice must leave its shard"),
        leaving => writeln!(f, "  {leaving} slices must leave their shards"),
    }
}

fn cure(plan: &Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let totals = &plan.totals;
    if plan.moves.is_empty() {
        return writeln!(f, "Cure: no migrations.");
    }
    writeln!(
        f,
        "Cure: {} copying {}; no plan with the same effect can copy less than {}.",
        count(totals.moves, "migration"),
        bytes(totals.bytes),
        bytes(totals.bytes_at_least),
    )?;
    for (number, step) in plan.moves.iter().enumerate().take(MOVES_SHOWN) {
        writeln!(f, "  {:>2}. {}", number + 1, moved(step))?;
    }
    more(f, plan.moves.len(), MOVES_SHOWN, "migrations")?;
    if totals.put_off > 0 {
        let moves = count(totals.put_off, "migration");
        writeln!(f, "  {moves} left for the next plan.")?;
    }
    let approvals = plan
        .moves
        .iter()
        .filter(|step| step.needs_approval.is_some());
    match approvals.count() {
        0 => {}
        1 => writeln!(f, "  1 of them needs approval.")?,
        many => writeln!(f, "  {many} of them need approval.")?,
    }
    if totals.money > 0.0 {
        writeln!(f, "Price: {:.2} according to the price list.", totals.money)?;
    }
    Ok(())
}

fn moved(step: &PlannedMigration) -> String {
    let mut line = format!(
        "{} from {} to {} ({}): {}",
        step.slice.label(),
        step.from,
        step.to,
        bytes(step.bytes),
        because(&step.cause),
    );
    // Writing to a string cannot fail.
    let _ = write!(line, "; starts {}", step.begins_at);
    match step.waits_for.as_slice() {
        [] => {}
        [one] => {
            let _ = write!(line, ", after migration {}", one + 1);
        }
        several => {
            let numbers: Vec<String> = several.iter().map(|at| (at + 1).to_string()).collect();
            let _ = write!(line, ", after migrations {}", numbers.join(", "));
        }
    }
    if let Some(why) = &step.needs_approval {
        let _ = write!(line, "; needs approval: {why}");
    }
    line
}

fn because(cause: &MigrationCause) -> String {
    match cause {
        MigrationCause::Relief {
            measure,
            share,
            limit,
        } => format!(
            "its shard is at {} of its {} (limit {})",
            percent(*share),
            measure.name(),
            percent(*limit)
        ),
        MigrationCause::Leave { why } => why.clone(),
        MigrationCause::Pin { actor } => format!("{actor} pinned it there"),
        MigrationCause::Room { slice } => format!("it makes room for {}", slice.label()),
        MigrationCause::Aside { then } => {
            format!(
                "it moves temporarily until {then} has room, because slices wait for each other's room"
            )
        }
        MigrationCause::Weights => "the new shard has a higher placement score".to_owned(),
    }
}

fn effect(plan: &Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let totals = &plan.totals;
    if plan.moves.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "Expected effect: the fullest shard goes from {} to {}; finished by {}.",
        percent(totals.fullest_before),
        percent(totals.fullest_after),
        totals.ends_at
    )?;
    let mut changed: Vec<&ShardEffect> = plan.shards.iter().collect();
    changed.retain(|shard| shard.before != shard.after);
    changed.sort_by(|one, two| two.before.share.total_cmp(&one.before.share));
    for shard in changed.iter().take(SHARDS_SHOWN) {
        writeln!(
            f,
            "  {:<16} {:>7} of {:<11} -> {:>7} of {}",
            shard.shard_id,
            percent(shard.before.share),
            shard.before.measure.name(),
            percent(shard.after.share),
            shard.after.measure.name(),
        )?;
    }
    more(f, changed.len(), SHARDS_SHOWN, "shards")?;
    writeln!(
        f,
        "If it does not help: reverse migrations while their windows are open \
         (ballast migration reverse MOVE), and plan again with new measurements."
    )
}

fn not_helped(plan: &Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for shard in plan.unhelped.iter().take(SHARDS_SHOWN) {
        writeln!(f, "Not cured: {}", unhelped(shard))?;
        for why in &shard.why {
            writeln!(f, "  {}", why_not(why))?;
        }
    }
    more(f, plan.unhelped.len(), SHARDS_SHOWN, "shards")?;
    for waiting in &plan.waiting {
        let names: Vec<String> = waiting.examples.iter().map(SliceId::label).collect();
        writeln!(
            f,
            "Not moved: {} must leave {} and cannot: {} ({}{})",
            count(waiting.slices, "slice"),
            waiting.shard_id,
            waiting.why,
            names.join(", "),
            if waiting.slices > names.len() {
                ", …"
            } else {
                ""
            },
        )?;
    }
    for missing in &plan.missing {
        writeln!(f, "Missing: {}", lacking(missing))?;
    }
    if plan.totals.strays > 0 {
        let slices = count(plan.totals.strays, "slice");
        writeln!(f, "Left out: {slices} on shards that are not in the fleet.")?;
    }
    Ok(())
}

fn unhelped(shard: &UnrelievedShard) -> String {
    format!(
        "{} stays at {} of its {} (limit {}), because",
        shard.shard_id,
        percent(shard.share),
        shard.measure.name(),
        percent(shard.limit),
    )
}

fn lacking(missing: &MissingShards) -> String {
    let zones: Vec<&str> = missing.zones.iter().map(AsRef::as_ref).collect();
    let mut line = format!("{} in {}", count(missing.shards, "shard"), missing.region);
    if !zones.is_empty() {
        let _ = write!(line, " with {}", zones.join(", "));
    }
    match &missing.like {
        Some(like) => {
            let _ = write!(line, ", as large as {like}");
        }
        None => line.push_str(" at least: the region has no shard to take the size from"),
    }
    let slices = count(missing.slices, "slice");
    let _ = write!(
        line,
        ", for {slices} without a possible target. Add with: ballast shard add"
    );
    line
}

fn why_not(why: &NoReliefReason) -> String {
    match why {
        NoReliefReason::Down => {
            "it is down, so nothing can be copied from it. Bring it back into service.".to_owned()
        }
        NoReliefReason::Drains => {
            "it is draining, and some of its slices cannot leave, see below.".to_owned()
        }
        NoReliefReason::TooBig { slice, share } => format!(
            "{} alone uses {} of the shard's limit, and no shard is larger: \
             moving it will not help. Splitting it may, unless most of its load is one poll.",
            slice.label(),
            percent(*share)
        ),
        NoReliefReason::NoRoom { slices } => format!(
            "{} could move, but no eligible shard has room. Add shards.",
            count(*slices, "slice")
        ),
        NoReliefReason::NotEnough { slices } => format!(
            "{} could move, but the shard would be over its limit without them too: \
             moving them will not help.",
            count(*slices, "slice")
        ),
        NoReliefReason::Pinned { slices } => {
            format!("{} pinned to it. Unpin some.", slices_are(*slices))
        }
        NoReliefReason::OutOfScope { slices } => format!(
            "this plan is for other shards; {} not considered. Plan for all: ballast rebalance.",
            slices_were(*slices)
        ),
        NoReliefReason::Dialled { slices } => format!(
            "{} excluded by the tenant's dial (essential, pause or stop). Set it to active.",
            slices_are(*slices)
        ),
        NoReliefReason::Settling { slices, until } => format!(
            "{} placed or moved recently and will not move before {until}. Wait.",
            slices_were(*slices)
        ),
        NoReliefReason::Frozen { slices, until } => format!(
            "{} frozen for a poll until {until} at least. Wait, or add lanes to the poll.",
            slices_are(*slices)
        ),
        NoReliefReason::Moving { slices } => {
            format!("{} moving already. Wait.", slices_are(*slices))
        }
        NoReliefReason::Arriving { slices } => format!(
            "{} moving to it already. Cancel some migrations (ballast migration cancel MOVE).",
            slices_are(*slices)
        ),
        NoReliefReason::Closed { slices } => {
            format!(
                "{} kept for closed tenants. Purge them.",
                slices_are(*slices)
            )
        }
        NoReliefReason::OwnLoad { share } => format!(
            "it uses {} of its capacity outside of any tenant: moving tenants does not help. Check the machine.",
            percent(*share)
        ),
        NoReliefReason::PutOff => {
            "this plan is at its maximum size. The next plan continues.".to_owned()
        }
    }
}

impl ShardEffect {
    fn limit_for(&self, measure: super::report::Measure) -> f64 {
        match measure {
            super::report::Measure::Slices => 1.0,
            _ => self.limit,
        }
    }
}

fn slices_are(slices: usize) -> String {
    let verb = if slices == 1 { "is" } else { "are" };
    format!("{} {verb}", count(slices, "slice"))
}

fn slices_were(slices: usize) -> String {
    let verb = if slices == 1 { "was" } else { "were" };
    format!("{} {verb}", count(slices, "slice"))
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn more(f: &mut fmt::Formatter<'_>, all: usize, shown: usize, noun: &str) -> fmt::Result {
    match all.checked_sub(shown) {
        Some(rest) if rest > 0 => writeln!(f, "  … and {rest} more {noun} (see --json)"),
        _ => Ok(()),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats bytes.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{amount:.1} {}", UNITS[unit]),
    }
}
