//! The help of every command, as it is read.

use clap::CommandFactory;

fn collect(command: &mut clap::Command, path: &str, pages: &mut Vec<(String, String)>) {
    let page = command.render_long_help().to_string();
    pages.push((path.to_owned(), page));
    for sub in command.get_subcommands_mut() {
        if sub.get_name() != "help" {
            let path = format!("{path} {}", sub.get_name());
            collect(sub, &path, pages);
        }
    }
}

fn pages() -> Vec<(String, String)> {
    let mut command = crate::Cli::command().term_width(100);
    // The variables of whoever runs the test are not part of the page.
    for name in ["url", "ca_cert"] {
        command = command.mut_arg(name, |arg| arg.hide_env_values(true));
    }
    command.build();
    let mut pages = Vec::new();
    collect(&mut command, "ballast", &mut pages);
    pages
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
