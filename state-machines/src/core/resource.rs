//! Resources by name, and the history events for each kind.

use super::history::{Details, HistoryType};
use super::{Failure, RunTask};
use serde_json::Value;

/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource<'a> {
    /// A Lambda function, by its ARN.
    Lambda(&'a str),
    /// An activity, by its ARN.
    Activity(&'a str),
    /// Any other: a service of AWS, or one of the engine's own handlers.
    Service {
        /// The service: `sqs`, `aws-sdk:s3`, `ballast`.
        service: &'a str,
        /// The operation: `sendMessage.waitForTaskToken`.
        api: &'a str,
    },
}

impl<'a> Resource<'a> {
    pub(super) fn from_name(name: &'a str) -> Self {
        let parts: Vec<&str> = name.splitn(6, ':').collect();
        match parts.as_slice() {
            ["arn", _, "lambda", _, _, _] => Self::Lambda(name),
            ["arn", _, "states", _, _, rest] if rest.starts_with("activity:") => {
                Self::Activity(name)
            }
            ["arn", _, "states", "", "", rest] => Self::service_from_name(rest),
            _ => Self::service_from_name(name),
        }
    }

    /// `service:api`; a colon after a dot belongs to the pattern (`.sync:2`).
    fn service_from_name(name: &'a str) -> Self {
        let end = name.find('.').unwrap_or(name.len());
        match name.get(..end).and_then(|head| head.rfind(':')) {
            Some(colon) => Self::Service {
                service: &name[..colon],
                api: &name[colon + 1..],
            },
            None => Self::Service {
                service: "",
                api: name,
            },
        }
    }

    /// Whether the task waits for a callback.
    pub(super) fn waits_for_callback(self) -> bool {
        matches!(self, Self::Service { api, .. } if api.contains(".waitForTaskToken"))
    }

    fn add_resource_fields(self, details: Details) -> Details {
        match self {
            Self::Service { service, api } => {
                details.with("resourceType", service).with("resource", api)
            }
            _ => details,
        }
    }

    pub(super) fn scheduled(self, order: &RunTask) -> (HistoryType, Details) {
        let seconds = |milliseconds: Option<i64>| milliseconds.map(|ms| ms / 1_000);
        let details = match self {
            Self::Lambda(arn) | Self::Activity(arn) => Details::new()
                .with("resource", arn)
                .with_payload("input", &order.input),
            Self::Service { .. } => self
                .add_resource_fields(Details::new())
                .with("region", "local")
                .with("parameters", order.input.to_string()),
        };
        let details = details
            .with_optional("timeoutInSeconds", seconds(order.timeout_ms))
            .with_optional("heartbeatInSeconds", seconds(order.heartbeat_ms))
            .with_optional(
                "taskCredentials",
                order.credentials.as_ref().map(credentials),
            );
        let kind = match self {
            Self::Lambda(_) => HistoryType::LambdaFunctionScheduled,
            Self::Activity(_) => HistoryType::ActivityScheduled,
            Self::Service { .. } => HistoryType::TaskScheduled,
        };
        (kind, details)
    }

    pub(super) fn started(self) -> (HistoryType, Details) {
        let kind = match self {
            Self::Lambda(_) => HistoryType::LambdaFunctionStarted,
            Self::Activity(_) => HistoryType::ActivityStarted,
            Self::Service { .. } => HistoryType::TaskStarted,
        };
        (kind, self.add_resource_fields(Details::new()))
    }

    /// Only services have a submitted event.
    pub(super) fn submitted(self, output: &Value) -> Option<(HistoryType, Details)> {
        let details = self
            .add_resource_fields(Details::new())
            .with_payload("output", output);
        matches!(self, Self::Service { .. }).then_some((HistoryType::TaskSubmitted, details))
    }

    pub(super) fn succeeded(self, output: &Value) -> (HistoryType, Details) {
        let kind = match self {
            Self::Lambda(_) => HistoryType::LambdaFunctionSucceeded,
            Self::Activity(_) => HistoryType::ActivitySucceeded,
            Self::Service { .. } => HistoryType::TaskSucceeded,
        };
        (
            kind,
            self.add_resource_fields(Details::new())
                .with_payload("output", output),
        )
    }

    pub(super) fn failed(self, failure: &Failure) -> (HistoryType, Details) {
        let kind = match self {
            Self::Lambda(_) => HistoryType::LambdaFunctionFailed,
            Self::Activity(_) => HistoryType::ActivityFailed,
            Self::Service { .. } => HistoryType::TaskFailed,
        };
        (
            kind,
            failure.details(self.add_resource_fields(Details::new())),
        )
    }

    pub(super) fn timed_out(self, failure: &Failure) -> (HistoryType, Details) {
        let kind = match self {
            Self::Lambda(_) => HistoryType::LambdaFunctionTimedOut,
            Self::Activity(_) => HistoryType::ActivityTimedOut,
            Self::Service { .. } => HistoryType::TaskTimedOut,
        };
        (
            kind,
            failure.details(self.add_resource_fields(Details::new())),
        )
    }
}

/// `Credentials` in the format of the history.
fn credentials(credentials: &Value) -> Value {
    match credentials.get("RoleArn") {
        Some(role) => serde_json::json!({ "roleArn": role }),
        None => credentials.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_resource_is() {
        let service = |service, api| Resource::Service { service, api };
        let lambda = "arn:aws:lambda:us-east-1:111111111111:function:f:2";
        let activity = "arn:aws:states:us-east-1:111111111111:activity:a";
        for (name, expected) in [
            (lambda, Resource::Lambda(lambda)),
            (activity, Resource::Activity(activity)),
            (
                "arn:aws:states:::lambda:invoke",
                service("lambda", "invoke"),
            ),
            (
                "arn:aws:states:::aws-sdk:s3:getObject",
                service("aws-sdk:s3", "getObject"),
            ),
            (
                "arn:aws:states:::states:startExecution.sync:2",
                service("states", "startExecution.sync:2"),
            ),
            ("ballast:copy", service("ballast", "copy")),
            ("copy", service("", "copy")),
        ] {
            assert_eq!(Resource::from_name(name), expected, "{name}");
        }
        assert!(Resource::from_name("ballast:approve.waitForTaskToken").waits_for_callback());
    }
}
