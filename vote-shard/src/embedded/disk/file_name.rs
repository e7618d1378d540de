//! Checks that an open file still has its name. A restart reads what the directory
//! names, not what this process has open: votes that are written to a file without a
//! name would be lost with the process.

use std::io;

use super::{Disk, DiskFile, DiskFileId, read_all};

/// Bytes per copy step.
const COPY_BYTES: usize = 1 << 20;
/// Suffix of a draft. Opening a shard removes drafts.
const DRAFT_SUFFIX: &str = ".new";

/// Why a name does not lead to the open file.
#[derive(Debug, thiserror::Error)]
pub enum LostName {
    /// The name is gone.
    #[error("{name} was removed from the shard's directory while the shard was open")]
    Removed {
        /// The file.
        name: String,
    },
    /// The name leads to another file, which is kept.
    #[error(
        "another file took the place of {name} while the shard was open; move it out of the \
         shard's directory, and the shard writes its own file there again"
    )]
    Replaced {
        /// The file.
        name: String,
    },
    /// The name cannot be looked up, or the file not be written again.
    #[error("{doing} {name}")]
    Disk {
        /// The operation.
        doing: &'static str,
        /// The file.
        name: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Checks that the name leads to this file.
pub(in crate::embedded) fn check_name(
    disk: &dyn Disk,
    name: &str,
    id: DiskFileId,
) -> Result<(), LostName> {
    let named = name.to_owned();
    match disk.file_id(name) {
        Ok(Some(found)) if found == id => Ok(()),
        Ok(Some(_)) => Err(LostName::Replaced { name: named }),
        Ok(None) => Err(LostName::Removed { name: named }),
        Err(source) => Err(LostName::Disk {
            doing: "look up",
            name: named,
            source,
        }),
    }
}

/// Writes a removed file again, durably; never overwrites another file. A file with the
/// same content is what an earlier attempt wrote, before it failed at the next file.
pub(in crate::embedded) fn restore_name(
    disk: &dyn Disk,
    name: &str,
    id: DiskFileId,
    file: &dyn DiskFile,
) -> Result<(), LostName> {
    match check_name(disk, name, id) {
        Err(LostName::Removed { .. }) => {}
        Err(LostName::Replaced { .. }) if has_same_content(disk, name, file) => return Ok(()),
        kept_or_unknown => return kept_or_unknown,
    }
    let draft = format!("{name}{DRAFT_SUFFIX}");
    let written = copy_to(disk, &draft, file);
    let renamed = written.and_then(|()| {
        disk.rename(&draft, name)?;
        disk.sync_names()
    });
    renamed.map_err(|source| LostName::Disk {
        doing: "write again",
        name: name.to_owned(),
        source,
    })
}

fn has_same_content(disk: &dyn Disk, name: &str, file: &dyn DiskFile) -> bool {
    let found = disk.open(name).and_then(|found| read_all(&*found));
    match (found, read_all(file)) {
        (Ok(found), Ok(own)) => found == own,
        _ => false,
    }
}

fn copy_to(disk: &dyn Disk, draft: &str, from: &dyn DiskFile) -> io::Result<()> {
    match disk.remove(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut to = disk.create(draft, 0)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        match from.read_at(offset, &mut buffer)? {
            0 => break,
            bytes => {
                to.write_at(offset, &buffer[..bytes])?;
                offset += bytes as u64;
            }
        }
    }
    to.sync()
}

/// An open file with its name.
pub(in crate::embedded) struct NamedFile {
    name: String,
    id: DiskFileId,
    file: Box<dyn DiskFile>,
}

impl NamedFile {
    /// Opens a file.
    pub(in crate::embedded) fn open(disk: &dyn Disk, name: String) -> io::Result<Self> {
        let file = disk.open(&name)?;
        let id = file.id()?;
        Ok(Self { name, id, file })
    }

    /// Checks that its name leads to it.
    pub(in crate::embedded) fn check(&self, disk: &dyn Disk) -> Result<(), LostName> {
        check_name(disk, &self.name, self.id)
    }

    /// Writes it again if it was removed.
    pub(in crate::embedded) fn restore(&self, disk: &dyn Disk) -> Result<(), LostName> {
        restore_name(disk, &self.name, self.id, &*self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::disk::{RealDisk, SimulatedDisk};

    fn each_disk(check: impl Fn(&dyn Disk)) {
        let directory = tempfile::tempdir().unwrap();
        check(&RealDisk::open(directory.path()).unwrap());
        check(&SimulatedDisk::new(1));
    }

    #[test]
    fn a_removed_file_is_written_again() {
        each_disk(|disk| {
            let mut file = disk.create("a", 3).unwrap();
            file.write_at(0, b"abc").unwrap();
            let named = NamedFile::open(disk, "a".to_owned()).unwrap();
            named.check(disk).unwrap();
            disk.rename("a", "b").unwrap();
            assert!(matches!(named.check(disk), Err(LostName::Removed { .. })));
            disk.remove("b").unwrap();
            named.restore(disk).unwrap();
            assert_eq!(disk.list().unwrap(), ["a"]);
            assert_eq!(read_all(&*disk.open("a").unwrap()).unwrap(), b"abc");
            // It is a new file: who wrote to the old one must open it anew.
            assert!(matches!(named.check(disk), Err(LostName::Replaced { .. })));
            // Another attempt, because the next file failed.
            named.restore(disk).unwrap();
        });
    }

    #[test]
    fn another_file_is_not_overwritten() {
        each_disk(|disk| {
            disk.create("a", 3).unwrap();
            let named = NamedFile::open(disk, "a".to_owned()).unwrap();
            disk.create("b", 1).unwrap();
            disk.rename("b", "a").unwrap();
            assert!(matches!(
                named.restore(disk),
                Err(LostName::Replaced { .. })
            ));
            assert_eq!(disk.open("a").unwrap().bytes().unwrap(), 1);
        });
    }
}
