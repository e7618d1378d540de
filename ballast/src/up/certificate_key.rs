//! The key that certificates of moves are signed with. Whoever has it can sign
//! in this installation's name.

use std::path::Path;

use anyhow::Context;
use ballast_control_plane::migrations::certificate_signer::CertificateSigner;
use ballast_domain::Entropy;

use super::key_file::KeyFile;

/// The file in a data directory.
pub(crate) const FILE: &str = "certificate.key";

/// Whoever signs with the key of this data directory; it is made if there is
/// none.
pub(crate) fn notary(data_dir: &Path, entropy: &dyn Entropy) -> anyhow::Result<CertificateSigner> {
    let key = KeyFile {
        name: FILE,
        renewed: "certificates signed so far are verified with the old public key",
    };
    let seed = key.seed(data_dir, entropy)?;
    CertificateSigner::from_seed(&seed).with_context(|| format!("use {FILE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::SystemEntropy;

    #[test]
    fn who_signs_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let first = notary(directory.path(), &SystemEntropy).unwrap();
        let again = notary(directory.path(), &SystemEntropy).unwrap();
        assert_eq!(first.public_key(), again.public_key());
    }
}
