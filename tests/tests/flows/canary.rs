//! Canaries on the real stack: one passes, and of each of several broken stacks one names the broken stage.

use serde_json::{Value, json};

use crate::world::{BOUND, World, until};

/// So long may a stage take, in seconds; shorter than is usual, for nobody comes any more here.
const PATIENCE: u64 = 1;

async fn send(world: &World, destination: &str) -> Value {
    let event = json!({"action": "canary", "destination_id": destination, "run": "flow"});
    let sent = world.console().do_it("schedule", &event).await.unwrap();
    sent["canary"]["ask_inspect"].clone()
}

/// Asks until the verdict is as wanted.
async fn verdict(world: &World, ask: &Value, wanted: &str, patience: u64) -> Value {
    let mut ask = ask.clone();
    ask["patience_seconds"] = json!(patience);
    until(wanted, BOUND, async || {
        let answer = world.console().do_it("inspect", &ask).await.unwrap();
        if answer["canary"]["verdict"] == wanted { Ok(answer) } else { Err(answer["text"].to_string()) }
    })
    .await
}

/// What is broken, and why.
async fn broken(world: &World, ask: &Value) -> (String, String) {
    let canary = verdict(world, ask, "broken", PATIENCE).await["canary"].clone();
    assert!(canary["first_action"].is_string(), "{canary}");
    (canary["stage"].as_str().unwrap().to_owned(), canary["why"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn canary_passes_a_healthy_stack_and_names_the_broken_stage_of_others() {
    let world = World::start().await;
    let console = world.console();
    let plain = json!({"rate_per_second": 10, "retry": {"base_ms": 60_000, "cap_ms": 60_000, "attempts": 5}});
    world.destination("healthy", "healthy/healthy", plain.clone()).await;
    let ask = send(&world, "healthy").await;

    // Nobody starts dispatch.
    let (stage, why) = broken(&world, &ask).await;
    assert_eq!(stage, "dispatch", "{why}");
    // Healthy: each stage has its time, in their order.
    console.dispatch().await.unwrap();
    let passed = verdict(&world, &ask, "passed", 60).await;
    let stages = passed["canary"]["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|step| step["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["schedule", "dispatch", "queue", "limiter", "deliver", "acknowledgement"]);
    let times: Vec<&str> = stages.iter().filter_map(|step| step["at"].as_str()).collect();
    assert!(times.is_sorted() && times.len() >= 5, "{passed}");
    let calls = world.receiver.calls_for(passed["canary"]["delivery_id"].as_str().unwrap());
    assert_eq!(calls.len(), 1);

    // Nothing hands messages to deliver.
    world.stack.set_delivering(false).await.unwrap();
    world.destination("unfetched", "healthy/unfetched", plain.clone()).await;
    let unfetched = send(&world, "unfetched").await;
    console.dispatch().await.unwrap();
    let (stage, why) = broken(&world, &unfetched).await;
    assert_eq!(stage, "deliver", "{why}");
    world.stack.set_delivering(true).await.unwrap();
    verdict(&world, &unfetched, "passed", 60).await;

    // A receiver that is not there; its breaker opens at once.
    let gone = json!({"url": "http://127.0.0.1:9/", "allowed_ports": [9], "breaker": {"opens_after": 1}});
    world.destination("gone", "unused", merged(&plain, &gone)).await;
    // A secret that is not there.
    world.destination("unsigned", "healthy/unsigned", merged(&plain, &json!({"secrets": ["punctual/local/missing"]}))).await;
    // A receiver that refuses.
    world.destination("refusing", "rejecting/refusing", plain.clone()).await;
    let mut asks = Vec::new();
    for destination in ["gone", "unsigned", "refusing"] {
        asks.push(send(&world, destination).await);
    }
    console.dispatch().await.unwrap();
    for (ask, stage, said) in
        [(&asks[0], "acknowledgement", "connection"), (&asks[1], "deliver", "secret"), (&asks[2], "acknowledgement", "status")]
    {
        // Deliver needs some seconds: until then it is broken nowhere but for want of patience.
        let answer = until(said, BOUND, async || {
            let answer = console.do_it("inspect", ask).await.unwrap();
            let why = answer["canary"]["why"].as_str().unwrap().to_owned();
            if why.contains(said) { Ok(answer) } else { Err(why) }
        })
        .await;
        let canary = &answer["canary"];
        assert_eq!((canary["verdict"].as_str(), canary["stage"].as_str()), (Some("broken"), Some(stage)), "{canary}");
    }
    // Once its breaker is open, the next canary is not even called.
    let next = json!({"action": "canary", "destination_id": "gone", "run": "next"});
    let next = console.do_it("schedule", &next).await.unwrap()["canary"]["ask_inspect"].clone();
    let (stage, why) = broken(&world, &next).await;
    assert!(stage == "acknowledgement" && why.contains("breaker is open"), "{stage}: {why}");

    // A destination that somebody paused.
    world.destination("paused", "healthy/paused", plain).await;
    console.on_destination("pause", "paused").await.unwrap();
    let paused = send(&world, "paused").await;
    let (stage, why) = broken(&world, &paused).await;
    assert!(stage == "dispatch" && why.contains("ops paused destination paused"), "{stage}: {why}");

    // One that was never sent.
    let never = json!({"action": "canary", "destination_id": "healthy", "run": "never"});
    assert_eq!(broken(&world, &never).await.0, "schedule");
    // It is a delivery like any other, and can be taken back like one.
    let answer = console.do_it("inspect", &paused).await.unwrap();
    console.on_delivery("cancel", answer["canary"]["delivery_id"].as_str().unwrap()).await.unwrap();
    let (_, why) = broken(&world, &paused).await;
    assert_eq!(why, "ops cancelled it.");
    world.stop().await;
}

fn merged(base: &Value, more: &Value) -> Value {
    let mut merged = base.clone();
    merged.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    merged
}
