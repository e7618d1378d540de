//! What is wrong with a definition, and where.
//!
//! The codes are stable: tools may match on them. The messages are for people
//! and may change.

use std::fmt;

use serde::{Serialize, Serializer};

use super::pointer::Pointer;

/// Something in a definition that is wrong, or that deserves a second look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where it stands, as a JSON pointer such as `/States/Copy/Next`; empty
    /// for the definition as a whole.
    pub path: String,
    /// Which rule it breaks.
    pub code: Code,
    /// Whether the definition is refused for it.
    pub severity: Severity,
    /// What is wrong, and where it is known, what to write instead.
    pub message: String,
}

/// How grave a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It can be run, though perhaps not as it was meant.
    Warning,
    /// The definition is refused.
    Error,
}

impl Problem {
    pub(super) fn new(at: &Pointer, code: Code, message: impl Into<String>) -> Self {
        Self {
            path: at.as_str().to_owned(),
            code,
            severity: code.severity(),
            message: message.into(),
        }
    }

    /// Whether the definition is refused for it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        write!(f, "{path}: {}", self.message)
    }
}

/// Declares the codes once: the name, its text, how grave it is, what it means.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $severity:ident;)+) => {
        /// The rule that a problem breaks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The stable name, in kebab case.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// Whether a definition is refused for it.
            pub fn severity(self) -> Severity {
                match self {
                    $(Self::$name => Severity::$severity,)+
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
    /// An object has a field twice, or `States` a state.
    DuplicateKey = "duplicate-key", Error;
    /// A field that must be there is not.
    MissingField = "missing-field", Error;
    /// A field that no state and no machine has.
    UnknownField = "unknown-field", Error;
    /// A field of another type of state.
    MisplacedField = "misplaced-field", Error;
    /// A field of the other query language.
    OtherLanguage = "other-language", Error;
    /// Two fields of which only one may be there.
    OnlyOneOf = "only-one-of", Error;
    /// A value of the wrong JSON type.
    WrongType = "wrong-type", Error;
    /// A number that is too small or too large.
    OutOfRange = "out-of-range", Error;
    /// A text that is not one of those allowed.
    NotOneOf = "not-one-of", Error;
    /// A list, object or text that must hold something and is empty.
    Empty = "empty", Error;
    /// A state with both `Next` and `End`.
    NextAndEnd = "next-and-end", Error;
    /// A transition to a state that is not there.
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
    /// A JSONPath that cannot be read.
    Path = "path", Error;
    /// A JSONata expression that cannot be read.
    Expression = "expression", Error;
    /// A payload template that cannot be read.
    Template = "template", Error;
    /// The condition of a choice that cannot be read.
    Condition = "condition", Error;
    /// A time that is not an RFC 3339 timestamp.
    Timestamp = "timestamp", Error;
    /// `States.ALL` beside other errors, or not in the last place.
    StatesAll = "states-all", Error;
    /// A name that begins with `States.` and is none of the reserved ones.
    ErrorName = "error-name", Warning;
    /// A variable's name that cannot be used.
    VariableName = "variable-name", Error;
    /// A variable that a branch or a processor assigns, and a machine around
    /// it too.
    OuterVariable = "outer-variable", Error;
    /// A Map's label with characters that a name cannot hold.
    Label = "label", Error;
    /// A substitution `${…}` that is not closed.
    Substitution = "substitution", Error;
    /// A value with a substitution `${…}` that is not filled in yet.
    Unfilled = "unfilled", Warning;
    /// `$states.result` or `$states.errorOutput` where there is none.
    NoSuchValue = "no-such-value", Error;
    /// A resource that an express machine cannot wait for.
    Express = "express", Error;
    /// A cycle without a Wait: it may turn as fast as it can.
    CycleWithoutWait = "cycle-without-wait", Warning;
    /// A Task whose failure nobody catches.
    TaskWithoutCatch = "task-without-catch", Warning;
    /// A state from which no end can be reached.
    NoWayOut = "no-way-out", Warning;
    /// A Choice that fails when no rule holds.
    NoDefault = "no-default", Warning;
    /// A field with a newer name.
    Deprecated = "deprecated", Warning;
    /// A field that only a distributed Map obeys.
    NotDistributed = "not-distributed", Warning;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
