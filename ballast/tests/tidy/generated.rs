//! Keeps generated documents equal to the code. `UPDATE_DOCS=1` rewrites them.

use std::fmt::Write;
use std::path::Path;

use ballast_domain::ErrorCode;

#[test]
fn the_error_table_matches_the_catalogue() {
    let mut text = String::from(
        "# Errors\n\n\
         Every error of every API is a problem document (RFC 9457,\n\
         `application/problem+json`). `code` is stable: compare it. `detail` says what\n\
         was wrong this time, `next` what to do, `errors` which fields.\n\
         Each code has a page on the server itself, at `/problems/` and its name.\n\n\
         This table is made from `domain/src/error/code.rs`; after a change there, run\n\
         `UPDATE_DOCS=1 cargo test -p ballast --test tidy generated`.\n\n\
         | Code | Status | Meaning | What to do |\n\
         |---|---|---|---|\n",
    );
    for code in ErrorCode::ALL {
        writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            code.name(),
            code.kind().http_status(),
            code.title(),
            code.next_step()
        )
        .unwrap();
    }
    is_current("docs/errors.md", &text);
}

fn is_current(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, text).expect("write a generated document");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        found, text,
        "{path} is out of date: run UPDATE_DOCS=1 cargo test -p ballast --test tidy generated"
    );
}
