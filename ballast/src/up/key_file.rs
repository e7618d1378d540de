//! Secrets of this installation: files with 32 random bytes in the data directory, created on first
//! use. Only their owner may read them.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use ballast_domain::Entropy;

/// A secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyFile {
    /// The file in a data directory.
    pub(super) name: &'static str,
    /// The consequence of replacing it.
    pub(super) renewed: &'static str,
}

impl KeyFile {
    /// Reads the secret of this data directory; creates it if there is none.
    pub(super) fn load_or_create(
        self,
        data_dir: &Path,
        entropy: &dyn Entropy,
    ) -> anyhow::Result<[u8; 32]> {
        let file = data_dir.join(self.name);
        match fs::metadata(&file) {
            Ok(found) => {
                let others = found.permissions().mode() & 0o077;
                if others != 0 {
                    bail!(
                        "{} is readable by other users: run chmod 600 on it; if it may have leaked, move it away and a new key is created",
                        file.display()
                    );
                }
                self.read(&file)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut seed = [0; 32];
                entropy.fill(&mut seed);
                write_seed(&file, &seed).with_context(|| format!("write {}", file.display()))?;
                Ok(seed)
            }
            Err(error) => Err(error).with_context(|| format!("read {}", file.display())),
        }
    }

    fn read(self, file: &Path) -> anyhow::Result<[u8; 32]> {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        match parse_seed(text.trim()) {
            Some(seed) => Ok(seed),
            None => bail!(
                "{} is damaged: expected 64 hexadecimal digits; restore it from a backup, or move it away: then a new key is created, and {}",
                file.display(),
                self.renewed
            ),
        }
    }
}

fn parse_seed(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut seed = [0; 32];
    for (place, byte) in seed.iter_mut().enumerate() {
        let digits = text.get(2 * place..2 * place + 2)?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    text.chars().all(|c| c.is_ascii_hexdigit()).then_some(seed)
}

/// Writes atomically and durably, before the key is used.
fn write_seed(file: &Path, seed: &[u8; 32]) -> std::io::Result<()> {
    let draft = file.with_extension("key.new");
    // A draft left by a crash may have other permissions.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut out = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let digits: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(out, "{digits}")?;
    out.sync_all()?;
    fs::rename(&draft, file)?;
    match file.parent() {
        Some(directory) => fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::SystemEntropy;

    const KEY: KeyFile = KeyFile {
        name: "some.key",
        renewed: "nothing else",
    };

    fn made(data_dir: &Path) -> [u8; 32] {
        KEY.load_or_create(data_dir, &SystemEntropy).unwrap()
    }

    fn error(data_dir: &Path) -> String {
        format!(
            "{:#}",
            KEY.load_or_create(data_dir, &SystemEntropy).unwrap_err()
        )
    }

    #[test]
    fn it_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let first = made(directory.path());
        let again = made(directory.path());
        assert_eq!(first, again);
        let file = directory.path().join(KEY.name);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "no draft is left");
        let other = tempfile::tempdir().unwrap();
        let other = made(other.path());
        assert_ne!(other, first);
    }

    #[test]
    fn one_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        made(directory.path());
        let file = directory.path().join(KEY.name);
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let message = error(directory.path());
            assert!(message.contains("chmod 600"), "{message}");
        }
    }

    #[test]
    fn one_that_is_damaged_is_refused_and_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        made(directory.path());
        let file = directory.path().join(KEY.name);
        let whole = fs::read_to_string(&file).unwrap();
        for bad in [
            "",
            &whole[1..],
            "z",
            &whole.replace(['0', '1', '2', '3'], "+"),
            &format!("0{whole}"),
        ] {
            fs::write(&file, bad).unwrap();
            let message = error(directory.path());
            assert!(message.contains("is damaged"), "{bad:?}: {message}");
            assert_eq!(fs::read_to_string(&file).unwrap(), *bad);
        }
    }
}
