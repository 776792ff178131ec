//! What explain says of each state is true there, and what it allows works; a paused dispatch starts no run by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_scheduler::Client;
use aws_sdk_scheduler::types::{ActionAfterCompletion, FlexibleTimeWindow, FlexibleTimeWindowMode, Target};
use punctual_adapters::clock::machine_time;
use punctual_adapters::scheduler::expression;
use punctual_core::id::DeliveryId;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use serde_json::{Value, json};

use crate::world::{BOUND, World, due_now, list, reminder, until};

/// What explain says of one delivery; its state must be this.
async fn told(world: &World, id: &DeliveryId, state: State) -> Value {
    let answer = world.console().explain(id.as_str()).await.unwrap();
    let told = answer["deliveries"][0].clone();
    assert_eq!(told["state"], state.as_str(), "{told}");
    told
}

fn why(told: &Value) -> &str {
    told["why"].as_str().unwrap()
}

fn allowed(told: &Value) -> Vec<&str> {
    list(&told["allowed"]).iter().map(|action| action.as_str().unwrap()).collect()
}

fn signed(action: &str, id: &DeliveryId) -> Value {
    json!({"action": action, "by": "ops", "why": "a test", "evidence": "the flow", "delivery_id": id})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_is_explained_as_it_is() {
    let world = World::start().await;
    let console = world.console();
    world.destination("healthy", "healthy", json!({})).await;
    world.destination("failing", "flaky", json!({"retry": {"base_ms": 60_000, "cap_ms": 60_000, "attempts": 2}})).await;
    world.destination("rejecting", "rejecting", json!({})).await;
    let hour = Duration::from_secs(3_600);

    // Scheduled: an hour to go.
    let later = machine_time().plus(hour);
    let scheduled = world.schedule(&[reminder("healthy", 1, later, later.plus(hour))]).await.remove(0);
    let told_scheduled = told(&world, &scheduled, State::Scheduled).await;
    assert_eq!(why(&told_scheduled), format!("Waits in the ledger for attempt 1 at {later}."));
    assert_eq!(told_scheduled["next"], json!(later));
    assert_eq!(told_scheduled["expected_start"]["start"], json!(later));
    assert_eq!(allowed(&told_scheduled), ["hold", "cancel"]);

    // Queued: published, and nobody takes it.
    world.stack.set_delivering(false).await.unwrap();
    let queued = world.schedule(&due_now("healthy", 1)).await.remove(0);
    let told_queued = told(&world, &queued, State::Queued).await;
    assert!(why(&told_queued).starts_with("Its message is in the queue for attempt 1"), "{told_queued}");
    let message = world.row(&queued).await.message.unwrap();
    let by_message = console.do_it("inspect", &json!({"action": "explain", "message_id": message})).await.unwrap();
    assert_eq!(by_message["deliveries"][0]["delivery_id"], json!(queued));
    world.stack.set_delivering(true).await.unwrap();

    // Delivered.
    let row = world.settled(std::slice::from_ref(&queued)).await.remove(0);
    let told_delivered = told(&world, &queued, State::Delivered).await;
    assert_eq!(why(&told_delivered), format!("Delivered by attempt 1 at {}.", row.attempts[0].started_at));
    assert!(told_delivered["next"].is_null() && told_delivered["late_at"].is_null(), "{told_delivered}");
    assert_eq!(allowed(&told_delivered), Vec::<&str>::new());

    // Deferred: a minute until its next attempt.
    let deferred = world.schedule(&due_now("failing", 1)).await.remove(0);
    let row = world.until_rows("a retry", std::slice::from_ref(&deferred), |row| row.state == State::Deferred).await.remove(0);
    let told_deferred = told(&world, &deferred, State::Deferred).await;
    let sentence = format!("Attempt 1 failed; its message waits in the queue for attempt 2, at {}.", row.next_attempt_at);
    assert!(why(&told_deferred).starts_with(&sentence), "{told_deferred}");
    assert!(why(&told_deferred).ends_with("Last reason server_error: The receiver answered 5xx."), "{told_deferred}");
    assert_eq!(told_deferred["next"], json!(row.next_attempt_at));

    // Dead, listed, and brought back by what is allowed.
    let dead = world.schedule(&due_now("rejecting", 1)).await.remove(0);
    world.settled(std::slice::from_ref(&dead)).await;
    let told_dead = told(&world, &dead, State::Dead).await;
    assert!(why(&told_dead).starts_with("Dead after 1 attempt. Last reason rejected:"), "{told_dead}");
    assert!(told_dead["redrive"].as_str().unwrap().contains("attempt 2 of 8 comes next"), "{told_dead}");
    assert!(allowed(&told_dead).contains(&"requeue"), "{told_dead}");
    let listed = console.do_it("inspect", &json!({"action": "list", "state": "dead", "reason": "rejected"})).await.unwrap();
    assert_eq!(listed["list"]["deliveries"][0]["delivery_id"], json!(dead));
    let mut requeue = signed("requeue", &dead);
    requeue["attempts"] = 1.into();
    let answer = console.do_it("operate", &requeue).await.unwrap();
    assert!(!answer["did_not"].as_str().unwrap().is_empty(), "{answer}");
    let told_back = told(&world, &dead, State::Scheduled).await;
    assert!(why(&told_back).contains("Last reason redriven:"), "{told_back}");

    // Cancelled.
    assert!(allowed(&told_scheduled).contains(&"cancel"));
    console.do_it("operate", &signed("cancel", &scheduled)).await.unwrap();
    let told_cancelled = told(&world, &scheduled, State::Cancelled).await;
    assert!(why(&told_cancelled).starts_with("ops cancelled it at"), "{told_cancelled}");
    assert!(why(&told_cancelled).ends_with(": a test. Nothing will be sent."), "{told_cancelled}");

    // Every write is recorded, newest first as far as the database's time tells two of one second apart.
    let recorded = console.do_it("inspect", &json!({"action": "operations", "limit": 2})).await.unwrap();
    let records = list(&recorded["operations"]);
    let actions: BTreeSet<&str> = records.iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, BTreeSet::from(["cancel", "requeue"]), "{recorded}");
    assert!(records[0]["at"].as_str() >= records[1]["at"].as_str(), "{recorded}");
    assert!(records.iter().all(|one| one["outcome"] == "done" && one["evidence"] == "the flow"), "{recorded}");
    assert!(recorded["cursor"].is_string(), "{recorded}");
    world.stop().await;
}

/// Dispatch's schedule, made to start once at an instant, whatever its state.
async fn tick_once(world: &World, client: &Client, at: Timestamp) {
    let (group, name) = (world.stack.output("ScheduleGroupName").unwrap(), world.stack.output("TickScheduleName").unwrap());
    let is = client.get_schedule().group_name(&group).name(&name).send().await.unwrap();
    client
        .update_schedule()
        .group_name(&group)
        .name(&name)
        .schedule_expression(expression(at))
        .set_state(is.state().cloned())
        .set_target(is.target().cloned())
        .set_flexible_time_window(is.flexible_time_window().cloned())
        .send()
        .await
        .unwrap();
}

/// Waits until the emulator has looked through its schedules: one behind dispatch's has been started, and is gone.
async fn schedules_were_looked_at(world: &World, client: &Client, at: Timestamp) {
    let (group, tick) = (world.stack.output("ScheduleGroupName").unwrap(), world.stack.output("TickScheduleName").unwrap());
    let is = client.get_schedule().group_name(&group).name(&tick).send().await.unwrap();
    let target = is.target().unwrap();
    let inspect = target.arn().replace("-dispatch", "-inspect");
    let target = Target::builder().arn(inspect).role_arn(target.role_arn()).input(r#"{"action":"operations"}"#).build().unwrap();
    client
        .create_schedule()
        .group_name(&group)
        .name("a-look")
        .schedule_expression(expression(at))
        .action_after_completion(ActionAfterCompletion::Delete)
        .flexible_time_window(FlexibleTimeWindow::builder().mode(FlexibleTimeWindowMode::Off).build().unwrap())
        .target(target)
        .send()
        .await
        .unwrap();
    until("a look at the schedules", BOUND, async || {
        match client.get_schedule().group_name(&group).name("a-look").send().await {
            Ok(_) => Err("not looked at".into()),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_resource_not_found_exception()) => Ok(()),
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_dispatch_starts_no_run_and_a_resumed_one_does() {
    // Without the emulator's permissions: it takes every schedule for one of the group `default`. `tests/infra.rs` pins them.
    let world = World::start().await;
    let console = world.console();
    let client = Client::new(&world.stack.sdk_config().await);
    world.destination("healthy", "healthy", json!({})).await;
    let stage = |action: &str| json!({"action": action, "by": "ops", "why": "a test", "evidence": "the flow"});
    let did = async |action: &str| console.do_it("operate", &stage(action)).await.unwrap()["did"].as_str().unwrap().to_owned();

    // The local stack's schedule is off to begin with.
    let start = machine_time();
    tick_once(&world, &client, start.plus(Duration::from_secs(86_400))).await;
    assert!(did("pause_dispatch").await.starts_with("nothing"));
    assert!(did("resume_dispatch").await.starts_with("switched dispatch's schedule on"));
    assert!(did("pause_dispatch").await.starts_with("switched dispatch's schedule off"));

    // Something that a run of dispatch would take, and an instant at which one would start.
    console.on_destination("pause", "healthy").await.unwrap();
    let ids = world.schedule(&due_now("healthy", 1)).await;
    console.on_destination("resume", "healthy").await.unwrap();
    tick_once(&world, &client, start).await;
    schedules_were_looked_at(&world, &client, start).await;
    let told = told(&world, &ids[0], State::Scheduled).await;
    assert!(why(&told).contains("An operator switched dispatch's schedule off at"), "{told}");
    assert!(told["next"].is_null() && told["expected_start"].is_null(), "{told}");

    assert!(did("resume_dispatch").await.starts_with("switched dispatch's schedule on"));
    assert_eq!(world.settled(&ids).await[0].state, State::Delivered);
    world.stop().await;
}
