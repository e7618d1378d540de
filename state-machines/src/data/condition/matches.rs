//! The patterns of `StringMatches`: `*` matches any characters or none.

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WildcardPattern(Vec<PatternPart>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatternPart {
    Char(char),
    Any,
}

impl WildcardPattern {
    /// `\*` is an asterisk and `\\` a backslash; any other backslash is literal.
    pub(super) fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match (c, rest.peek()) {
                ('\\', Some(plain @ ('*' | '\\'))) => {
                    parts.push(PatternPart::Char(*plain));
                    rest.next();
                }
                ('*', _) => parts.push(PatternPart::Any),
                _ => parts.push(PatternPart::Char(c)),
            }
        }
        Self(parts)
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let parts = &self.0;
        let (mut part, mut at) = (0, 0);
        // The last `*`, and the end of what it matches: only the last one needs
        // backtracking.
        let mut star: Option<(usize, usize)> = None;
        while at < text.len() {
            match parts.get(part) {
                Some(PatternPart::Any) => {
                    star = Some((part, at));
                    part += 1;
                }
                Some(PatternPart::Char(c)) if *c == text[at] => {
                    part += 1;
                    at += 1;
                }
                _ => match &mut star {
                    Some((any, stretched)) => {
                        *stretched += 1;
                        part = *any + 1;
                        at = *stretched;
                    }
                    None => return false,
                },
            }
        }
        parts[part..].iter().all(|rest| *rest == PatternPart::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::WildcardPattern;

    #[test]
    fn asterisks_stand_for_anything_and_escapes_for_themselves() {
        let cases = [
            ("*.log", "zebra.log", true),
            ("*.log", "zebra.slog", false),
            ("foo*.*", "foobar.zebra", true),
            ("foo*.*", "fobar.zebra", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            (r"foo\*bar", "foo*bar", true),
            (r"foo\*bar", "fooxbar", false),
            (r"a\\*", r"a\bc", true),
            (r"a\b", r"a\b", true),
            ("*ß", "straß", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                WildcardPattern::parse(pattern).matches(text),
                expected,
                "{pattern} on {text}"
            );
        }
    }

    #[test]
    fn many_asterisks_cost_no_more_than_their_product() {
        let text = "a".repeat(2000);
        assert!(!WildcardPattern::parse(&format!("{}b", "*a".repeat(500))).matches(&text));
    }
}
