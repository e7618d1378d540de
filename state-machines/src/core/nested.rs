//! Tasks that start an execution: the resources that Step Functions has for
//! it.

/// What a Task that starts an execution waits for, and how it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nested {
    /// `startExecution`: it is started, and nobody waits for it.
    Start,
    /// `startExecution.sync`: its end, with input and output as JSON texts.
    EndAsText,
    /// `startExecution.sync:2`: its end, with input and output as JSON.
    EndAsJson,
}

impl Nested {
    /// What a resource is, if it is one of these.
    #[must_use]
    pub fn of(resource: &str) -> Option<Self> {
        let (partition, api) = resource.split_once(":states:::states:")?;
        if !partition.starts_with("arn:") {
            return None;
        }
        match api {
            "startExecution" => Some(Self::Start),
            "startExecution.sync" => Some(Self::EndAsText),
            "startExecution.sync:2" => Some(Self::EndAsJson),
            _ => None,
        }
    }

    /// Whether the end is waited for.
    #[must_use]
    pub fn waits(self) -> bool {
        self != Self::Start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_start_executions_are_known() {
        for (resource, expected) in [
            (
                "arn:aws:states:::states:startExecution",
                Some(Nested::Start),
            ),
            (
                "arn:aws:states:::states:startExecution.sync",
                Some(Nested::EndAsText),
            ),
            (
                "arn:aws-cn:states:::states:startExecution.sync:2",
                Some(Nested::EndAsJson),
            ),
            ("arn:aws:states:::states:stopExecution", None),
            ("arn:aws:states:::aws-sdk:sfn:startExecution", None),
            ("states:startExecution", None),
        ] {
            assert_eq!(Nested::of(resource), expected, "{resource}");
        }
    }
}
