//! Dispatch's schedule: in memory and on ministack.

use aws_sdk_scheduler::types::{
    DeadLetterConfig, FlexibleTimeWindow, FlexibleTimeWindowMode, RetryPolicy, ScheduleState, Target,
};
use punctual_adapters::memory::MemoryTicks;
use punctual_adapters::scheduler::SchedulerTicks;
use punctual_core::ports::{PortError, Ticks};
use serde_json::json;

use crate::servers;
use crate::slices::client;
use crate::wire::scripted_http;

/// On, off, off, on, on: each says what was before.
async fn says_what_was(ticks: &impl Ticks) {
    for (on, was) in [(true, true), (false, true), (false, false), (true, false), (true, true), (false, true)] {
        assert_eq!(ticks.switch(on).await.expect("switched"), was, "to {on}");
    }
}

#[tokio::test]
async fn in_memory_it_says_what_was() {
    let ticks = MemoryTicks::default();
    says_what_was(&ticks).await;
    assert!(!ticks.is_on());
}

#[tokio::test]
async fn on_ministack_everything_else_stays_as_it_is() {
    let client = client(&servers::ministack_endpoint());
    let (group, name) = ("punctual-ticks", "punctual-dev-tick");
    client.create_schedule_group().name(group).send().await.expect("a group");
    let target = Target::builder()
        .arn("arn:aws:lambda:us-east-1:000000000000:function:punctual-dev-dispatch")
        .role_arn("arn:aws:iam::000000000000:role/punctual-dev-tick")
        .input(r#"{"tick":{"scheduled_at":"<aws.scheduler.scheduled-time>"}}"#)
        .retry_policy(RetryPolicy::builder().maximum_retry_attempts(0).maximum_event_age_in_seconds(60).build())
        .dead_letter_config(DeadLetterConfig::builder().arn("arn:aws:sqs:us-east-1:000000000000:letters").build())
        .build()
        .expect("a target");
    let window = FlexibleTimeWindow::builder().mode(FlexibleTimeWindowMode::Flexible).maximum_window_in_minutes(3);
    client
        .create_schedule()
        .group_name(group)
        .name(name)
        .description("Starts dispatch.")
        .schedule_expression("cron(0 9 1 1 ? 2099)")
        .schedule_expression_timezone("Europe/Vienna")
        .start_date(aws_sdk_scheduler::primitives::DateTime::from_secs(4_070_908_800))
        .end_date(aws_sdk_scheduler::primitives::DateTime::from_secs(4_102_444_800))
        .flexible_time_window(window.build().expect("a window"))
        .target(target)
        .send()
        .await
        .expect("a schedule");
    let get = async || client.get_schedule().group_name(group).name(name).send().await.expect("a schedule");
    let before = get().await;
    assert_eq!(before.state(), Some(&ScheduleState::Enabled));
    says_what_was(&SchedulerTicks::new(client.clone(), group, name)).await;
    let after = get().await;
    assert_eq!(after.state(), Some(&ScheduleState::Disabled));
    assert_eq!(after.target(), before.target());
    assert_eq!(after.flexible_time_window(), before.flexible_time_window());
    assert_eq!(after.description(), before.description());
    assert_eq!((after.start_date(), after.end_date()), (before.start_date(), before.end_date()));
    let expressions = |s: &aws_sdk_scheduler::operation::get_schedule::GetScheduleOutput| {
        (s.schedule_expression().map(str::to_owned), s.schedule_expression_timezone().map(str::to_owned))
    };
    assert_eq!(expressions(&after), expressions(&before));
    assert_eq!(after.action_after_completion(), before.action_after_completion());
}

#[tokio::test]
async fn only_what_may_pass_is_worth_repeating() {
    for (status, code, refused) in [
        (404, "ResourceNotFoundException", true),
        (403, "AccessDeniedException", true),
        (400, "ValidationException", true),
        (409, "ConflictException", false),
    ] {
        let (endpoint, _) = scripted_http(vec![(status, json!({"__type": code, "Message": "said"}))]).await;
        let answer = SchedulerTicks::new(client(&endpoint), "group", "tick").switch(false).await;
        match answer {
            Err(PortError::Refused { what, .. }) => assert!(refused && what == "GetSchedule", "{code}"),
            Err(PortError::Unavailable { .. }) => assert!(!refused, "{code}"),
            other => panic!("{code}: {other:?}"),
        }
    }
}
