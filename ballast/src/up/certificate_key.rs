//! The key that certificates of moves are signed with: a file of the data
//! directory, made at the first start and kept for good. Whoever has it can
//! sign in this installation's name, so nobody but its owner may read it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use ballast_control_plane::migrations::notary::Notary;
use ballast_domain::Entropy;

/// The file in a data directory.
pub(crate) const FILE: &str = "certificate.key";

/// Whoever signs with the key of this data directory; it is made if there is
/// none.
pub(crate) fn notary(data_dir: &Path, entropy: &dyn Entropy) -> anyhow::Result<Notary> {
    let file = data_dir.join(FILE);
    let seed = match fs::metadata(&file) {
        Ok(found) => {
            let others = found.permissions().mode() & 0o077;
            if others != 0 {
                bail!(
                    "{} can be read by others, and it is a secret: chmod 600 it; if somebody may have taken it, move it away, and a new key is made",
                    file.display()
                );
            }
            read(&file)?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut seed = [0; 32];
            entropy.fill(&mut seed);
            write(&file, &seed).with_context(|| format!("write {}", file.display()))?;
            seed
        }
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    Notary::from_seed(&seed).with_context(|| format!("use {}", file.display()))
}

fn read(file: &Path) -> anyhow::Result<[u8; 32]> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    match seed(text.trim()) {
        Some(seed) => Ok(seed),
        None => bail!(
            "{} is damaged: it should hold 64 hexadecimal digits; take it from a backup, or move it away: then a new key is made, and certificates signed so far are verified with the old public key",
            file.display()
        ),
    }
}

fn seed(text: &str) -> Option<[u8; 32]> {
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

/// Whole or not at all, and on disk before anything is signed with it.
fn write(file: &Path, seed: &[u8; 32]) -> std::io::Result<()> {
    let draft = file.with_file_name(format!("{FILE}.new"));
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

    fn error(data_dir: &Path) -> String {
        format!("{:#}", notary(data_dir, &SystemEntropy).unwrap_err())
    }

    #[test]
    fn it_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let first = notary(directory.path(), &SystemEntropy).unwrap();
        let again = notary(directory.path(), &SystemEntropy).unwrap();
        assert_eq!(first.public_key(), again.public_key());
        let file = directory.path().join(FILE);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "no draft is left");
        let other = tempfile::tempdir().unwrap();
        let other = notary(other.path(), &SystemEntropy).unwrap();
        assert_ne!(other.public_key(), first.public_key());
    }

    #[test]
    fn one_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        notary(directory.path(), &SystemEntropy).unwrap();
        let file = directory.path().join(FILE);
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let told = error(directory.path());
            assert!(told.contains("chmod 600"), "{told}");
        }
    }

    #[test]
    fn one_that_is_damaged_is_refused_and_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        notary(directory.path(), &SystemEntropy).unwrap();
        let file = directory.path().join(FILE);
        let whole = fs::read_to_string(&file).unwrap();
        for bad in [
            "",
            &whole[1..],
            "z",
            &whole.replace(['0', '1', '2', '3'], "+"),
            &format!("0{whole}"),
        ] {
            fs::write(&file, bad).unwrap();
            let told = error(directory.path());
            assert!(told.contains("is damaged"), "{bad:?}: {told}");
            assert_eq!(fs::read_to_string(&file).unwrap(), *bad);
        }
    }
}
