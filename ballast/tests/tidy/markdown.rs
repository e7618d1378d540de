//! The parts of Markdown that the checks need: code spans, links, fences, headings.

/// A word of a document that may be a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mention {
    /// A word of a code span.
    Span(String),
    /// A word of a fenced block.
    Fenced(String),
    /// The target of a link.
    Link(String),
}

/// Every mention in a document, with its line number.
pub(crate) fn mentions(text: &str) -> Vec<(usize, Mention)> {
    let mut found = Vec::new();
    for (number, line, fenced) in lines(text) {
        if fenced {
            let words = line.split_whitespace().map(str::to_owned);
            found.extend(words.map(|word| (number, Mention::Fenced(word))));
            continue;
        }
        let (prose, spans) = split_spans(line);
        for span in spans {
            let words = span.split_whitespace().map(str::to_owned);
            found.extend(words.map(|word| (number, Mention::Span(word))));
        }
        let targets = link_targets(&prose).into_iter();
        found.extend(targets.map(|target| (number, Mention::Link(target))));
    }
    found
}

/// The lines of the first fenced block.
pub(crate) fn first_fence(text: &str) -> Vec<String> {
    let mut block = Vec::new();
    let mut last = 0;
    for (number, line, _) in lines(text).filter(|(_, _, fenced)| *fenced) {
        if !block.is_empty() && number > last + 1 {
            break;
        }
        last = number;
        block.push(line.to_owned());
    }
    block
}

/// The anchors of a document's headings, as GitHub generates them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line, _) in lines(text).filter(|(_, _, fenced)| !fenced) {
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        if !(1..=6).contains(&depth) || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let same = |have: &&String| {
            **have == anchor
                || have
                    .rsplit_once('-')
                    .is_some_and(|(stem, _)| stem == anchor)
        };
        let before = found.iter().filter(same).count();
        found.push(match before {
            0 => anchor,
            n => format!("{anchor}-{n}"),
        });
    }
    found
}

/// The lines with their numbers, and whether they are inside a fence. Excludes the fences
/// themselves.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => return Some((number + 1, line, fence.is_some())),
        }
        None
    })
}

/// The prose of a line without its code spans, and the spans.
fn split_spans(line: &str) -> (String, Vec<String>) {
    let mut prose = String::new();
    let mut spans = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let (mark, after) = rest[start..].split_at(ticks);
        let Some(end) = after.find(mark) else { break };
        prose.push_str(&rest[..start]);
        spans.push(after[..end].to_owned());
        rest = &after[end + ticks..];
    }
    prose.push_str(rest);
    (prose, spans)
}

/// `[text](target)`, `![text](target)` and `[name]: target`.
fn link_targets(prose: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = prose;
    while let Some(start) = rest.find("](") {
        rest = &rest[start + 2..];
        let end = rest.find(')').unwrap_or(rest.len());
        found.extend(rest[..end].split_whitespace().next().map(str::to_owned));
    }
    if prose.starts_with('[')
        && let Some((_, target)) = prose.split_once("]: ")
    {
        found.extend(target.split_whitespace().next().map(str::to_owned));
    }
    found
        .into_iter()
        .map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect()
}

#[test]
fn spans_links_and_fences_are_distinguished() {
    let text = "See [`a`](b.md#c) and `d/e f`.\n```sh\nrun g/h\n```\n[i]: j.md\n";
    let word = str::to_owned;
    assert_eq!(
        mentions(text),
        [
            (1, Mention::Span(word("a"))),
            (1, Mention::Span(word("d/e"))),
            (1, Mention::Span(word("f"))),
            (1, Mention::Link(word("b.md#c"))),
            (3, Mention::Fenced(word("run"))),
            (3, Mention::Fenced(word("g/h"))),
            (5, Mention::Link(word("j.md"))),
        ]
    );
}

#[test]
fn anchors_are_made_as_on_github() {
    let text = "# The `up` command: a\n## Words\n```\n# no\n```\n## Words\n";
    assert_eq!(anchors(text), ["the-up-command-a", "words", "words-1"]);
}
