//! The variables of conditions: names, units and meanings. Over the short window, or over
//! the long window with the prefix `long.`.

use super::SubjectKind;
use super::duration::format_duration;
use crate::load::Window;

/// A variable over a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variable {
    /// The metric.
    pub what: Metric,
    /// The window.
    pub window: Window,
}

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A share from 0 to 1, or above 1 for an overload.
    Share,
    /// Per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Bytes.
    Bytes,
    /// A count.
    Count,
    /// A duration in milliseconds.
    Duration,
}

macro_rules! variables {
    ($($what:ident $name:literal $subject:ident $unit:ident $doc:literal;)*) => {
        /// A measured value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Metric {
            $(#[doc = $doc] $what,)*
        }

        impl Metric {
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

            /// The kind of subject.
            #[must_use]
            pub fn subject(self) -> SubjectKind {
                match self { $(Self::$what => SubjectKind::$subject),* }
            }

            /// Its unit.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(Self::$what => Unit::$unit),* }
            }
        }
    };
}

variables! {
    Pressure "shard.pressure" Shard Share "The shard's pressure: the higher of its fill and its I/O wait.";
    Storage "shard.storage" Shard Share "Bytes stored, as a share of the storage capacity.";
    StorageBytes "shard.storage_bytes" Shard Bytes "Bytes stored.";
    Votes "shard.votes" Shard PerSecond "Votes counted.";
    Queries "shard.queries" Shard PerSecond "Queries answered.";
    Traffic "shard.bytes" Shard BytesPerSecond "Bytes in and out.";
    Concurrency "shard.concurrency" Shard Count "Concurrent calls, on average.";
    IoWait "shard.io_wait" Shard Share "Share of the time that writes waited: behind other writes or for the disk.";
    IoQueue "shard.io_queue" Shard Share "Share of the time that writes waited behind other writes.";
    IoFsync "shard.io_fsync" Shard Share "Share of the time that writes waited for the disk.";
    Errors "shard.errors" Shard Share "Share of calls that failed or were rejected.";
    Throttles "shard.throttles" Shard Share "Share of calls that were throttled.";
    VoteP50 "shard.vote_p50" Shard Duration "Vote latency, 50th percentile.";
    VoteP95 "shard.vote_p95" Shard Duration "Vote latency, 95th percentile.";
    VoteP99 "shard.vote_p99" Shard Duration "Vote latency, 99th percentile.";
    QueryP50 "shard.query_p50" Shard Duration "Query latency, 50th percentile.";
    QueryP95 "shard.query_p95" Shard Duration "Query latency, 95th percentile.";
    QueryP99 "shard.query_p99" Shard Duration "Query latency, 99th percentile.";
    Tenants "shard.slices" Shard Count "Slices on the shard.";
    TenantShare "tenant.share" Tenant Share "The tenant's share of its shard's capacity, in its fullest dimension.";
    TenantShareOfUse "tenant.share_of_use" Tenant Share "The tenant's share of its shard's load, in the dimension where it is highest.";
    TenantVotes "tenant.votes" Tenant PerSecond "The tenant's votes.";
    TenantQueries "tenant.queries" Tenant PerSecond "The tenant's queries.";
    TenantTraffic "tenant.bytes" Tenant BytesPerSecond "The tenant's bytes in and out.";
    TenantStorage "tenant.storage_bytes" Tenant Bytes "The tenant's bytes stored.";
    TenantConcurrency "tenant.concurrency" Tenant Count "The tenant's concurrent calls.";
    TenantThrottles "tenant.throttles" Tenant PerSecond "The tenant's throttled calls.";
    ItemVotes "item.votes" Item PerSecond "The item's votes.";
    ItemLanes "item.lanes" Item Count "Lanes that the item's counter is spread over.";
    ItemLaneVotes "item.lane_votes" Item PerSecond "The item's votes on one lane, on average.";
    ItemLaneSkew "item.lane_skew" Item Share "The largest deviation of a lane from the mean; 0 if chance or recently added lanes explain it.";
}

const LONG: &str = "long.";

impl Variable {
    /// The variable with a name, if rules for this kind of subject have it.
    #[must_use]
    pub fn from_name(name: &str, subject: SubjectKind) -> Option<Self> {
        let (window, name) = match name.strip_prefix(LONG) {
            Some(name) => (Window::Long, name),
            None => (Window::Short, name),
        };
        let what = Metric::ALL.iter().find(|what| what.name() == name)?;
        let known = what.subject() == SubjectKind::Shard || what.subject() == subject;
        known.then_some(Self {
            what: *what,
            window,
        })
    }

    /// The names of the variables for a kind of subject.
    #[must_use]
    pub fn names(subject: SubjectKind) -> Vec<String> {
        let known = Metric::ALL
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

    /// Its unit.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.what.unit()
    }
}

impl Unit {
    /// Formats a value: `83 %`, `1,200/s`, `2.4 GB`, `2.1s`.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Share => format!("{} %", rounded(value * 100.0)),
            Self::PerSecond => format!("{}/s", rounded(value)),
            Self::BytesPerSecond => format!("{}/s", bytes(value)),
            Self::Bytes => bytes(value),
            Self::Count => rounded(value),
            Self::Duration => format_duration(value),
        }
    }
}

/// Formats a number with about three significant digits and thousands separators.
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
            assert_eq!(unit.format(value), said);
        }
    }

    #[test]
    fn a_rule_knows_its_subject_and_its_shard() {
        let known = |name, subject| Variable::from_name(name, subject).is_some();
        assert!(known("long.shard.storage", SubjectKind::Shard));
        assert!(known("shard.storage", SubjectKind::Tenant));
        assert!(known("tenant.share", SubjectKind::Tenant));
        assert!(!known("tenant.share", SubjectKind::Shard));
        assert!(!known("item.votes", SubjectKind::Tenant));
    }
}
