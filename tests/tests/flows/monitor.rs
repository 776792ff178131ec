//! Monitor as it is deployed: started by a schedule of its own, with the permissions that the template gives, while dispatch
//! and deliver stand still.

use std::time::Duration;

use punctual_adapters::telemetry::metric;
use punctual_core::state::State;
use punctual_tests::receiver::ReceiverOptions;
use punctual_tests::stack::StackOptions;
use serde_json::{Value, json};

use crate::world::{World, due_now, until};

/// A schedule of a minute begins within two; and a row is looked at once it is ten seconds late.
const FIRST_RUNS: Duration = Duration::from_secs(240);

/// Monitor's metrics, one line for each run.
async fn runs(world: &World) -> Vec<Value> {
    let log = world.stack.log_lines("monitor").await.unwrap();
    let lines = log.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line.get("_aws").is_some() && line["Function"] == "monitor").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn monitor_runs_by_its_own_schedule_and_tells_what_stands_still() {
    let options = StackOptions { enforce_iam: true, ..StackOptions::default() }.parameter("MonitorState", "ENABLED");
    let world = World::start_with(options, ReceiverOptions::default()).await;
    world.stack.set_delivering(false).await.unwrap();
    world.destination("fine", "healthy", json!({})).await;
    // Released by schedule, published, and taken by nobody.
    let ids = world.schedule(&due_now("fine", 3)).await;
    assert!(world.rows(&ids).await.iter().all(|row| row.state == State::Queued));
    let told = until("a run that sees what nobody takes", FIRST_RUNS, async || {
        let runs = runs(&world).await;
        let seen = runs.iter().find(|run| run[metric::QUEUED_AGE_SECONDS].as_f64() > Some(0.0)).cloned();
        seen.ok_or_else(|| format!("{} runs", runs.len()))
    })
    .await;
    assert_eq!(
        (&told[metric::OUT], &told[metric::QUEUE_VISIBLE], &told[metric::TRUNCATED]),
        (&json!(3.0), &json!(3.0), &json!(0.0))
    );
    assert_eq!(told[metric::MONITOR_HEARTBEAT], json!(1.0));
    assert_eq!(told["Offenders"][0]["destination_id"], "fine", "{told}");
    // Nobody has run dispatch yet: as soon as somebody does, monitor hears of it.
    let lost = runs(&world).await.last().unwrap()[metric::DISPATCH_HEARTBEAT_AGE_SECONDS].as_f64().unwrap();
    world.console().dispatch().await.unwrap();
    let figures = world.console().send("monitor", &json!({"tick": {}})).await.unwrap();
    assert!(figures["dispatch_age_seconds"].as_u64().is_some_and(|age| age < 60), "{figures}; {lost} s before");
    world.stack.set_delivering(true).await.unwrap();
    assert!(world.settled(&ids).await.iter().all(|row| row.state == State::Delivered));
    world.stop().await;
}
