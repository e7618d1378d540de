//! The key that signs certificates of migrations. Its holder can sign in this installation's name.

use std::path::Path;

use anyhow::Context;
use ballast_control_plane::migrations::certificate_signer::CertificateSigner;
use ballast_domain::Entropy;

use super::key_file::KeyFile;

/// The file in a data directory.
pub(crate) const FILE: &str = "certificate.key";

/// Opens the certificate signer of this data directory; creates the key if there is none.
pub(crate) fn open_certificate_signer(
    data_dir: &Path,
    entropy: &dyn Entropy,
) -> anyhow::Result<CertificateSigner> {
    let key = KeyFile {
        name: FILE,
        renewed: "certificates signed so far still need the old public key",
    };
    let seed = key.load_or_create(data_dir, entropy)?;
    CertificateSigner::from_seed(&seed).with_context(|| format!("use {FILE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::SystemEntropy;

    #[test]
    fn who_signs_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let first = open_certificate_signer(directory.path(), &SystemEntropy).unwrap();
        let again = open_certificate_signer(directory.path(), &SystemEntropy).unwrap();
        assert_eq!(first.public_key(), again.public_key());
    }
}
