//! Names: public types are unique in the workspace, functions do not use retired names, retired
//! words do not return to comments, messages and documents, and renaming a type does not change
//! sentences.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::{files, files_ending, read, report};

/// Function names that say neither what they do nor what they return.
const RETIRED_FUNCTIONS: [&str; 14] = [
    "carried",
    "carry",
    "found",
    "given",
    "heard",
    "kept",
    "looked",
    "looked_after",
    "looked_at",
    "named",
    "of",
    "taken",
    "tell",
    "told",
];

/// Words that this project used in a private sense, with the number of lines that still have them.
/// The number may only fall.
const RETIRED_WORDS: [(&str, usize); 9] = [
    ("anybody", 0),
    ("at the longest", 0),
    ("by now", 0),
    ("for ever", 0),
    ("nobody", 0),
    ("taken for", 0),
    ("told", 0),
    ("watchman", 0),
    ("whoever", 0),
];

/// Files that may contain retired words: decisions, the glossary, and this list.
const EXEMPT: [&str; 3] = [
    "docs/adr/",
    "docs/glossary.md",
    "ballast/tests/tidy/names.rs",
];

/// Directories whose strings operators read. Elsewhere strings may name what a format calls so, as
/// the states' language does.
const TEXTS: [&str; 3] = [
    "cli/src/view/",
    "console/src/pages/",
    "control-plane/src/hotspots/",
];

#[test]
fn public_types_have_unique_names() {
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files_ending(".rs") {
        for (number, line) in read(&path).lines().enumerate() {
            if let Some(name) = public_type(line) {
                let place = format!("{path}:{}", number + 1);
                declared.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    let repeated = declared.iter().filter(|(_, places)| places.len() > 1);
    report(
        repeated
            .map(|(name, places)| {
                format!(
                    "several public types are named {name} ({}): name each after its role",
                    places.join(", ")
                )
            })
            .collect(),
    );
}

#[test]
fn function_names_are_not_retired() {
    let mut findings = Vec::new();
    for path in files_ending(".rs") {
        let text = read(&path);
        let mut implements_trait = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("impl") {
                // A trait of another crate decides the names of its methods.
                implements_trait = line.contains(" for ");
            }
            let name = function_name(line);
            if let Some(name) = name.filter(|name| RETIRED_FUNCTIONS.contains(name))
                && !implements_trait
            {
                findings.push(format!(
                    "{path}:{}: rename `{name}` to a verb phrase that names its effect, such as \
                     `load_route`; a conversion is `from_…` or `to_…`",
                    number + 1
                ));
            }
        }
    }
    report(findings);
}

#[test]
fn retired_words_do_not_come_back() {
    let mut lines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for path in files() {
        let is_text = [".rs", ".md", ".json", ".js", ".toml"]
            .iter()
            .any(|ending| path.ends_with(ending));
        if !is_text || EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            for (word, _) in RETIRED_WORDS {
                if has_word(prose(&path, line), word) {
                    let place = format!("{path}:{}", number + 1);
                    lines.entry(word).or_default().push(place);
                }
            }
        }
    }
    let mut findings = Vec::new();
    for (word, allowed) in RETIRED_WORDS {
        let places = lines.get(word).map(Vec::as_slice).unwrap_or_default();
        if places.len() > allowed {
            findings.push(format!(
                "{} lines contain {word:?}, {allowed} are allowed; use plain words: {}",
                places.len(),
                places.join(", ")
            ));
        } else if places.len() < allowed {
            findings.push(format!(
                "{} lines contain {word:?}: lower its number in RETIRED_WORDS from {allowed}",
                places.len()
            ));
        }
    }
    report(findings);
}

/// Renaming a type by search and replace also replaces the word in texts.
#[test]
fn texts_do_not_name_types() {
    let types = compound_types();
    let mut findings = Vec::new();
    for path in files_ending(".rs") {
        let is_text = TEXTS.iter().any(|texts| path.starts_with(texts));
        if !is_text || path.ends_with("tests.rs") {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            let named = string_literals(line).into_iter().flat_map(words);
            findings.extend(named.filter(|word| types.contains(*word)).map(|word| {
                format!(
                    "{path}:{}: operators do not know the type {word}: write what it is",
                    number + 1
                )
            }));
        }
    }
    report(findings);
}

/// The same in comments. A comment that means the type names it in backticks or as a link.
#[test]
fn comments_do_not_begin_with_types() {
    let types = compound_types();
    let mut findings = Vec::new();
    for path in files_ending(".rs") {
        for (number, line) in read(&path).lines().enumerate() {
            if let Some(name) = first_word_of_sentence(line).filter(|name| types.contains(*name)) {
                findings.push(format!(
                    "{path}:{}: begin with what {name} is, or write `{name}`",
                    number + 1
                ));
            }
        }
    }
    report(findings);
}

/// All types of the workspace whose names are no words of English: those with an inner capital.
fn compound_types() -> BTreeSet<String> {
    let is_compound = |name: &&str| {
        let mut pairs = name.chars().zip(name.chars().skip(1));
        pairs.any(|(one, two)| one.is_lowercase() && two.is_uppercase())
    };
    let mut types = BTreeSet::new();
    for path in files_ending(".rs") {
        let text = read(&path);
        let names = text.lines().filter_map(any_type).filter(is_compound);
        types.extend(names.map(str::to_owned));
    }
    types
}

/// The name of the type that a line declares, public or not.
fn any_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    match line.strip_prefix("pub(") {
        Some(rest) => type_after(rest.split_once(") ")?.1),
        None => type_after(line.strip_prefix("pub ").unwrap_or(line)),
    }
}

/// The string literals that begin and end on a line, or continue to its end; none in a comment.
fn string_literals(line: &str) -> Vec<&str> {
    if line.trim_start().starts_with("//") {
        return Vec::new();
    }
    let quotes: Vec<usize> = line
        .match_indices('"')
        .map(|(at, _)| at)
        .filter(|at| !line[..*at].ends_with(['\\', '\'']))
        .collect();
    let pairs = quotes.chunks(2);
    pairs
        .map(|pair| &line[pair[0] + 1..pair.get(1).copied().unwrap_or(line.len())])
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// The first word of a comment, if a word in lower case follows it. Not in `//!`, where tables and
/// drawings name types.
fn first_word_of_sentence(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    let sentence = comment.strip_prefix('/').unwrap_or(comment);
    let (first, rest) = sentence.strip_prefix(' ')?.split_once(' ')?;
    rest.starts_with(char::is_lowercase).then_some(first)
}

/// The name of the public type that a line declares.
fn public_type(line: &str) -> Option<&str> {
    type_after(line.trim_start().strip_prefix("pub ")?)
}

/// The name of the type in a declaration without its visibility.
fn type_after(declaration: &str) -> Option<&str> {
    let (keyword, rest) = declaration.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&keyword);
    // A macro names its types elsewhere.
    is_type
        .then(|| identifier(rest))
        .filter(|name| !name.is_empty())
}

/// The name of the function that a line declares.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split(' ');
    let before = [
        "pub",
        "pub(crate)",
        "pub(super)",
        "const",
        "async",
        "unsafe",
    ];
    let keyword = words.find(|word| !before.contains(word) && !word.starts_with("pub("))?;
    if keyword != "fn" {
        return None;
    }
    words.next().map(identifier)
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The part of a line that people read: in Rust its comment, elsewhere all.
fn prose<'l>(path: &str, line: &'l str) -> &'l str {
    match path.ends_with(".rs") {
        true => line.find("//").map_or("", |start| &line[start..]),
        false => line,
    }
}

/// Whether a line has this word or phrase, not as a part of another word.
fn has_word(line: &str, word: &str) -> bool {
    let line = line.to_lowercase();
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let is_inside = |c: char| c.is_alphanumeric() || c == '_';
        !before.is_some_and(is_inside) && !after.is_some_and(is_inside)
    })
}

#[test]
fn name_checks_find_what_they_look_for() {
    assert_eq!(public_type("    pub struct Route<S> {"), Some("Route"));
    assert_eq!(public_type("pub(crate) struct Route {"), None);
    assert_eq!(any_type("pub(crate) struct Route {"), Some("Route"));
    assert_eq!(any_type("    type Lines = Vec<Line>;"), Some("Lines"));
    assert_eq!(any_type("let type_of = 1;"), None);
    assert_eq!(
        string_literals(r#"th { "Hotspot" } th { "\"Heat\"" }"#),
        ["Hotspot", r#"\"Heat\""#]
    );
    assert_eq!(string_literals(r#"// a "word""#), Vec::<&str>::new());
    assert_eq!(
        first_word_of_sentence("    /// FleetSource updates of the page."),
        Some("FleetSource")
    );
    assert_eq!(
        first_word_of_sentence("/// [`FleetSource`] updates"),
        Some("[`FleetSource`]")
    );
    assert_eq!(first_word_of_sentence("//! FleetSource updates"), None);
    assert_eq!(
        function_name("    pub async fn told(&self) {"),
        Some("told")
    );
    assert_eq!(function_name("pub(in crate::log) const fn of() {"), None);
    assert_eq!(function_name("let fn_of = 1;"), None);
    assert!(has_word("/// Nobody waits.", "nobody"));
    assert!(!has_word("/// The untold story.", "told"));
}
