//! The format of a data directory: a number in a file. A newer format is refused; an older one is
//! upgraded, with a message that lists the changes.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, bail};

/// The format that this program writes.
const FORMAT: u32 = 4;
const NAME: &str = "format";
/// What each format added.
const CHANGES: &[(u32, &str)] = &[
    (1, "every shard gets a directory with its log under shards/"),
    (2, "workflow executions are stored in executions.db"),
    (
        3,
        "the votes of closed polls may be in files under archive/",
    ),
    (
        4,
        "registry and shards carry the registry's identity, and refuse those of another one",
    ),
];

/// Checks the directory; returns the upgrade message, if it upgrades.
pub(crate) fn upgrade_format(directory: &Path) -> anyhow::Result<Option<String>> {
    let found = read_format(directory)?;
    if found == FORMAT {
        return Ok(None);
    }
    let is_new = !directory.join("registry.db").exists();
    write_format(directory)?;
    if is_new {
        return Ok(None);
    }
    let changes: Vec<_> = CHANGES
        .iter()
        .filter(|(format, _)| *format > found)
        .map(|(_, change)| *change)
        .collect();
    Ok(Some(format!(
        "upgraded the data from format {found} to {FORMAT}: {}",
        changes.join("; ")
    )))
}

/// Reads the format of a directory; fails if it is too new.
pub(crate) fn read_format(directory: &Path) -> anyhow::Result<u32> {
    let path = directory.join(NAME);
    let found = match fs::read_to_string(&path) {
        Ok(text) => text
            .trim()
            .parse::<u32>()
            .with_context(|| format!("{} does not contain a number", path.display()))?,
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

/// Writes the current format.
pub(crate) fn write_format(directory: &Path) -> anyhow::Result<()> {
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
        assert_eq!(upgrade_format(path).unwrap(), None);
        assert_eq!(fs::read_to_string(path.join(NAME)).unwrap(), "4\n");
        fs::write(path.join(NAME), "5\n").unwrap();
        let error = upgrade_format(path).unwrap_err().to_string();
        assert!(error.contains("format 5"), "{error}");
        assert_eq!(fs::read_to_string(path.join(NAME)).unwrap(), "5\n");
        fs::write(path.join(NAME), "x").unwrap();
        assert!(upgrade_format(path).is_err());
        fs::remove_file(path.join(NAME)).unwrap();
        fs::write(path.join("registry.db"), "").unwrap();
        let message = upgrade_format(path).unwrap().unwrap();
        assert!(message.contains("from format 0 to 4"), "{message}");
        assert_eq!(upgrade_format(path).unwrap(), None);
    }
}
