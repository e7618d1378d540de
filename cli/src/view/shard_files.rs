//! A shard's files, for people.

use std::path::Path;

use ballast_vote_shard::embedded::inspect::Inspection;

use crate::output::Screen;
use crate::table::{Table, number};

/// What was found.
pub(crate) fn text(screen: &Screen, directory: &Path, seen: &Inspection, deep: bool) -> String {
    let mut table = Table::new(screen, &["file", "#bytes", "#holds", "what"]);
    for file in &seen.checkpoints {
        table.row([
            file.name.clone(),
            number(file.bytes),
            number(file.position),
            "groups up to here".to_owned(),
        ]);
    }
    for file in &seen.runs {
        let what = if file.named {
            "rows"
        } else {
            "rows, not in use"
        };
        table.row([
            file.name.clone(),
            number(file.bytes),
            number(file.rows),
            what.to_owned(),
        ]);
    }
    for file in &seen.segments {
        let first = number(file.first_group);
        let what = match &file.remark {
            Some(remark) => format!("groups from {first}; {remark}"),
            None => format!("groups from {first}"),
        };
        table.row([
            file.name.clone(),
            number(file.bytes),
            number(file.groups),
            what,
        ]);
    }
    let mut text = table.text();
    text.push_str(&format!(
        "\n\n{}: {} slices, {} polls, {} voters, {} votes; last group {}\n",
        directory.display(),
        number(seen.slices),
        number(seen.polls),
        number(seen.voters),
        number(seen.votes),
        number(seen.last_group),
    ));
    if seen.polls_archived > 0 {
        text.push_str(&format!(
            "{} polls have their rows in files of {} bytes, which were not read\n",
            number(seen.polls_archived),
            number(seen.archive_bytes),
        ));
    }
    for problem in &seen.problems {
        text.push_str(&format!("{} {problem}\n", screen.red("problem:")));
    }
    if seen.problems.is_empty() {
        let fine = match deep {
            true => "everything was read: all checksums fit, and the counts are what the rows say",
            false => "no problem seen; ballast shard verify reads everything",
        };
        text.push_str(&screen.green(fine));
    }
    text
}
