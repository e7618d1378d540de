//! What somebody may have meant.

/// `; did you mean "Verify"?`, if one of the candidates is close.
pub(super) fn hint<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    nearest(written, candidates)
        .map(|name| format!("; did you mean {name:?}?"))
        .unwrap_or_default()
}

/// The candidate that is nearest, if it is near at all: a third of the
/// letters may be wrong, and capitals never count.
fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let allowed = (written.chars().count() / 3).max(1);
    candidates
        .map(|name| {
            (
                strsim::damerau_levenshtein(&lower, &name.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_close_is_offered() {
        let names = ["Verify", "Copy", "Seal"];
        let offered = |written| nearest(written, names.iter().copied());
        assert_eq!(offered("Verfy"), Some("Verify"));
        assert_eq!(offered("copy"), Some("Copy"));
        assert_eq!(offered("Sael"), Some("Seal"));
        assert_eq!(offered("Publish"), None);
        assert_eq!(
            hint("Verfy", names.into_iter()),
            "; did you mean \"Verify\"?"
        );
        assert_eq!(hint("Publish", names.into_iter()), "");
    }
}
