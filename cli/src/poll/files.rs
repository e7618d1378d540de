//! Reading counters and votes from files: CSV or JSON, by what is in them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;

/// Who voted for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) voter: String,
    /// An item's name or ID.
    pub(super) item: String,
}

fn bad(file: &Path, what: impl std::fmt::Display) -> Failure {
    let text = format!("{}: {what}", file.display());
    Failure::usage(
        text,
        "ballast poll import --help shows what the files look like",
    )
}

fn text(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| bad(file, format!("it cannot be read: {error}")))
}

/// Votes per item, in the order of the file.
pub(super) fn totals(file: &Path) -> Result<Vec<(String, u64)>, Failure> {
    let text = text(file)?;
    let totals = match text.trim_start().chars().next() {
        Some('{') => json_object(&text),
        Some('[') => json_list(&text),
        _ => csv_totals(&text),
    };
    let totals = totals.map_err(|what| bad(file, what))?;
    let mut seen = BTreeMap::new();
    for (item, _) in &totals {
        if seen.insert(item.clone(), ()).is_some() {
            return Err(bad(file, format!("{item:?} is there twice")));
        }
    }
    if totals.is_empty() {
        return Err(bad(file, "there is nothing in it"));
    }
    Ok(totals)
}

fn json_object(text: &str) -> Result<Vec<(String, u64)>, String> {
    let Pairs(all) = serde_json::from_str(text).map_err(|error| error.to_string())?;
    all.into_iter()
        .map(|(item, votes)| match votes.as_u64() {
            Some(votes) => Ok((item, votes)),
            None => Err(format!("{item:?}: {votes} is no number of votes")),
        })
        .collect()
}

/// An object's members as they are written: one that is there twice is seen
/// twice.
struct Pairs(Vec<(String, serde_json::Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> serde::de::Visitor<'de> for Members {
            type Value = Pairs;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of items and votes")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        source.deserialize_map(Members)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Total {
    #[serde(alias = "itemID", alias = "item")]
    item_name: String,
    #[serde(alias = "votes", alias = "count")]
    votes_count: u64,
}

fn json_list(text: &str) -> Result<Vec<(String, u64)>, String> {
    let all: Vec<Total> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let pairs = all
        .into_iter()
        .map(|total| (total.item_name, total.votes_count));
    Ok(pairs.collect())
}

/// The two columns of a CSV file, with or without a head.
fn pairs(text: &str, heads: &[&str]) -> Result<Vec<(u64, String, String)>, String> {
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
                "line {line}: two columns are needed, not {}",
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

fn csv_totals(text: &str) -> Result<Vec<(String, u64)>, String> {
    pairs(text, &["item", "itemname", "name", "itemid"])?
        .into_iter()
        .map(|(line, item, votes)| match votes.parse() {
            Ok(votes) => Ok((item, votes)),
            Err(_) => Err(format!("line {line}: {votes:?} is no number of votes")),
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "voterID", alias = "voter")]
    voter_id: String,
    #[serde(alias = "itemID", alias = "item")]
    item_name: String,
}

/// Who voted for what, in the order of the file.
pub(super) fn rows(file: &Path) -> Result<Vec<Row>, Failure> {
    let text = text(file)?;
    let rows = if text.trim_start().starts_with('{') {
        json_lines(&text)
    } else {
        pairs(&text, &["voter", "voterid", "user", "userid"]).map(|rows| {
            let rows = rows.into_iter();
            rows.map(|(_, voter, item)| Row { voter, item }).collect()
        })
    };
    rows.map_err(|what| bad(file, what))
}

fn json_lines(text: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(place, line)| {
            let line: Line = serde_json::from_str(line)
                .map_err(|error| format!("line {}: {error}", place + 1))?;
            Ok(Row {
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
            assert_eq!(totals(file(text).path()).unwrap(), expected, "{text}");
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
            assert_eq!(totals(file(text).path()).unwrap_err().exit(), 2, "{text}");
        }
    }

    #[test]
    fn votes_are_read_in_every_form() {
        let row = |voter: &str, item: &str| Row {
            voter: voter.to_owned(),
            item: item.to_owned(),
        };
        let expected = vec![row("u1", "A"), row("u2", "B")];
        for text in [
            "voter,item\nu1,A\nu2,B\n",
            "u1,A\nu2,B",
            "{\"voterID\":\"u1\",\"itemName\":\"A\"}\n\n{\"voter\":\"u2\",\"item\":\"B\"}\n",
        ] {
            assert_eq!(rows(file(text).path()).unwrap(), expected, "{text}");
        }
        assert!(rows(file("{\"voterID\":1}").path()).is_err());
    }
}
