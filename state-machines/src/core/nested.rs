//! Tasks that start a child execution: the resources of Step Functions for
//! that.

/// What a Task that starts a child execution waits for, and the form of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NestedStart {
    /// `startExecution`: does not wait for the child.
    Start,
    /// `startExecution.sync`: waits for the end; input and output are JSON texts.
    EndAsText,
    /// `startExecution.sync:2`: waits for the end; input and output are JSON.
    EndAsJson,
}

impl NestedStart {
    /// Recognises a resource that starts an execution.
    #[must_use]
    pub fn from_resource(resource: &str) -> Option<Self> {
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

    /// Whether the task waits for the end of the child.
    #[must_use]
    pub fn waits_for_end(self) -> bool {
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
                Some(NestedStart::Start),
            ),
            (
                "arn:aws:states:::states:startExecution.sync",
                Some(NestedStart::EndAsText),
            ),
            (
                "arn:aws-cn:states:::states:startExecution.sync:2",
                Some(NestedStart::EndAsJson),
            ),
            ("arn:aws:states:::states:stopExecution", None),
            ("arn:aws:states:::aws-sdk:sfn:startExecution", None),
            ("states:startExecution", None),
        ] {
            assert_eq!(NestedStart::from_resource(resource), expected, "{resource}");
        }
    }
}
