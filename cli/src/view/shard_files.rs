//! Renders the files of a shard.

use std::path::Path;

use ballast_vote_shard::embedded::inspect::Inspection;

use crate::output::Screen;
use crate::table::{Table, count_noun, format_number};

/// What was found.
pub(crate) fn shard_files_text(
    screen: &Screen,
    directory: &Path,
    seen: &Inspection,
    deep: bool,
) -> String {
    let mut table = Table::new(screen, &["file", "#bytes", "#holds", "what"]);
    for file in &seen.checkpoints {
        table.add_row([
            file.name.clone(),
            format_number(file.bytes),
            format_number(file.position),
            "groups up to here".to_owned(),
        ]);
    }
    for file in &seen.runs {
        let what = if file.named {
            "rows"
        } else {
            "rows, not in use"
        };
        table.add_row([
            file.name.clone(),
            format_number(file.bytes),
            format_number(file.rows),
            what.to_owned(),
        ]);
    }
    for file in &seen.segments {
        let first = format_number(file.first_group);
        let what = match &file.remark {
            Some(remark) => format!("groups from {first}; {remark}"),
            None => format!("groups from {first}"),
        };
        table.add_row([
            file.name.clone(),
            format_number(file.bytes),
            format_number(file.groups),
            what,
        ]);
    }
    let mut text = table.render();
    text.push_str(&format!(
        "\n\n{}: {}, {}, {}, {}; last group {}\n",
        directory.display(),
        count_noun(seen.slices, "slice"),
        count_noun(seen.polls, "poll"),
        count_noun(seen.voters, "voter"),
        count_noun(seen.votes, "vote"),
        format_number(seen.last_group),
    ));
    if seen.polls_archived > 0 {
        text.push_str(&format!(
            "not read: the rows of {} in files of {}\n",
            count_noun(seen.polls_archived, "archived poll"),
            count_noun(seen.archive_bytes, "byte"),
        ));
    }
    for problem in &seen.problems {
        text.push_str(&format!("{} {problem}\n", screen.red("problem:")));
    }
    if seen.problems.is_empty() {
        let fine = match deep {
            true => "verified: all checksums match, and the counts agree with the rows",
            false => "no problems found; ballast shard verify reads everything",
        };
        text.push_str(&screen.green(fine));
    }
    text
}
