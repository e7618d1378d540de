//! `migration verify-certificate`: verifies a certificate's signature offline. The certificate
//! holds the public key; the operator passes the key to trust.

use std::path::PathBuf;

use ballast_control_plane::migrations::certificate_signer::verify;
use ballast_domain::certificate::{SignedCertificate, VERSION};
use clap::Args;
use serde_json::{Value, json};

use crate::failure::{CliError, CommandOutcome};
use crate::output::Screen;
use crate::view::certificate;
use crate::workflow::files;

/// The certificate to verify.
#[derive(Debug, Args)]
pub(crate) struct VerifyCertificateArgs {
    /// The certificate file, or - for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// The trusted public key, as GET /certificate-key returns it
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
}

impl VerifyCertificateArgs {
    /// Runs the command.
    pub(super) fn run(self, screen: &Screen) -> Result<CommandOutcome, CliError> {
        let text = files::read_text(&self.file).map_err(|why| {
            CliError::usage(why, "name an existing file, or - for standard input")
        })?;
        let signed = check_certificate(&text, self.public_key.as_deref()).map_err(|why| {
            CliError::rejected_locally(
                "certificate-refused",
                "Invalid certificate",
                why,
                "fetch it again: ballast migration certificate ID",
            )
        })?;
        let doubt = signed.certificate.describe_doubt();
        if screen.json {
            let message = json!({
                "valid": true,
                "doubt": doubt,
                "trusted": self.public_key.is_some(),
                "migrationID": signed.certificate.migration_id,
                "status": signed.certificate.status,
                "publicKey": signed.public_key,
            });
            screen.data(message.to_string().as_bytes())?;
        } else {
            let message =
                certificate::describe_verified(screen, &signed, self.public_key.is_some());
            screen.data(message.as_bytes())?;
        }
        match doubt {
            None => Ok(CommandOutcome::Done),
            Some(why) => Err(CliError::rejected_locally(
                "certificate-in-doubt",
                "The signature is valid, but the certificate does not prove that every vote is present once",
                why,
                "see the findings: ballast migration show ID",
            )),
        }
    }
}

/// Parses and verifies a certificate: pure.
fn check_certificate(text: &str, trusted: Option<&str>) -> Result<SignedCertificate, String> {
    let given: Value = serde_json::from_str(text).map_err(|bad| format!("not JSON: {bad}"))?;
    let version = given.get("version").and_then(Value::as_u64);
    if let Some(version) = version
        && version != u64::from(VERSION)
    {
        return Err(format!(
            "version {version} is not supported; this program reads version {VERSION}"
        ));
    }
    let signed: SignedCertificate =
        serde_json::from_str(text).map_err(|bad| format!("not a certificate: {bad}"))?;
    let known = serde_json::to_value(&signed).unwrap_or_default();
    if let Some(member) = first_difference(&given, &known, "") {
        return Err(format!(
            "{member} is not part of the signed certificate: it was added or rewritten"
        ));
    }
    verify(&signed, trusted).map_err(|why| why.to_string())?;
    Ok(signed)
}

/// The path of the first difference between two documents.
fn first_difference(given: &Value, known: &Value, place: &str) -> Option<String> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            let names = given.keys().chain(known.keys());
            names.into_iter().find_map(|name| {
                let place = format!("{place}/{name}");
                match (given.get(name), known.get(name)) {
                    (Some(one), Some(other)) => first_difference(one, other, &place),
                    _ => Some(place),
                }
            })
        }
        (one, other) => (one != other).then(|| place.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use ballast_control_plane::migrations::certificate_signer::CertificateSigner;

    use super::*;
    use crate::view::certificate::example_certificate;

    fn test_signer() -> CertificateSigner {
        CertificateSigner::from_seed(&[7; 32]).unwrap()
    }

    fn certificate_json() -> Value {
        serde_json::to_value(test_signer().sign(example_certificate())).unwrap()
    }

    fn refused(value: &Value) -> String {
        check_certificate(&value.to_string(), None).unwrap_err()
    }

    #[test]
    fn one_that_was_signed_is_believed_in_whatever_form_it_is_written() {
        let key = test_signer().public_key();
        for text in [
            certificate_json().to_string(),
            serde_json::to_string_pretty(&certificate_json()).unwrap(),
        ] {
            assert!(check_certificate(&text, None).is_ok());
            assert!(check_certificate(&text, Some(&key)).is_ok());
            assert!(check_certificate(&text, Some(&format!("{key}\n"))).is_ok());
        }
    }

    /// The places of all members, at any depth.
    fn places(value: &Value, place: &str, found: &mut Vec<String>) {
        for (name, member) in value.as_object().into_iter().flatten() {
            let place = format!("{place}/{name}");
            places(member, &place, found);
            found.push(place);
        }
    }

    #[test]
    fn no_member_can_be_changed() {
        let mut all = Vec::new();
        places(&certificate_json(), "", &mut all);
        assert!(all.len() > 25, "{all:?}");
        for place in all {
            let mut changed = certificate_json();
            let member = changed.pointer_mut(&place).unwrap();
            *member = match &*member {
                Value::Number(number) => json!(number.as_u64().unwrap() + 1),
                Value::String(text) if text == "completed" => json!("reversed"),
                Value::String(text) if text.ends_with('Z') => json!("2026-11-17T10:00:00Z"),
                Value::String(text) => json!(format!("{}x", &text[..text.len() - 1])),
                _ => Value::Null,
            };
            refused(&changed);
        }
    }

    #[test]
    fn no_member_can_be_removed() {
        let mut all = Vec::new();
        places(&certificate_json(), "", &mut all);
        for place in all {
            let mut changed = certificate_json();
            let (parent, name) = place.rsplit_once('/').unwrap();
            let parent = changed
                .pointer_mut(parent)
                .unwrap()
                .as_object_mut()
                .unwrap();
            parent.remove(name);
            refused(&changed);
        }
    }

    #[test]
    fn no_member_can_be_added_not_even_one_that_says_nothing() {
        let mut changed = certificate_json();
        changed["approvedBy"] = json!("the board");
        assert!(refused(&changed).contains("/approvedBy"));
        let mut changed = certificate_json();
        changed["votes"]["lost"] = json!(0);
        refused(&changed);
        let mut without = example_certificate();
        without.reason = None;
        let mut changed = serde_json::to_value(test_signer().sign(without)).unwrap();
        changed["reason"] = Value::Null;
        assert!(refused(&changed).contains("/reason"));
        let twice = certificate_json()
            .to_string()
            .replacen('{', r#"{"slice":9,"#, 1);
        assert!(check_certificate(&twice, None).is_err());
    }

    #[test]
    fn another_key_is_told_with_both() {
        let other = CertificateSigner::from_seed(&[8; 32]).unwrap().public_key();
        let message = check_certificate(&certificate_json().to_string(), Some(&other)).unwrap_err();
        assert!(message.contains(&other), "{message}");
        assert!(message.contains(&test_signer().public_key()), "{message}");
        // One who signs it anew is found out by the key.
        let forged = CertificateSigner::from_seed(&[8; 32])
            .unwrap()
            .sign(example_certificate());
        let forged = serde_json::to_string(&forged).unwrap();
        assert!(check_certificate(&forged, None).is_ok());
        assert!(check_certificate(&forged, Some(&test_signer().public_key())).is_err());
    }

    #[test]
    fn what_is_none_is_told_so() {
        assert!(
            check_certificate("", None)
                .unwrap_err()
                .contains("not JSON")
        );
        assert!(
            check_certificate("{}", None)
                .unwrap_err()
                .contains("not a certificate")
        );
        let mut newer = certificate_json();
        newer["version"] = json!(2);
        assert!(refused(&newer).contains("version 2"));
    }
}
