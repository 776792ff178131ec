//! I plan the slices of redrive runs: one-time schedules that delete themselves once they have fired.

use aws_sdk_scheduler::Client;
use aws_sdk_scheduler::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_scheduler::operation::create_schedule::CreateScheduleError;
use aws_sdk_scheduler::types::{ActionAfterCompletion, FlexibleTimeWindow, FlexibleTimeWindowMode, Target};
use punctual_core::id::RunId;
use punctual_core::ports::{PortError, Slices};
use punctual_core::time::Timestamp;

mod ticks;

pub use ticks::SchedulerTicks;

/// Where schedules are made, and what they start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePlace {
    /// The stage's name: part of every schedule's name.
    pub stage: String,
    /// The schedule group.
    pub group: String,
    /// The ARN of the function that a schedule starts.
    pub function_arn: String,
    /// The ARN of the role that a schedule starts it with.
    pub role_arn: String,
}

/// Plans slices on EventBridge Scheduler.
#[derive(Debug, Clone)]
pub struct SchedulerSlices {
    client: Client,
    place: SlicePlace,
}

impl SchedulerSlices {
    /// Slices of this stage.
    #[must_use]
    pub fn new(client: Client, place: SlicePlace) -> Self {
        Self { client, place }
    }
}

/// The schedule's name: at most 64 characters, as a stage has at most 16 and a run at most 24.
#[must_use]
pub fn schedule_name(stage: &str, run: &RunId, slice: u32) -> String {
    format!("punctual-{stage}-{run}-{slice}")
}

/// The expression of a one-time schedule, in whole seconds of UTC, rounded up.
#[must_use]
pub fn expression(at: Timestamp) -> String {
    let whole = Timestamp::from_millis(at.as_millis().saturating_add(999).div_euclid(1_000).saturating_mul(1_000));
    // RFC 3339 with exactly three fraction digits: the first 19 characters are what the service takes.
    let text: String = whole.to_string().chars().take(19).collect();
    format!("at({text})")
}

/// What a schedule sends to its function.
#[must_use]
pub fn input(run: &RunId, slice: u32) -> String {
    serde_json::json!({"action": "slice", "run_id": run, "slice": slice}).to_string()
}

/// Whether a schedule of this name is there already.
fn exists(error: &SdkError<CreateScheduleError>) -> bool {
    error.as_service_error().is_some_and(CreateScheduleError::is_conflict_exception)
}

fn port_error(error: SdkError<CreateScheduleError>) -> PortError {
    let what = "CreateSchedule";
    let refused = error.as_service_error().is_some_and(|e| {
        e.is_validation_exception()
            || e.is_resource_not_found_exception()
            || e.code().is_some_and(|code| code.contains("AccessDenied"))
    });
    let source = error.into_source().unwrap_or_else(|e| Box::new(e));
    if refused { PortError::Refused { what, source } } else { PortError::Unavailable { what, source } }
}

impl Slices for SchedulerSlices {
    /// `at` is still to come: whether an instant of the past starts anything is not documented.
    async fn schedule(&self, run: &RunId, slice: u32, at: Timestamp) -> Result<(), PortError> {
        let what = "CreateSchedule";
        let SlicePlace { stage, group, function_arn, role_arn } = &self.place;
        let refused = |e| PortError::Refused { what, source: Box::new(e) };
        let target = Target::builder().arn(function_arn).role_arn(role_arn).input(input(run, slice)).build().map_err(refused)?;
        let window = FlexibleTimeWindow::builder().mode(FlexibleTimeWindowMode::Off).build().map_err(refused)?;
        let answer = self
            .client
            .create_schedule()
            .name(schedule_name(stage, run, slice))
            .group_name(group)
            .description("Starts the next slice of a redrive run, once.")
            .schedule_expression(expression(at))
            .schedule_expression_timezone("UTC")
            .flexible_time_window(window)
            .action_after_completion(ActionAfterCompletion::Delete)
            .target(target)
            .send()
            .await;
        match answer {
            Err(error) if !exists(&error) => Err(port_error(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_a_name_that_fits_and_whole_seconds() {
        let run = RunId::new("run_20261201-090000-7f3a").expect("a run id");
        let name = schedule_name("sixteen-letters-", &run, u32::MAX);
        assert_eq!(name, "punctual-sixteen-letters--run_20261201-090000-7f3a-4294967295");
        assert!(name.len() <= 64, "{}", name.len());
        for (at, expected) in [
            ("2026-12-01T09:00:00.000Z", "at(2026-12-01T09:00:00)"),
            ("2026-12-01T09:00:00.001Z", "at(2026-12-01T09:00:01)"),
            ("2026-12-31T23:59:59.999Z", "at(2027-01-01T00:00:00)"),
        ] {
            assert_eq!(expression(at.parse().expect("an instant")), expected);
        }
        assert_eq!(input(&run, 7), r#"{"action":"slice","run_id":"run_20261201-090000-7f3a","slice":7}"#);
    }
}
