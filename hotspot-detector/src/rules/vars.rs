//! The variables of conditions: their names, units and meaning. Without a
//! prefix over the short window, with `long.` over the long one.

use super::SubjectKind;
use super::duration::shown;
use crate::load::Window;

/// A variable over a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Var {
    /// What.
    pub what: What,
    /// Over which window.
    pub window: Window,
}

/// What a value is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 0 to 1, and above where there is more than fits.
    Share,
    /// Per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Bytes.
    Bytes,
    /// So many.
    Count,
    /// A duration; milliseconds inside.
    Duration,
}

macro_rules! variables {
    ($($what:ident $name:literal $subject:ident $unit:ident $doc:literal;)*) => {
        /// What is measured.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum What {
            $(#[doc = $doc] $what,)*
        }

        impl What {
            /// All of them, in the order of the reference.
            pub const ALL: &[Self] = &[$(Self::$what),*];

            /// Its name in a condition.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$what => $name),* }
            }

            /// What it means.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$what => $doc),* }
            }

            /// Whose it is.
            #[must_use]
            pub fn subject(self) -> SubjectKind {
                match self { $(Self::$what => SubjectKind::$subject),* }
            }

            /// What it is counted in.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(Self::$what => Unit::$unit),* }
            }
        }
    };
}

variables! {
    Pressure "shard.pressure" Shard Share "How hard the shard works: the fullest of its dimensions or its I/O wait, whichever is more.";
    Storage "shard.storage" Shard Share "Bytes stored, as a share of what it can store.";
    StorageBytes "shard.storage_bytes" Shard Bytes "Bytes stored.";
    Votes "shard.votes" Shard PerSecond "Votes counted.";
    Queries "shard.queries" Shard PerSecond "Queries answered.";
    Traffic "shard.bytes" Shard BytesPerSecond "Bytes in and out.";
    Concurrency "shard.concurrency" Shard Count "Calls at a time, on average.";
    IoWait "shard.io_wait" Shard Share "Time that writes waited: behind other writes or for the disk.";
    IoQueue "shard.io_queue" Shard Share "Time that writes waited behind other writes.";
    IoFsync "shard.io_fsync" Shard Share "Time that writes waited for the disk.";
    Errors "shard.errors" Shard Share "Calls that failed or were refused, of all calls.";
    Throttles "shard.throttles" Shard Share "Calls turned away because they were too many, of all calls.";
    VoteP50 "shard.vote_p50" Shard Duration "Half of the votes took no longer.";
    VoteP95 "shard.vote_p95" Shard Duration "95 % of the votes took no longer.";
    VoteP99 "shard.vote_p99" Shard Duration "99 % of the votes took no longer.";
    QueryP50 "shard.query_p50" Shard Duration "Half of the queries took no longer.";
    QueryP95 "shard.query_p95" Shard Duration "95 % of the queries took no longer.";
    QueryP99 "shard.query_p99" Shard Duration "99 % of the queries took no longer.";
    Tenants "shard.slices" Shard Count "Slices on the shard.";
    TenantShare "tenant.share" Tenant Share "What the tenant uses of what its shard can do, in the dimension where that is most.";
    TenantShareOfUse "tenant.share_of_use" Tenant Share "What the tenant uses of what is used on its shard, in the dimension where that is most.";
    TenantVotes "tenant.votes" Tenant PerSecond "The tenant's votes.";
    TenantQueries "tenant.queries" Tenant PerSecond "The tenant's queries.";
    TenantTraffic "tenant.bytes" Tenant BytesPerSecond "The tenant's bytes in and out.";
    TenantStorage "tenant.storage_bytes" Tenant Bytes "The tenant's bytes stored.";
    TenantConcurrency "tenant.concurrency" Tenant Count "The tenant's calls at a time.";
    TenantThrottles "tenant.throttles" Tenant PerSecond "The tenant's calls turned away because they were too many.";
    ItemVotes "item.votes" Item PerSecond "The item's votes.";
    ItemLanes "item.lanes" Item Count "Lanes that the item's counter is spread over.";
    ItemLaneVotes "item.lane_votes" Item PerSecond "The item's votes on one lane, on average.";
    ItemLaneSkew "item.lane_skew" Item Share "How far the farthest lane is from the mean; nought where chance or lanes added later explain it.";
}

const LONG: &str = "long.";

impl Var {
    /// A variable by its name, if a rule about such subjects knows it.
    #[must_use]
    pub fn named(name: &str, subject: SubjectKind) -> Option<Self> {
        let (window, name) = match name.strip_prefix(LONG) {
            Some(name) => (Window::Long, name),
            None => (Window::Short, name),
        };
        let what = What::ALL.iter().find(|what| what.name() == name)?;
        let known = what.subject() == SubjectKind::Shard || what.subject() == subject;
        known.then_some(Self {
            what: *what,
            window,
        })
    }

    /// The names that a rule about such subjects knows.
    #[must_use]
    pub fn names(subject: SubjectKind) -> Vec<String> {
        let known = What::ALL
            .iter()
            .filter(|what| what.subject() == SubjectKind::Shard || what.subject() == subject);
        known
            .flat_map(|what| [what.name().to_owned(), format!("{LONG}{}", what.name())])
            .collect()
    }

    /// Its name in a condition.
    #[must_use]
    pub fn name(self) -> String {
        match self.window {
            Window::Short => self.what.name().to_owned(),
            Window::Long => format!("{LONG}{}", self.what.name()),
        }
    }

    /// What it is counted in.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.what.unit()
    }
}

impl Unit {
    /// A value for people: `83 %`, `1,200/s`, `2.4 GB`, `2.1s`.
    #[must_use]
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Share => format!("{} %", rounded(value * 100.0)),
            Self::PerSecond => format!("{}/s", rounded(value)),
            Self::BytesPerSecond => format!("{}/s", bytes(value)),
            Self::Bytes => bytes(value),
            Self::Count => rounded(value),
            Self::Duration => shown(value),
        }
    }
}

/// Three digits are enough for people; thousands are set apart.
pub(crate) fn rounded(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 || size == 0.0 => 0,
        size if size >= 1.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let rest = rest.trim_end_matches('0');
    let (sign, whole) = whole
        .strip_prefix('-')
        .map_or(("", whole), |whole| ("-", whole));
    let mut said = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            said.push(',');
        }
        said.push(digit);
    }
    if rest.is_empty() {
        format!("{sign}{said}")
    } else {
        format!("{sign}{said}.{rest}")
    }
}

fn bytes(value: f64) -> String {
    let units = [
        (1e15, "PB"),
        (1e12, "TB"),
        (1e9, "GB"),
        (1e6, "MB"),
        (1e3, "kB"),
    ];
    let unit = units.iter().find(|(size, _)| value.abs() >= *size);
    match unit {
        Some((size, name)) => {
            let many = value / size;
            if many < 100.0 {
                format!("{} {name}", (many * 10.0).round() / 10.0)
            } else {
                format!("{many:.0} {name}")
            }
        }
        None => format!("{} B", rounded(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_people_read_them() {
        let cases = [
            (Unit::Share, 0.834, "83 %"),
            (Unit::Share, 1.2, "120 %"),
            (Unit::PerSecond, 12_345.6, "12,346/s"),
            (Unit::PerSecond, 0.25, "0.25/s"),
            (Unit::PerSecond, 0.0, "0/s"),
            (Unit::Bytes, 2.44e9, "2.4 GB"),
            (Unit::Bytes, 12.0, "12 B"),
            (Unit::BytesPerSecond, 7.0e6, "7 MB/s"),
            (Unit::Duration, 2_100.0, "2.1s"),
            (Unit::Count, 3.0, "3"),
        ];
        for (unit, value, said) in cases {
            assert_eq!(unit.shown(value), said);
        }
    }

    #[test]
    fn a_rule_knows_its_subject_and_its_shard() {
        let known = |name, subject| Var::named(name, subject).is_some();
        assert!(known("long.shard.storage", SubjectKind::Shard));
        assert!(known("shard.storage", SubjectKind::Tenant));
        assert!(known("tenant.share", SubjectKind::Tenant));
        assert!(!known("tenant.share", SubjectKind::Shard));
        assert!(!known("item.votes", SubjectKind::Tenant));
    }
}
