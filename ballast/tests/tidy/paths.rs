//! Decides which words of a document are paths in the repository.
//!
//! * A link without a scheme always is, relative to its document.
//! * A word in a code span is, relative to the root, when it has a slash and either
//!   starts with a directory of the root or has one of our extensions (`.rs`,
//!   `.md`, …). A bare name ending in `.rs` or `.md` must be the name of some
//!   file.
//! * A word in a fenced block is when it starts with a directory of the root.
//!
//! Words that start with `/` are API paths, words with `://` are URLs. Of a word with a wildcard or
//! a placeholder, the directory before it must exist; the part after a `:` (a line, an item) is
//! ignored.

use std::collections::BTreeSet;

use crate::markdown::Mention;

/// Extensions of paths with a slash.
const ENDINGS: [&str; 5] = [".rs", ".md", ".sql", ".toml", ".sh"];
/// Extensions of file names without a directory.
const BARE_ENDINGS: [&str; 2] = [".rs", ".md"];
/// Wildcards and placeholders.
const WILD: [char; 8] = ['*', '<', '>', '{', '}', '$', '…', '?'];

/// The files and directories of the repository.
pub(crate) struct Tree {
    files: BTreeSet<String>,
    directories: BTreeSet<String>,
}

/// What a word claims about the tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This path exists; for a link, with this anchor.
    Path(String, Option<String>),
    /// Some file has this name.
    Name(String),
}

impl Tree {
    pub(crate) fn new(files: BTreeSet<String>) -> Self {
        let directories = files
            .iter()
            .flat_map(|path| {
                path.match_indices('/')
                    .map(|(end, _)| path[..end].to_owned())
            })
            .collect();
        Self { files, directories }
    }

    pub(crate) fn has_path(&self, path: &str) -> bool {
        path.is_empty() || self.files.contains(path) || self.directories.contains(path)
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        let ending = format!("/{name}");
        let mut files = self.files.iter();
        files.any(|path| path == name || path.ends_with(&ending))
    }

    /// What a mention in the document at `from` claims, if anything.
    pub(crate) fn claim(&self, from: &str, mention: &Mention) -> Option<Claim> {
        match mention {
            Mention::Link(target) => link(from, target),
            Mention::Span(word) => self.word(word, true),
            Mention::Fenced(word) => self.word(word, false),
        }
    }

    fn word(&self, word: &str, is_span: bool) -> Option<Claim> {
        if word.contains("://") {
            return None;
        }
        let word = word.trim_matches(['(', ')', '[', ']', ',', ';', '"', '\'', '.']);
        let path = word.split([':', '#']).next().unwrap_or_default();
        let Some((first, _)) = path.split_once('/') else {
            let ends = BARE_ENDINGS.iter().any(|ending| path.ends_with(ending));
            let bare = is_span && ends && !path.contains(WILD);
            return bare.then(|| Claim::Name(path.to_owned()));
        };
        let ours = self.directories.contains(first);
        let named = is_span && ENDINGS.iter().any(|ending| path.ends_with(ending));
        if first.is_empty() || first.contains(WILD) || !(ours || named) {
            return None;
        }
        let solid: Vec<_> = path
            .split('/')
            .take_while(|segment| !segment.contains(WILD))
            .filter(|segment| !segment.is_empty())
            .collect();
        Some(Claim::Path(solid.join("/"), None))
    }
}

fn link(from: &str, target: &str) -> Option<Claim> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    if path.contains(':') {
        return None;
    }
    if path.is_empty() {
        return Some(Claim::Path(from.to_owned(), anchor));
    }
    let mut segments: Vec<&str> = from.split('/').collect();
    segments.pop();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                // Above the root: keep a path that cannot exist.
                if segments.pop().is_none() {
                    segments.push("..");
                }
            }
            name => segments.push(name),
        }
    }
    Some(Claim::Path(segments.join("/"), anchor))
}

#[test]
fn words_that_are_paths_are_recognised() {
    let files = ["domain/src/lib.rs", "docs/adr/README.md", "README.md"];
    let tree = Tree::new(files.map(str::to_owned).into());
    let span = |word: &str| tree.claim("README.md", &Mention::Span(word.to_owned()));
    let path = |path: &str| Some(Claim::Path(path.to_owned(), None));
    for (word, claim) in [
        ("domain/src/lib.rs:12", path("domain/src/lib.rs")),
        ("domain/", path("domain")),
        ("docs/**/*.md", path("docs")),
        ("domian/src/lib.rs", path("domian/src/lib.rs")),
        ("lib.rs", Some(Claim::Name("lib.rs".to_owned()))),
        ("ballast.toml", None),
        ("target/release/ballast", None),
        ("/admin/v1", None),
        ("https://example.org/domain/x.rs", None),
        ("file:domain/x", None),
        ("domain::clock", None),
    ] {
        assert_eq!(span(word), claim, "{word}");
    }
    let fenced = tree.claim("README.md", &Mention::Fenced("lib.rs".to_owned()));
    assert_eq!(fenced, None);
    let up = tree.claim("docs/adr/0001.md", &Mention::Link("../x.md#y".to_owned()));
    assert_eq!(
        up,
        Some(Claim::Path("docs/x.md".to_owned(), Some("y".to_owned())))
    );
}
