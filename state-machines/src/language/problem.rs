//! Problems of a definition, with their locations.
//!
//! The codes are stable; tools may match on them. The messages are for humans and
//! may change.

use std::fmt;

use serde::{Serialize, Serializer};

use super::pointer::Pointer;

/// An error or a warning about a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefinitionProblem {
    /// The location, as a JSON pointer such as `/States/Copy/Next`; empty for the
    /// whole definition.
    pub path: String,
    /// The rule that it violates.
    pub code: ProblemCode,
    /// Whether it is an error or a warning.
    pub severity: ProblemSeverity,
    /// What is wrong and, if known, how to fix it.
    pub message: String,
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemSeverity {
    /// The definition can run, but likely not as intended.
    Warning,
    /// The definition is invalid.
    Error,
}

impl DefinitionProblem {
    pub(super) fn new(at: &Pointer, code: ProblemCode, message: impl Into<String>) -> Self {
        Self {
            path: at.as_str().to_owned(),
            code,
            severity: code.severity(),
            message: message.into(),
        }
    }

    /// Whether it is an error or a warning.
    pub fn is_error(&self) -> bool {
        self.severity == ProblemSeverity::Error
    }
}

impl fmt::Display for DefinitionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        write!(f, "{path}: {}", self.message)
    }
}

/// Declares each code once: its name, text, severity and meaning.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $severity:ident;)+) => {
        /// The rule that a problem violates.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ProblemCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl ProblemCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The stable name, in kebab case.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// The severity of problems with this code.
            pub fn severity(self) -> ProblemSeverity {
                match self {
                    $(Self::$name => ProblemSeverity::$severity,)+
                }
            }
        }
    };
}

codes! {
    /// The text is not JSON.
    NotJson = "not-json", Error;
    /// The definition is longer than 1 MiB.
    TooLarge = "too-large", Error;
    /// Objects and lists are nested too deep.
    TooDeep = "too-deep", Error;
    /// A duplicate field, or a duplicate state in `States`.
    DuplicateKey = "duplicate-key", Error;
    /// A required field is missing.
    MissingField = "missing-field", Error;
    /// A field that no state and no machine has.
    UnknownField = "unknown-field", Error;
    /// A field of another type of state.
    MisplacedField = "misplaced-field", Error;
    /// A field of the other query language.
    OtherLanguage = "other-language", Error;
    /// Two fields that exclude each other.
    OnlyOneOf = "only-one-of", Error;
    /// A value of the wrong JSON type.
    WrongType = "wrong-type", Error;
    /// A number that is too small or too large.
    OutOfRange = "out-of-range", Error;
    /// A text that is not one of those allowed.
    NotOneOf = "not-one-of", Error;
    /// A list, object or string that must not be empty.
    Empty = "empty", Error;
    /// A state with both `Next` and `End`.
    NextAndEnd = "next-and-end", Error;
    /// A transition to a state that does not exist.
    UnknownTarget = "unknown-target", Error;
    /// A state that nothing leads to.
    Unreachable = "unreachable", Error;
    /// A machine that never ends.
    NoEnd = "no-end", Error;
    /// A state's name that is empty or too long.
    StateName = "state-name", Error;
    /// Two states of the same name, in the machine or in those within it.
    DuplicateState = "duplicate-state", Error;
    /// A state in JSONPath in a machine in JSONata.
    LanguageDowngrade = "language-downgrade", Error;
    /// An invalid JSONPath.
    Path = "path", Error;
    /// An invalid JSONata expression.
    Expression = "expression", Error;
    /// An invalid payload template.
    Template = "template", Error;
    /// An invalid condition of a choice.
    Condition = "condition", Error;
    /// A time that is not an RFC 3339 timestamp.
    Timestamp = "timestamp", Error;
    /// `States.ALL` together with other errors, or not in the last handler.
    StatesAll = "states-all", Error;
    /// An error name that begins with `States.` but is not a reserved name.
    ErrorName = "error-name", Warning;
    /// An invalid variable name.
    VariableName = "variable-name", Error;
    /// A variable that both an inner and an outer machine assign.
    OuterVariable = "outer-variable", Error;
    /// A Map's label with invalid characters.
    Label = "label", Error;
    /// A substitution `${…}` that is not closed.
    Substitution = "substitution", Error;
    /// A value with a substitution `${…}` that is not filled in yet.
    Unfilled = "unfilled", Warning;
    /// `$states.result` or `$states.errorOutput` where it is not available.
    NoSuchValue = "no-such-value", Error;
    /// A resource that an express machine cannot wait for.
    Express = "express", Error;
    /// A cycle without a Wait, which may run as a busy loop.
    CycleWithoutWait = "cycle-without-wait", Warning;
    /// A Task whose failure is not caught.
    TaskWithoutCatch = "task-without-catch", Warning;
    /// A state that cannot reach an end.
    NoWayOut = "no-way-out", Warning;
    /// A Choice without a default.
    NoDefault = "no-default", Warning;
    /// A field that was renamed in the specification.
    Deprecated = "deprecated", Warning;
    /// A field that only distributed Maps support.
    NotDistributed = "not-distributed", Warning;
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ProblemCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
