//! I switch dispatch's schedule on and off.

use aws_sdk_scheduler::Client;
use aws_sdk_scheduler::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_scheduler::types::{FlexibleTimeWindow, FlexibleTimeWindowMode, ScheduleState, Target};
use punctual_core::ports::{PortError, Ticks};

/// Dispatch's schedule on EventBridge Scheduler.
#[derive(Debug, Clone)]
pub struct SchedulerTicks {
    client: Client,
    group: String,
    name: String,
}

impl SchedulerTicks {
    /// The schedule of this name in this group.
    #[must_use]
    pub fn new(client: Client, group: impl Into<String>, name: impl Into<String>) -> Self {
        Self { client, group: group.into(), name: name.into() }
    }
}

/// Refused for good, or worth another try.
fn port_error<E>(what: &'static str, error: SdkError<E>) -> PortError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let refused = error.as_service_error().and_then(ProvideErrorMetadata::code).is_some_and(|code| {
        ["AccessDenied", "ValidationException", "ResourceNotFoundException"].iter().any(|word| code.contains(word))
    });
    let source = error.into_source().unwrap_or_else(|e| Box::new(e));
    if refused { PortError::Refused { what, source } } else { PortError::Unavailable { what, source } }
}

impl Ticks for SchedulerTicks {
    /// Two calls: an update replaces the whole schedule, so that everything else is read first and sent back as it was. Whoever
    /// else changes the schedule between them is undone.
    async fn switch(&self, on: bool) -> Result<bool, PortError> {
        let get = self.client.get_schedule().group_name(&self.group).name(&self.name);
        let is = get.send().await.map_err(|e| port_error("GetSchedule", e))?;
        let was_on = is.state() != Some(&ScheduleState::Disabled);
        if was_on == on {
            return Ok(was_on);
        }
        let missing = |part: &str| PortError::Corrupt { item: format!("schedule {}", self.name), problem: format!("no {part}") };
        let target: Target = is.target().cloned().ok_or_else(|| missing("target"))?;
        let window: FlexibleTimeWindow = match is.flexible_time_window().cloned() {
            Some(window) => window,
            None => FlexibleTimeWindow::builder()
                .mode(FlexibleTimeWindowMode::Off)
                .build()
                .map_err(|e| PortError::Refused { what: "UpdateSchedule", source: Box::new(e) })?,
        };
        self.client
            .update_schedule()
            .group_name(&self.group)
            .name(&self.name)
            .schedule_expression(is.schedule_expression().ok_or_else(|| missing("expression"))?)
            .set_schedule_expression_timezone(is.schedule_expression_timezone().map(str::to_owned))
            .set_start_date(is.start_date().copied())
            .set_end_date(is.end_date().copied())
            .set_description(is.description().map(str::to_owned))
            .set_kms_key_arn(is.kms_key_arn().map(str::to_owned))
            .set_action_after_completion(is.action_after_completion().cloned())
            .target(target)
            .flexible_time_window(window)
            .state(if on { ScheduleState::Enabled } else { ScheduleState::Disabled })
            .send()
            .await
            .map_err(|e| port_error("UpdateSchedule", e))?;
        Ok(was_on)
    }
}
