//! The help of every command, as it is read.

use clap::CommandFactory;

/// Every command, as it is typed.
fn paths(command: &clap::Command, path: &[&str], found: &mut Vec<Vec<String>>) {
    found.push(path.iter().map(|part| (*part).to_owned()).collect());
    for sub in command.get_subcommands() {
        if sub.get_name() != "help" {
            paths(sub, &[path, &[sub.get_name()]].concat(), found);
        }
    }
}

fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    paths(&crate::Cli::command(), &["ballast"], &mut found);
    let page = |path: Vec<String>| {
        let typed = path.iter().map(String::as_str).chain(["--help"]);
        let asked = crate::Cli::command()
            .term_width(100)
            .try_get_matches_from(typed);
        (path.join(" "), asked.unwrap_err().render().to_string())
    };
    found.into_iter().map(page).collect()
}

#[test]
fn the_command_tree_holds_together() {
    crate::Cli::command().debug_assert();
}

#[test]
fn every_page_of_help() {
    for (path, page) in pages() {
        insta::assert_snapshot!(path.replace(' ', "_"), page);
    }
}

#[test]
fn every_page_has_an_example() {
    for (path, page) in pages() {
        assert!(page.contains("Examples:"), "{path}");
    }
}
