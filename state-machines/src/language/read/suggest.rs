//! Suggestions for misspelt names.

/// Longer names are not compared, because that is slow.
const CHARS_MAX: usize = 100;

/// `; did you mean "Verify"?`, if one of the candidates is similar.
pub(super) fn suggest_name<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    nearest(written, candidates)
        .map(|name| format!("; did you mean {name:?}?"))
        .unwrap_or_default()
}

/// The most similar candidate: at most a third of the letters may differ; case is
/// ignored.
fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let chars = written.chars().count();
    if chars > CHARS_MAX {
        return None;
    }
    let lower = written.to_lowercase();
    let allowed = (chars / 3).max(1);
    candidates
        .filter(|name| name.len() <= 4 * CHARS_MAX)
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
            suggest_name("Verfy", names.into_iter()),
            "; did you mean \"Verify\"?"
        );
        assert_eq!(suggest_name("Publish", names.into_iter()), "");
    }
}
