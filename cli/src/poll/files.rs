//! Reads counters and votes from CSV or JSON files; detects the format from the content.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::failure::CliError;

/// One vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VoteRow {
    pub(super) voter: String,
    /// The item's name or ID.
    pub(super) item: String,
}

fn unusable_file(file: &Path, what: impl std::fmt::Display) -> CliError {
    let text = format!("{}: {what}", file.display());
    CliError::usage(
        text,
        "ballast poll import --help shows what the files look like",
    )
}

fn read_file(file: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(file)
        .map_err(|error| unusable_file(file, format!("it cannot be read: {error}")))
}

/// Reads the votes per item, in the order of the file.
pub(super) fn read_totals(file: &Path) -> Result<Vec<(String, u64)>, CliError> {
    let text = read_file(file)?;
    let totals = match text.trim_start().chars().next() {
        Some('{') => parse_totals_object(&text),
        Some('[') => parse_totals_list(&text),
        _ => parse_csv_totals(&text),
    };
    let totals = totals.map_err(|what| unusable_file(file, what))?;
    let mut seen = BTreeMap::new();
    for (item, _) in &totals {
        if seen.insert(item.clone(), ()).is_some() {
            return Err(unusable_file(file, format!("{item:?} appears twice")));
        }
    }
    if totals.is_empty() {
        return Err(unusable_file(file, "the file is empty"));
    }
    Ok(totals)
}

fn parse_totals_object(text: &str) -> Result<Vec<(String, u64)>, String> {
    let ItemPairs(all) = serde_json::from_str(text).map_err(|error| error.to_string())?;
    all.into_iter()
        .map(|(item, votes)| match votes.as_u64() {
            Some(votes) => Ok((item, votes)),
            None => Err(format!("{item:?}: {votes} is not a number of votes")),
        })
        .collect()
}

/// The members of an object as written, duplicates included.
struct ItemPairs(Vec<(String, serde_json::Value)>);

impl<'de> Deserialize<'de> for ItemPairs {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> serde::de::Visitor<'de> for Members {
            type Value = ItemPairs;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of items and votes")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<ItemPairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(ItemPairs(pairs))
            }
        }
        source.deserialize_map(Members)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemTotal {
    #[serde(alias = "itemID", alias = "item")]
    item_name: String,
    #[serde(alias = "votes", alias = "count")]
    votes_count: u64,
}

fn parse_totals_list(text: &str) -> Result<Vec<(String, u64)>, String> {
    let all: Vec<ItemTotal> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let pairs = all
        .into_iter()
        .map(|total| (total.item_name, total.votes_count));
    Ok(pairs.collect())
}

/// Parses the two columns of a CSV file, with or without a header.
fn parse_csv_pairs(text: &str, heads: &[&str]) -> Result<Vec<(u64, String, String)>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let [first, second] = [record.get(0), record.get(1)].map(Option::unwrap_or_default);
        if record.len() != 2 {
            return Err(format!(
                "line {line}: expected two columns, found {}",
                record.len()
            ));
        }
        let is_head = rows.is_empty() && heads.contains(&first.to_lowercase().as_str());
        if !is_head || line > 1 {
            rows.push((line, first.to_owned(), second.to_owned()));
        }
    }
    Ok(rows)
}

fn parse_csv_totals(text: &str) -> Result<Vec<(String, u64)>, String> {
    parse_csv_pairs(text, &["item", "itemname", "name", "itemid"])?
        .into_iter()
        .map(|(line, item, votes)| match votes.parse() {
            Ok(votes) => Ok((item, votes)),
            Err(_) => Err(format!("line {line}: {votes:?} is not a number of votes")),
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VoteLine {
    #[serde(rename = "voterID", alias = "voter")]
    voter_id: String,
    #[serde(alias = "itemID", alias = "item")]
    item_name: String,
}

/// Reads the votes, in the order of the file.
pub(super) fn read_votes(file: &Path) -> Result<Vec<VoteRow>, CliError> {
    let text = read_file(file)?;
    let rows = if text.trim_start().starts_with('{') {
        parse_vote_lines(&text)
    } else {
        parse_csv_pairs(&text, &["voter", "voterid", "user", "userid"]).map(|rows| {
            let rows = rows.into_iter();
            rows.map(|(_, voter, item)| VoteRow { voter, item })
                .collect()
        })
    };
    rows.map_err(|what| unusable_file(file, what))
}

fn parse_vote_lines(text: &str) -> Result<Vec<VoteRow>, String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(place, line)| {
            let line: VoteLine = serde_json::from_str(line)
                .map_err(|error| format!("line {}: {error}", place + 1))?;
            Ok(VoteRow {
                voter: line.voter_id,
                item: line.item_name,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn totals_are_read_in_every_form() {
        let expected = vec![("A, B".to_owned(), 1_503), ("C".to_owned(), 0)];
        for text in [
            "item,votes\n\"A, B\",1503\nC,0\n",
            "\"A, B\", 1503\nC,0",
            "{\"A, B\": 1503, \"C\": 0}",
            "[{\"itemName\": \"A, B\", \"votesCount\": 1503}, {\"item\": \"C\", \"votes\": 0}]",
        ] {
            assert_eq!(read_totals(file(text).path()).unwrap(), expected, "{text}");
        }
        for text in [
            "",
            "A,x",
            "A",
            "A,1\nA,2",
            "{\"A\": 1, \"A\": 2}",
            "{\"A\": -1}",
            "A,1,2",
            "[1]",
        ] {
            assert_eq!(
                read_totals(file(text).path()).unwrap_err().exit(),
                2,
                "{text}"
            );
        }
    }

    #[test]
    fn votes_are_read_in_every_form() {
        let row = |voter: &str, item: &str| VoteRow {
            voter: voter.to_owned(),
            item: item.to_owned(),
        };
        let expected = vec![row("u1", "A"), row("u2", "B")];
        for text in [
            "voter,item\nu1,A\nu2,B\n",
            "u1,A\nu2,B",
            "{\"voterID\":\"u1\",\"itemName\":\"A\"}\n\n{\"voter\":\"u2\",\"item\":\"B\"}\n",
        ] {
            assert_eq!(read_votes(file(text).path()).unwrap(), expected, "{text}");
        }
        assert!(read_votes(file("{\"voterID\":1}").path()).is_err());
    }
}
