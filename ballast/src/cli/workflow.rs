//! `workflow …`: definitions in the Amazon States Language, checked, drawn and
//! tested on this machine. None of it needs a running instance.

use std::io::Read;
use std::path::{Path, PathBuf};

use ballast_state_machines::definitions::{self, BuiltIn, is_helper};
use ballast_state_machines::language::draw::{self, Marks};
use ballast_state_machines::language::{Checked, Code, Definition, Problem, check};
use ballast_state_machines::trial::{self, Case, File, Trial};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::failure::{Failure, Verdict};
use super::help;
use super::output::Screen;
use super::view::workflows;

/// More than any definition or file of cases has any use for.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What can be done with definitions.
#[derive(Debug, Subcommand)]
#[command(after_help = help::WORKFLOW)]
pub(crate) enum Verb {
    /// List the workflows that come with Ballast
    #[command(after_help = help::WORKFLOW_LIST)]
    List,
    /// Check a definition: everything that is wrong with it, and where
    #[command(after_help = help::WORKFLOW_CHECK)]
    Check {
        /// The file, or - for the standard input
        file: PathBuf,
    },
    /// Draw a definition
    #[command(after_help = help::WORKFLOW_GRAPH)]
    Graph {
        /// The name of a workflow that comes with Ballast, or a file, or -
        #[arg(value_name = "NAME|FILE")]
        workflow: PathBuf,
        /// How it is drawn
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Draw every state, also those that only lead from one step to the next
        #[arg(long)]
        all: bool,
    },
    /// Run a definition with the task results of a case, on a simulated clock
    #[command(after_help = help::WORKFLOW_TEST)]
    Test {
        /// The file with a case, or with several under "cases"; - for the standard input
        #[arg(value_name = "CASE")]
        file: PathBuf,
    },
}

/// How a definition is drawn.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum Format {
    /// For a terminal
    #[default]
    Text,
    /// For Markdown and wikis
    Mermaid,
    /// For Graphviz
    Dot,
}

impl Verb {
    /// Does it.
    pub(crate) fn run(self, screen: &Screen) -> Result<Verdict, Failure> {
        match self {
            Self::List => list(screen),
            Self::Check { file } => checked(&file, screen),
            Self::Graph {
                workflow,
                format,
                all,
            } => graph(&workflow, format, all, screen),
            Self::Test { file } => test(&file, screen),
        }
    }
}

fn list(screen: &Screen) -> Result<Verdict, Failure> {
    let known: Vec<(BuiltIn, Definition)> = definitions::ALL
        .into_iter()
        .filter_map(|known| Some((known, known.definition().ok()?)))
        .collect();
    if screen.json {
        let items: Vec<Value> = known
            .iter()
            .map(|(known, definition)| {
                json!({"name": known.name, "comment": definition.comment(),
                    "startAt": definition.start_at()})
            })
            .collect();
        tell(screen, &json!({ "items": items }))?;
    } else {
        screen.data(workflows::list(screen, &known).as_bytes())?;
    }
    Ok(Verdict::Done)
}

/// What `check` answers.
#[derive(Serialize)]
struct Answer<'a> {
    valid: bool,
    problems: &'a [Problem],
}

fn checked(file: &Path, screen: &Screen) -> Result<Verdict, Failure> {
    let text = match read(file) {
        Ok(text) => text,
        // Whoever reads JSON gets JSON, whatever became of the file.
        Err(why) if screen.json => {
            let problem = json!({"path": "", "code": "unreadable-file", "severity": "error",
                "message": why});
            tell(screen, &json!({"valid": false, "problems": [problem]}))?;
            return Ok(Verdict::Negative);
        }
        Err(why) => return Err(Failure::local(why)),
    };
    let Checked { problems, .. } = check(&text);
    let valid = !problems.iter().any(Problem::is_error);
    if screen.json {
        let problems = &problems;
        tell(screen, &Answer { valid, problems })?;
    } else {
        let text = workflows::problems(screen, &file.display().to_string(), valid, &problems);
        screen.data(text.as_bytes())?;
    }
    Ok(if valid {
        Verdict::Done
    } else {
        Verdict::Negative
    })
}

fn graph(workflow: &Path, format: Format, all: bool, screen: &Screen) -> Result<Verdict, Failure> {
    let known = workflow.to_str().and_then(BuiltIn::find);
    let parsed = match known {
        Some(known) => known.definition(),
        None => Definition::parse(&read(workflow).map_err(|why| {
            let names: Vec<_> = definitions::ALL.iter().map(|known| known.name).collect();
            let next = format!(
                "Give a file, or one of the workflows that come with Ballast: {}.",
                names.join(", ")
            );
            Failure::refused_here(
                "workflow-not-found",
                "There is no such workflow",
                why,
                &next,
            )
        })?),
    };
    let definition = parsed.map_err(|problems| {
        let is_valid = !problems.iter().any(Problem::is_error);
        let told = problems.iter();
        // One that is valid lacks what its substitutions stand for.
        let told: Vec<_> = told
            .filter(|problem| problem.is_error() || is_valid && problem.code == Code::Unfilled)
            .map(ToString::to_string)
            .collect();
        let next = "ballast workflow check FILE tells everything that is wrong with it.";
        Failure::refused_here(
            "invalid-definition",
            "The definition is not valid",
            told.join("\n"),
            next,
        )
    })?;
    // Of somebody else's workflow nothing is taken for a helper.
    let folded = known.is_some() && !all;
    let marks = Marks::default().folding(&definition, |state| folded && is_helper(&state.kind));
    let drawn = match format {
        Format::Text => draw::text(&definition, &marks),
        Format::Mermaid => draw::mermaid(&definition, &marks),
        Format::Dot => draw::dot(&definition, &marks),
    };
    if screen.json {
        let source = definition.source();
        tell(screen, &json!({"drawing": drawn, "definition": source}))?;
    } else {
        screen.data(drawn.as_bytes())?;
    }
    Ok(Verdict::Done)
}

fn test(file: &Path, screen: &Screen) -> Result<Verdict, Failure> {
    let parsed = read(file).and_then(|text| File::parse(&text).map_err(|bad| bad.to_string()));
    match parsed {
        Ok(File::One(case)) => one(&case, screen),
        Ok(File::Many(cases)) => many(&cases, screen),
        Err(why) => unusable(screen, &why),
    }
}

fn unusable(screen: &Screen, why: &str) -> Result<Verdict, Failure> {
    let answer = json!({"status": "UNUSABLE", "error": "unusable-case", "cause": why,
        "statesEntered": [], "events": []});
    tell(screen, &answer)?;
    Ok(Verdict::Unusable)
}

fn one(case: &Case, screen: &Screen) -> Result<Verdict, Failure> {
    let trial = match trial::run(case) {
        Ok(trial) => trial,
        Err(bad) => return unusable(screen, &bad.to_string()),
    };
    tell(screen, &trial)?;
    let different = trial::differences(case, &trial);
    for remark in &trial.remarks {
        screen.hint(&format!("note: {remark}"));
    }
    for difference in &different {
        screen.hint(&format!("{} {difference}", screen.red("not as expected:")));
    }
    Ok(met(&different))
}

fn met(different: &[String]) -> Verdict {
    if different.is_empty() {
        Verdict::Done
    } else {
        Verdict::Negative
    }
}

/// What `test` answers for a file with several cases.
#[derive(Serialize)]
struct Summary {
    cases: usize,
    passed: usize,
    failed: usize,
    /// The ids of those that failed.
    failing: Vec<String>,
    failures: Vec<FailedCase>,
}

#[derive(Serialize)]
struct FailedCase {
    id: String,
    differences: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Trial>,
}

fn many(cases: &[Case], screen: &Screen) -> Result<Verdict, Failure> {
    let mut failures = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        let id = case.id.clone().unwrap_or_else(|| format!("#{place}"));
        let (differences, outcome) = match trial::run(case) {
            Ok(trial) => (trial::differences(case, &trial), Some(trial)),
            Err(bad) => (vec![bad.to_string()], None),
        };
        if !differences.is_empty() {
            failures.push(FailedCase {
                id,
                differences,
                outcome,
            });
        }
    }
    let summary = Summary {
        cases: cases.len(),
        passed: cases.len() - failures.len(),
        failed: failures.len(),
        failing: failures.iter().map(|failed| failed.id.clone()).collect(),
        failures,
    };
    tell(screen, &summary)?;
    screen.hint(&format!("{} of {} passed", summary.passed, summary.cases));
    Ok(if summary.failed == 0 {
        Verdict::Done
    } else {
        Verdict::Negative
    })
}

/// Prints JSON: for a person with line breaks, for a program on one line.
fn tell(screen: &Screen, answer: &impl Serialize) -> Result<(), Failure> {
    let json = if screen.terminal {
        serde_json::to_vec_pretty(answer)
    } else {
        serde_json::to_vec(answer)
    };
    screen.data(&json.map_err(|error| Failure::local(error.to_string()))?)
}

/// The text of a file, or of the standard input.
fn read(file: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        let input = std::io::stdin().lock();
        input.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        let opened = std::fs::File::open(file).map_err(cannot)?;
        opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    read.map_err(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let shown = file.display();
        return Err(format!(
            "{shown} has more than {} MiB",
            FILE_BYTES_MAX >> 20
        ));
    }
    // What is not UTF-8 is not JSON either, and is told so with its place.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()))
}
