//! The format of a data directory: a number in a file. A newer one is refused,
//! an older one is taken over, and it is said what changes by that.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, bail};

/// What this program writes.
const FORMAT: u32 = 3;
const NAME: &str = "format";
/// What came with each format.
const CHANGES: &[(u32, &str)] = &[
    (1, "every shard gets a directory with its log under shards/"),
    (2, "executions of workflows are kept in executions.db"),
    (
        3,
        "the votes of closed polls may be in files under archive/",
    ),
];

/// Checks the directory; says what taking it over changes, if anything.
pub(crate) fn check(directory: &Path) -> anyhow::Result<Option<String>> {
    let found = known(directory)?;
    if found == FORMAT {
        return Ok(None);
    }
    let is_new = !directory.join("registry.db").exists();
    mark(directory)?;
    if is_new {
        return Ok(None);
    }
    let changes: Vec<_> = CHANGES
        .iter()
        .filter(|(format, _)| *format > found)
        .map(|(_, change)| *change)
        .collect();
    Ok(Some(format!(
        "the data was taken over from format {found} to {FORMAT}: {}",
        changes.join("; ")
    )))
}

/// The format of a directory, which must not be a newer one.
pub(crate) fn known(directory: &Path) -> anyhow::Result<u32> {
    let path = directory.join(NAME);
    let found = match fs::read_to_string(&path) {
        Ok(text) => text
            .trim()
            .parse::<u32>()
            .with_context(|| format!("{} holds no number", path.display()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    if found > FORMAT {
        bail!(
            "the data in {} has format {found}, and this program knows formats up to {FORMAT}; \
             use the program that wrote it, or a newer one",
            directory.display()
        );
    }
    Ok(found)
}

/// Writes the format this program has.
pub(crate) fn mark(directory: &Path) -> anyhow::Result<()> {
    let draft = directory.join("format.new");
    let mut file = File::create(&draft)?;
    writeln!(file, "{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&draft, directory.join(NAME))?;
    Ok(File::open(directory)?.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_refused_and_an_older_one_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(check(path).unwrap(), None);
        assert_eq!(fs::read_to_string(path.join(NAME)).unwrap(), "3\n");
        fs::write(path.join(NAME), "4\n").unwrap();
        let error = check(path).unwrap_err().to_string();
        assert!(error.contains("format 4"), "{error}");
        assert_eq!(fs::read_to_string(path.join(NAME)).unwrap(), "4\n");
        fs::write(path.join(NAME), "x").unwrap();
        assert!(check(path).is_err());
        fs::remove_file(path.join(NAME)).unwrap();
        fs::write(path.join("registry.db"), "").unwrap();
        let told = check(path).unwrap().unwrap();
        assert!(told.contains("from format 0 to 3"), "{told}");
        assert_eq!(check(path).unwrap(), None);
    }
}
