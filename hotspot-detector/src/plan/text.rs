//! A plan as a letter: what was found, what is done about it and why, what it
//! costs, what to expect, and what to do where it does not help.

use std::fmt::{self, Write};

use super::report::{Cause, Missing, Move, Plan, ShardLoad, Unhelped, WhyNot};

/// How many moves a letter lists; the rest is in the JSON.
const MOVES_SHOWN: usize = 20;
/// How many shards a letter lists.
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
    let mut over: Vec<&ShardLoad> = plan.shards.iter().collect();
    over.retain(|shard| shard.before.share > shard.limit_of(shard.before.measure));
    over.sort_by(|one, two| two.before.share.total_cmp(&one.before.share));
    for shard in over.iter().take(SHARDS_SHOWN) {
        writeln!(
            f,
            "  {} is at {} of its {} (limit {})",
            shard.shard_id,
            percent(shard.before.share),
            shard.before.measure.name(),
            percent(shard.limit_of(shard.before.measure)),
        )?;
    }
    more(f, over.len(), SHARDS_SHOWN, "shards")?;
    let must = |step: &&Move| matches!(step.cause, Cause::Leave { .. } | Cause::Pin { .. });
    let waiting: usize = plan.waiting.iter().map(|waiting| waiting.slices).sum();
    match plan.moves.iter().filter(must).count() + waiting {
        0 => Ok(()),
        leaving => writeln!(f, "  {} must leave where they are", count(leaving, "slice")),
    }
}

fn cure(plan: &Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let totals = &plan.totals;
    if plan.moves.is_empty() {
        return writeln!(f, "Cure: nothing is moved.");
    }
    writeln!(
        f,
        "Cure: {} copying {}; no plan to the same effect could copy less than {}.",
        count(totals.moves, "move"),
        bytes(totals.bytes),
        bytes(totals.bytes_at_least),
    )?;
    for (number, step) in plan.moves.iter().enumerate().take(MOVES_SHOWN) {
        writeln!(f, "  {:>2}. {}", number + 1, moved(step))?;
    }
    more(f, plan.moves.len(), MOVES_SHOWN, "moves")?;
    if totals.put_off > 0 {
        let moves = count(totals.put_off, "move");
        writeln!(f, "  {moves} more wait for the next plan.")?;
    }
    let approvals = plan
        .moves
        .iter()
        .filter(|step| step.needs_approval.is_some());
    match approvals.count() {
        0 => {}
        waits => writeln!(f, "  Approval is needed for {waits} of them.")?,
    }
    if totals.money > 0.0 {
        writeln!(f, "Price: {:.2} by the price list.", totals.money)?;
    }
    Ok(())
}

fn moved(step: &Move) -> String {
    let mut line = format!(
        "{} from {} to {} ({}): {}",
        step.slice,
        step.from,
        step.to,
        bytes(step.bytes),
        because(&step.cause),
    );
    // Writing to a string cannot fail.
    let _ = write!(line, "; begins {}", step.begins_at);
    match step.waits_for.as_slice() {
        [] => {}
        [one] => {
            let _ = write!(line, ", after move {}", one + 1);
        }
        several => {
            let numbers: Vec<String> = several.iter().map(|at| (at + 1).to_string()).collect();
            let _ = write!(line, ", after moves {}", numbers.join(", "));
        }
    }
    if let Some(why) = &step.needs_approval {
        let _ = write!(line, "; needs approval: {why}");
    }
    line
}

fn because(cause: &Cause) -> String {
    match cause {
        Cause::Relief {
            measure,
            share,
            limit,
        } => format!(
            "its shard is at {} of its {} (limit {})",
            percent(*share),
            measure.name(),
            percent(*limit)
        ),
        Cause::Leave { why } => why.clone(),
        Cause::Pin { actor } => format!("{actor} pinned it there"),
        Cause::Room { slice } => format!("it makes room for {slice}"),
        Cause::Aside { then } => {
            format!("it steps aside until {then} has room; slices wait for each other there")
        }
        Cause::Weights => "its new shard outscores the old one by weight".to_owned(),
    }
}

fn effect(plan: &Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let totals = &plan.totals;
    if plan.moves.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "Expected effect: the fullest shard goes from {} to {}; all is done by {}.",
        percent(totals.fullest_before),
        percent(totals.fullest_after),
        totals.ends_at
    )?;
    let mut changed: Vec<&ShardLoad> = plan.shards.iter().collect();
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
        "If it does not help: take moves back while their windows are open \
         (ballast migration reverse MOVE), and plan again on what is measured then."
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
        let names: Vec<String> = waiting.examples.iter().map(ToString::to_string).collect();
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

fn unhelped(shard: &Unhelped) -> String {
    format!(
        "{} stays at {} of its {} (limit {}), because",
        shard.shard_id,
        percent(shard.share),
        shard.measure.name(),
        percent(shard.limit),
    )
}

fn lacking(missing: &Missing) -> String {
    let zones: Vec<&str> = missing.zones.iter().map(AsRef::as_ref).collect();
    let mut line = format!("{} in {}", count(missing.shards, "shard"), missing.region);
    if !zones.is_empty() {
        let _ = write!(line, " with {}", zones.join(", "));
    }
    match &missing.like {
        Some(like) => {
            let _ = write!(line, ", as large as {like}");
        }
        None => line.push_str(" at least: there is none whose size could be gone by"),
    }
    let slices = count(missing.slices, "slice");
    let _ = write!(
        line,
        ", for {slices} that have nowhere to go. Add with: ballast shard add"
    );
    line
}

fn why_not(why: &WhyNot) -> String {
    match why {
        WhyNot::Down => {
            "it is down, so nothing can be copied from it. Bring it back into service.".to_owned()
        }
        WhyNot::Drains => "it drains, and some of what must leave it cannot, see below.".to_owned(),
        WhyNot::TooBig { slice, share } => format!(
            "{slice} alone uses {} of what may be used there, and no shard is larger: \
             moving it will not help. Splitting it may, unless one poll is most of it.",
            percent(*share)
        ),
        WhyNot::NoRoom { slices } => format!(
            "{} could go, and no shard that may hold them has the room. Add shards.",
            count(*slices, "slice")
        ),
        WhyNot::NotEnough { slices } => format!(
            "{} could go, and it would be over its limit without them too: \
             moving them will not help.",
            count(*slices, "slice")
        ),
        WhyNot::Pinned { slices } => format!("{} pinned there. Unpin some.", are(*slices)),
        WhyNot::Dialled { slices } => format!(
            "{} left alone by the tenant's dial (essential, pause or stop). Turn it to active.",
            are(*slices)
        ),
        WhyNot::Settling { slices, until } => format!(
            "{} placed or moved a short time ago and left alone until {until} at least. Wait.",
            were(*slices)
        ),
        WhyNot::Frozen { slices, until } => format!(
            "{} left alone for a poll until {until} at least. Wait, or widen the poll's lanes.",
            are(*slices)
        ),
        WhyNot::Moving { slices } => format!("{} on the way already. Wait.", are(*slices)),
        WhyNot::Arriving { slices } => format!(
            "{} on the way to it by earlier moves. Cancel some (ballast migration cancel MOVE).",
            are(*slices)
        ),
        WhyNot::Closed { slices } => {
            format!("{} kept for closed tenants. Purge them.", are(*slices))
        }
        WhyNot::OwnLoad { share } => format!(
            "it uses {} of its capacity for no tenant at all: no move helps. Look at the machine.",
            percent(*share)
        ),
        WhyNot::PutOff => "this plan may have no more moves. The next one goes on.".to_owned(),
    }
}

impl ShardLoad {
    fn limit_of(&self, measure: super::report::Measure) -> f64 {
        match measure {
            super::report::Measure::Slices => 1.0,
            _ => self.limit,
        }
    }
}

fn are(slices: usize) -> String {
    let verb = if slices == 1 { "is" } else { "are" };
    format!("{} {verb}", count(slices, "slice"))
}

fn were(slices: usize) -> String {
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

/// Bytes as people read them.
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
