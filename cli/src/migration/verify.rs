//! `migration verify-certificate`: whether a certificate is what was signed.
//! It asks nobody: the certificate holds the key that signed it, and whoever
//! knows which key to trust says so.

use std::path::PathBuf;

use ballast_control_plane::migrations::notary::verify;
use ballast_domain::certificate::{Signed, VERSION};
use clap::Args;
use serde_json::{Value, json};

use crate::failure::{Failure, Verdict};
use crate::output::Screen;
use crate::view::certificate;
use crate::workflow::files;

/// What is checked.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The certificate; - is the standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// The key that is trusted, as GET /certificate-key shows it
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
}

impl VerifyArgs {
    /// Does it.
    pub(super) fn run(self, screen: &Screen) -> Result<Verdict, Failure> {
        let text = files::read(&self.file).map_err(|why| {
            Failure::usage(
                why,
                "name a file that is there, or - for the standard input",
            )
        })?;
        let signed = checked(&text, self.public_key.as_deref()).map_err(|why| {
            Failure::refused_here(
                "certificate-refused",
                "The certificate is not to be believed",
                why,
                "ask for it again: ballast migration certificate ID",
            )
        })?;
        let doubt = signed.certificate.doubt();
        if screen.json {
            let told = json!({
                "valid": true,
                "doubt": doubt,
                "trusted": self.public_key.is_some(),
                "migrationID": signed.certificate.migration_id,
                "status": signed.certificate.status,
                "publicKey": signed.public_key,
            });
            screen.data(told.to_string().as_bytes())?;
        } else {
            let told = certificate::verified(screen, &signed, self.public_key.is_some());
            screen.data(told.as_bytes())?;
        }
        match doubt {
            None => Ok(Verdict::Done),
            Some(why) => Err(Failure::refused_here(
                "certificate-in-doubt",
                "The certificate is what was signed, and does not prove that every vote is there once",
                why,
                "look at what was found: ballast migration show ID",
            )),
        }
    }
}

/// The certificate, if it is exactly what was signed: pure.
fn checked(text: &str, trusted: Option<&str>) -> Result<Signed, String> {
    let given: Value = serde_json::from_str(text).map_err(|bad| format!("it is no JSON: {bad}"))?;
    let version = given.get("version").and_then(Value::as_u64);
    if let Some(version) = version
        && version != u64::from(VERSION)
    {
        return Err(format!(
            "it has version {version}; this program knows version {VERSION}"
        ));
    }
    let signed: Signed =
        serde_json::from_str(text).map_err(|bad| format!("it is no certificate: {bad}"))?;
    let known = serde_json::to_value(&signed).unwrap_or_default();
    if let Some(member) = different(&given, &known, "") {
        return Err(format!(
            "{member} is not part of it as it was signed: it was added, or written differently"
        ));
    }
    verify(&signed, trusted).map_err(|why| why.to_string())?;
    Ok(signed)
}

/// The first member that is in one and not the same in the other.
fn different(given: &Value, known: &Value, place: &str) -> Option<String> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            let names = given.keys().chain(known.keys());
            names.into_iter().find_map(|name| {
                let place = format!("{place}/{name}");
                match (given.get(name), known.get(name)) {
                    (Some(one), Some(other)) => different(one, other, &place),
                    _ => Some(place),
                }
            })
        }
        (one, other) => (one != other).then(|| place.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use ballast_control_plane::migrations::notary::Notary;

    use super::*;
    use crate::view::certificate::example;

    fn notary() -> Notary {
        Notary::from_seed(&[7; 32]).unwrap()
    }

    fn given() -> Value {
        serde_json::to_value(notary().sign(example())).unwrap()
    }

    fn refused(value: &Value) -> String {
        checked(&value.to_string(), None).unwrap_err()
    }

    #[test]
    fn one_that_was_signed_is_believed_in_whatever_form_it_is_written() {
        let key = notary().public_key();
        for text in [
            given().to_string(),
            serde_json::to_string_pretty(&given()).unwrap(),
        ] {
            assert!(checked(&text, None).is_ok());
            assert!(checked(&text, Some(&key)).is_ok());
            assert!(checked(&text, Some(&format!("{key}\n"))).is_ok());
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
        places(&given(), "", &mut all);
        assert!(all.len() > 25, "{all:?}");
        for place in all {
            let mut changed = given();
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
        places(&given(), "", &mut all);
        for place in all {
            let mut changed = given();
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
        let mut changed = given();
        changed["approvedBy"] = json!("the board");
        assert!(refused(&changed).contains("/approvedBy"));
        let mut changed = given();
        changed["votes"]["lost"] = json!(0);
        refused(&changed);
        let mut without = example();
        without.reason = None;
        let mut changed = serde_json::to_value(notary().sign(without)).unwrap();
        changed["reason"] = Value::Null;
        assert!(refused(&changed).contains("/reason"));
        let twice = given().to_string().replacen('{', r#"{"slice":9,"#, 1);
        assert!(checked(&twice, None).is_err());
    }

    #[test]
    fn another_key_is_told_with_both() {
        let other = Notary::from_seed(&[8; 32]).unwrap().public_key();
        let told = checked(&given().to_string(), Some(&other)).unwrap_err();
        assert!(told.contains(&other), "{told}");
        assert!(told.contains(&notary().public_key()), "{told}");
        // One who signs it anew is found out by the key.
        let forged = Notary::from_seed(&[8; 32]).unwrap().sign(example());
        let forged = serde_json::to_string(&forged).unwrap();
        assert!(checked(&forged, None).is_ok());
        assert!(checked(&forged, Some(&notary().public_key())).is_err());
    }

    #[test]
    fn what_is_none_is_told_so() {
        assert!(checked("", None).unwrap_err().contains("no JSON"));
        assert!(checked("{}", None).unwrap_err().contains("no certificate"));
        let mut newer = given();
        newer["version"] = json!(2);
        assert!(refused(&newer).contains("version 2"));
    }
}
