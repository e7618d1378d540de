//! Sizes: short functions and files, and few test binaries, because each is compiled and linked
//! separately.

use crate::repository::{files, files_ending, read, report};

/// A longer file must be split.
const FILE_LINES_MAX: usize = 700;

/// A longer function of the product must be split.
const FUNCTION_LINES_MAX: usize = 70;

/// All `tests/*.rs` and `tests/*/main.rs` of the workspace.
const TEST_BINARIES_MAX: usize = 25;

/// For development only, not part of the product.
const DEVELOPMENT: [&str; 2] = ["bench/", "sim/"];

#[test]
fn files_are_short() {
    let mut findings = Vec::new();
    for path in files_ending(".rs") {
        let lines = read(&path).lines().count();
        if lines > FILE_LINES_MAX {
            findings.push(format!(
                "{path} has {lines} lines, more than {FILE_LINES_MAX}: split it"
            ));
        }
    }
    report(findings);
}

#[test]
fn functions_fit_a_screen() {
    let mut findings = Vec::new();
    for path in files_ending(".rs")
        .into_iter()
        .filter(|path| is_product(path))
    {
        for (number, lines) in long_functions(&read(&path)) {
            findings.push(format!(
                "{path}:{number}: this function has {lines} lines, more than \
                 {FUNCTION_LINES_MAX}: split it by what it does"
            ));
        }
    }
    report(findings);
}

#[test]
fn test_binaries_are_few() {
    let is_binary = |path: &String| {
        let mut parts = path.split('/').skip(1);
        let rest: Vec<_> = parts.by_ref().collect();
        match rest.as_slice() {
            ["tests", file] => file.ends_with(".rs"),
            ["tests", _, file] => *file == "main.rs",
            _ => false,
        }
    };
    let binaries: Vec<_> = files().into_iter().filter(is_binary).collect();
    assert!(
        binaries.len() <= TEST_BINARIES_MAX,
        "there are {} test binaries, the maximum is {TEST_BINARIES_MAX}: make the new one a module \
         of another ({})",
        binaries.len(),
        binaries.join(", ")
    );
}

fn is_product(path: &str) -> bool {
    let is_test = path.ends_with("tests.rs")
        || ["/tests/", "/testing", "/conformance/", "/examples/"]
            .iter()
            .any(|part| path.contains(part));
    !is_test && !DEVELOPMENT.iter().any(|room| path.starts_with(room))
}

/// The functions that are too long: the number of their first line, and their length. Relies on
/// rustfmt: a function ends at the first closing brace with its own indentation. Stops at the unit
/// tests, which end a file.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if *line == "#[cfg(test)]" && lines.get(index + 1).is_some_and(|next| next.ends_with('{')) {
            break;
        }
        if !starts_function(line) {
            continue;
        }
        let indentation = line.len() - line.trim_start().len();
        let is_level = |line: &&&str| line.len() - line.trim_start().len() == indentation;
        let mut signature = lines[index..].iter().filter(is_level);
        // A method that a trait declares without a body.
        if signature
            .find(|line| line.ends_with(['{', ';']))
            .is_some_and(|line| line.ends_with(';'))
        {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indentation));
        let length = lines[index..].iter().position(|line| **line == end);
        if let Some(length) = length.map(|length| length + 1)
            && length > FUNCTION_LINES_MAX
        {
            found.push((index + 1, length));
        }
    }
    found
}

fn starts_function(line: &str) -> bool {
    let line = line.trim_start();
    let is_declaration = line.starts_with("fn ") || line.contains(" fn ");
    let is_prose = line.starts_with("//") || line.contains('"');
    is_declaration && !is_prose && !line.ends_with(';')
}

#[test]
fn long_functions_are_found_and_declarations_are_not() {
    let body = "        work();\n".repeat(FUNCTION_LINES_MAX);
    let declared = "    async fn declared(\n        &self,\n    ) -> Result<(), Error>;\n";
    let text = format!("trait A {{\n{declared}    fn long(&self) {{\n{body}    }}\n}}\n");
    assert_eq!(long_functions(&text), [(5, FUNCTION_LINES_MAX + 2)]);
    let tests = format!("#[cfg(test)]\nmod tests {{\n    fn long() {{\n{body}    }}\n}}\n");
    assert_eq!(long_functions(&tests), []);
}
