//! The starter of slices: in memory and on ministack.

use aws_credential_types::Credentials;
use aws_sdk_scheduler::Client;
use aws_sdk_scheduler::config::{BehaviorVersion, Region};
use aws_sdk_scheduler::types::{ActionAfterCompletion, FlexibleTimeWindowMode};
use punctual_adapters::memory::MemorySlices;
use punctual_adapters::scheduler::{SchedulerSlices, SlicePlace};
use punctual_core::id::RunId;
use punctual_core::ports::{PortError, Slices as _};
use punctual_core::time::Timestamp;
use punctual_tests::stack::REGION;
use serde_json::{Value, json};

use crate::rows::at;
use crate::servers;
use crate::wire::scripted_http;

const FUNCTION: &str = "arn:aws:lambda:us-east-1:000000000000:function:punctual-dev-redrive";
const ROLE: &str = "arn:aws:iam::000000000000:role/punctual-dev-slices";

fn run(name: &str) -> RunId {
    RunId::new(name).expect("a run id")
}

pub(crate) fn client(endpoint: &str) -> Client {
    let config = aws_sdk_scheduler::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new("test", "test", None, None, "contract suite"))
        .endpoint_url(endpoint);
    Client::from_conf(config.build())
}

fn slices(client: &Client, group: &str) -> SchedulerSlices {
    let place = SlicePlace { stage: "dev".into(), group: group.into(), function_arn: FUNCTION.into(), role_arn: ROLE.into() };
    SchedulerSlices::new(client.clone(), place)
}

#[tokio::test]
async fn a_slice_is_planned_once_whoever_plans_it_again() {
    let client = client(&servers::ministack_endpoint());
    let group = "punctual-slices";
    client.create_schedule_group().name(group).send().await.expect("a group");
    let slices = slices(&client, group);
    // Never past, or the emulator starts them.
    let at = |time: &str| format!("2099-12-01T{time}Z").parse::<Timestamp>().expect("an instant");
    let start = at("12:15:00.001");
    slices.schedule(&run("run_a"), 2, start).await.expect("planned");
    slices.schedule(&run("run_a"), 2, at("13:23:20")).await.expect("planned already");
    slices.schedule(&run("run_a"), 3, at("13:23:20")).await.expect("another slice");
    slices.schedule(&run("run_b"), 2, at("13:23:20")).await.expect("another run");
    let get = |name: &str| client.get_schedule().group_name(group).name(name).send();
    let planned = get("punctual-dev-run_a-2").await.expect("a schedule");
    assert_eq!(planned.schedule_expression(), Some("at(2099-12-01T12:15:01)"), "the first plan stands, rounded up");
    assert_eq!(planned.schedule_expression_timezone(), Some("UTC"));
    assert_eq!(planned.action_after_completion(), Some(&ActionAfterCompletion::Delete));
    assert_eq!(planned.flexible_time_window().map(|window| window.mode()), Some(&FlexibleTimeWindowMode::Off));
    let target = planned.target().expect("a target");
    assert_eq!((target.arn(), target.role_arn()), (FUNCTION, ROLE));
    let input: Value = serde_json::from_str(target.input().expect("an input")).expect("JSON");
    assert_eq!(input, json!({"action": "slice", "run_id": "run_a", "slice": 2}));
    for name in ["punctual-dev-run_a-3", "punctual-dev-run_b-2"] {
        assert_eq!(get(name).await.expect("a schedule").schedule_expression(), Some("at(2099-12-01T13:23:20)"));
    }
}

#[tokio::test]
async fn only_a_conflict_is_a_success_and_only_what_may_pass_is_worth_repeating() {
    for (status, code, expected) in [
        (409, "ConflictException", "done"),
        (404, "ResourceNotFoundException", "refused"),
        (400, "ValidationException", "refused"),
        (403, "AccessDeniedException", "refused"),
        (402, "ServiceQuotaExceededException", "unavailable"),
    ] {
        let (endpoint, _) = scripted_http(vec![(status, json!({"__type": code, "Message": "said"}))]).await;
        let answer = slices(&client(&endpoint), "group").schedule(&run("run_a"), 2, at(900)).await;
        let kind = match answer {
            Ok(()) => "done",
            Err(PortError::Refused { .. }) => "refused",
            Err(PortError::Unavailable { .. }) => "unavailable",
            Err(PortError::Corrupt { .. }) => "corrupt",
        };
        assert_eq!(kind, expected, "{code}");
    }
}

#[tokio::test]
async fn in_memory_the_first_plan_stands_and_a_start_takes_it_away() {
    let slices = MemorySlices::default();
    let start = Timestamp::from_millis(at(900).as_millis() + 1);
    slices.schedule(&run("run_a"), 2, start).await.expect("planned");
    slices.schedule(&run("run_a"), 2, at(5_000)).await.expect("planned already");
    slices.schedule(&run("run_b"), 1, at(800)).await.expect("another run");
    assert_eq!(slices.planned(), [(run("run_a"), 2, at(901)), (run("run_b"), 1, at(800))]);
    assert_eq!(slices.take_due(at(799)), None);
    assert_eq!(slices.take_due(at(901)), Some((run("run_b"), 1)));
    assert_eq!(slices.take_due(at(901)), Some((run("run_a"), 2)));
    assert_eq!((slices.take_due(at(9_000)), slices.planned()), (None, Vec::new()));
}
