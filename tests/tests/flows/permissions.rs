//! The roles of the template permit what the code does: a whole flow with the emulator refusing everything else. What no
//! step needs is found by `tests/infra.rs`, which lists every permission.
//!
//! The emulator checks each call's action and resource against the inline policies of the calling function's role. It
//! does not check what the platform does in the role's name: receiving and deleting messages, writing logs.

use std::fs;
use std::time::Duration;

use punctual_adapters::clock::machine_time;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_tests::receiver::ReceiverOptions;
use punctual_tests::stack::{StackOptions, template};
use serde_json::{Value, json};

use crate::world::{BOUND, World, due_now, number, reminder, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_flow_needs_no_permission_that_the_template_does_not_give() {
    whole_flow(template::read().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_the_template_does_not_permit_is_refused() {
    let file = template::read().unwrap();
    let by_reference = "- !Sub ${LedgerTable.Arn}/index/reference\n";
    assert_eq!(file.matches(by_reference).count(), 1);
    let text = file.replace(by_reference, &by_reference.replace("index/reference", "index/none"));
    let world = World::start_with(enforcing(text), ReceiverOptions::default()).await;
    world.destination("fine", "healthy", json!({})).await;
    let reminders = due_now("fine", 1);
    let ids = world.schedule(&reminders).await;
    world.console().explain(ids[0].as_str()).await.unwrap();
    let question = json!({"action": "explain", "reference": reminders[0]["reference"]});
    let refused = world.console().send("inspect", &question).await.unwrap_err().to_string();
    assert!(refused.contains("by_reference was refused"), "{refused}");
    assert_eq!(world.settled(&ids).await[0].state, State::Delivered);
    world.stop().await;
}

/// Returns an expired delivery with a new deadline: slices are sent by hand, as well as by their schedules.
async fn redrive(world: &World, id: &DeliveryId) {
    let console = world.console();
    let selection = json!({"delivery_ids": [id]});
    let ask = async |event: Value| console.do_it("redrive", &event).await.unwrap();
    let new = machine_time().plus(Duration::from_secs(3_600));
    let plan = ask(json!({"action": "plan", "selection": selection, "deliver_by": new})).await;
    assert_eq!(number(&plan["plan"]["with_new_deadline"]), 1, "{plan}");
    let run = ask(json!({
        "action": "start", "owner": "ann", "why": "it was paused too long", "evidence": "INC-7", "selection": selection,
        "max_count": 1, "rate_per_second": 1, "canary_size": 1, "abort_threshold_percent": 1, "deliver_by": new,
    }))
    .await["run"]["run"]["id"]
        .clone();
    ask(json!({"action": "freeze", "by": "ann", "why": "test", "evidence": "INC-7"})).await;
    let idle = ask(json!({"action": "slice", "run_id": run, "slice": 1})).await;
    assert!(idle["slice"]["idle"].as_str().unwrap().contains("frozen"), "{idle}");
    ask(json!({"action": "unfreeze", "by": "ann", "why": "test", "evidence": "INC-7"})).await;
    let moved = ask(json!({"action": "slice", "run_id": run, "slice": 1})).await;
    assert_eq!((number(&moved["slice"]["moved"]), number(&moved["slice"]["released"]["published"])), (1, 1), "{moved}");
    let row = world.settled(std::slice::from_ref(id)).await.remove(0);
    assert_eq!((row.state, row.deliver_by), (State::Delivered, new));
    // The schedule's own slice may come in between: then it did this.
    let swept = ask(json!({"action": "slice", "run_id": run, "slice": 2})).await;
    assert!(swept["slice"]["failed"].is_null(), "{swept}");
    let told = until("the end of the run", BOUND, async || {
        let told = ask(json!({"action": "status", "run_id": run})).await;
        if told["run"]["run"]["phase"] == "done" { Ok(told) } else { Err(told["text"].to_string()) }
    })
    .await;
    assert_eq!(told["run"]["run"]["counters"]["deleted"], json!({"moved": 1}), "{told}");
    assert_eq!(console.send("redrive", &json!({"action": "status"})).await.unwrap()["runs"][0]["run_id"], run);
}

/// A stack of this template that refuses what its roles do not permit.
fn enforcing(template: String) -> StackOptions {
    StackOptions { enforce_iam: true, template: Some(template), ..StackOptions::default() }
}

async fn whole_flow(template: String) {
    let world = World::start_with(enforcing(template), ReceiverOptions::default()).await;
    let console = world.console();
    world.destination("fine", "healthy", json!({})).await;
    world.destination("flaky", "flaky", json!({})).await;
    world.destination("gone", "gone", json!({})).await;
    // One lane with one place: a tick stops early and leaves a cursor.
    world.destination("narrow", "healthy", json!({"shards": 1, "max_in_flight": 1})).await;

    // Schedule: payload and row, release, a conflict that reads the stored payload, a migrated id with its lock. The one
    // that is due soon is waited for in the invocation, with reads of the database's time.
    let now = machine_time();
    let hour = Duration::from_secs(3_600);
    let mut reminders = due_now("fine", 2);
    reminders.push(reminder("fine", 2, now.plus(Duration::from_millis(2_500)), now.plus(hour)));
    let mut migrated = reminder("fine", 3, now, now.plus(hour));
    migrated["migrated"] = json!({"delivery_id": "old-3"});
    reminders.push(migrated);
    reminders.extend(due_now("flaky", 2));
    reminders.extend(due_now("gone", 1));
    let ids = world.schedule(&reminders).await;
    let mut other = reminders[0].clone();
    other["payload"] = json!({"another": "content"});
    let answer = console.schedule(&[other]).await.unwrap();
    assert_eq!(answer["results"][0]["conflicts"], json!(["payload"]), "{answer}");

    // Deliver: claim, payload, secret, retries by visibility, a dead letter, the pause of a 410.
    let rows = world.settled(&ids).await;
    let ends: Vec<State> = rows.iter().map(|row| row.state).collect();
    assert_eq!(ends, [[State::Delivered; 6].as_slice(), &[State::Dead]].concat());
    assert_eq!(rows[4].attempts.len(), 3, "{:?}", rows[4]);
    assert!(world.stored_destination("gone").await.paused.is_some());

    // Operate: hold, release, cancel, pause, resume. Dispatch: claim, publish, cursors, an expired row and its dead letter.
    console.on_destination("pause", "fine").await.unwrap();
    console.on_destination("pause", "narrow").await.unwrap();
    let deadline = now.plus(Duration::from_secs(6));
    let waiting = world.schedule(&[reminder("fine", 10, now, now.plus(hour))]).await;
    let doomed = world.schedule(&[reminder("fine", 11, now, deadline)]).await;
    let recalled = world.schedule(&[reminder("fine", 12, now, now.plus(hour))]).await;
    console.on_delivery("hold", waiting[0].as_str()).await.unwrap();
    console.on_delivery("cancel", recalled[0].as_str()).await.unwrap();
    assert_eq!(world.row(&recalled[0]).await.state, State::Cancelled);
    let soon = machine_time().plus(Duration::from_secs(120));
    let crowd: Vec<Value> = (0..510).map(|n| reminder("narrow", n, soon, soon.plus(hour))).collect();
    world.schedule(&crowd).await;
    console.on_destination("resume", "narrow").await.unwrap();
    world.until_after(deadline).await;
    let first = console.dispatch().await.unwrap();
    assert_eq!((number(&first["expired"]), number(&first["claimed"]), number(&first["failed"])), (1, 1, 0), "{first}");
    assert_eq!(number(&first["buried"]), 1, "{first}");
    assert_eq!(world.row(&doomed[0]).await.reason, Some(Reason::DeadlinePassed));
    // The rest of the lane, from where the first tick stopped: the cursor is read, followed and removed.
    let second = console.dispatch().await.unwrap();
    assert!(number(&second["seen"]) < number(&first["seen"]), "{first} {second}");
    assert_eq!(number(&second["failed"]), 0, "{second}");
    // A producer moves one, which is released at once, and takes another back, which it names by what a migrated one is.
    let mut early = reminder("fine", 13, soon.plus(hour), soon.plus(hour * 2));
    // The receiver holds a call against what its body says is due: this one comes earlier than first asked for.
    early["payload"] = json!({"n": 13});
    let ahead = world.schedule(&[early]).await;
    console.on_destination("resume", "fine").await.unwrap();
    let now = machine_time();
    let instants = json!({"delivery_id": ahead[0], "deliver_after": now, "deliver_by": now.plus(hour)});
    let event = json!({"action": "reschedule", "deliveries": [instants]});
    assert_eq!(console.do_it("schedule", &event).await.unwrap()["released"]["published"], 1);
    assert_eq!(world.settled(&ahead).await[0].state, State::Delivered);
    let of = |field: &str| reminders[3][field].clone();
    let identity = json!({
        "tenant": of("tenant"), "subscriber": of("subscriber"),
        "renewal_period": of("renewal_period"), "reminder_kind": of("reminder_kind"),
    });
    let event = json!({"action": "cancel", "by": "crm", "why": "renewed", "deliveries": [{"identity": identity}]});
    let answer = console.send("schedule", &event).await.unwrap();
    assert_eq!(answer["results"][0]["answer"], "already_delivered", "{answer}");
    let hours = json!({"mon": [["09:00", "17:00"]]});
    let calendar = json!({"time_zone": "Europe/London", "hours": hours});
    let event = json!({"action": "put_calendar", "by": "ann", "why": "test", "evidence": "OPS-1", "calendar_id": "uk", "calendar": calendar});
    console.do_it("operate", &event).await.unwrap();
    console.do_it("inspect", &json!({"action": "calendar"})).await.unwrap();
    console.do_it("inspect", &json!({"action": "calendar", "calendar_id": "uk"})).await.unwrap();
    console.on_delivery("release", waiting[0].as_str()).await.unwrap();
    let third = console.dispatch().await.unwrap();
    assert_eq!((number(&third["claimed"]), number(&third["failed"])), (1, 0), "{third}");
    // Monitor: the control table, both queues, the wake index, the dead ones.
    let figures = console.send("monitor", &json!({"tick": {}})).await.unwrap();
    assert_eq!((number(&figures["unread"]), number(&figures["paused_by_itself"])), (0, 1), "{figures}");
    assert_eq!((number(&figures["dead"]["gone"]), number(&figures["expired"]["deadline_passed"])), (1, 1), "{figures}");
    assert_eq!(world.settled(&waiting).await[0].state, State::Delivered);

    // Inspect: the dead letters. Redrive: plan, freeze, start, slices, the sweep of the letters, status.
    let seen = console.do_it("inspect", &json!({"action": "dead_letters"})).await.unwrap();
    assert_eq!(number(&seen["dead_letters"]["seen"]), 2, "{seen}");
    redrive(&world, &doomed[0]).await;
    assert_eq!(world.dead_letters().await.len(), 1);

    // Operate: the payload of one that comes back, its destination, the switch.
    let signed = |action: &str| json!({"action": action, "by": "ops", "why": "a test", "evidence": "the flow"});
    console.on_destination("resume", "gone").await.unwrap();
    let mut requeue = signed("requeue");
    requeue["delivery_id"] = json!(ids[6]);
    requeue["attempts"] = json!(1);
    console.do_it("operate", &requeue).await.unwrap();
    for mode in ["dead_letter", "retry"] {
        let mut switch = signed("retry_mode");
        switch["mode"] = json!(mode);
        console.do_it("operate", &switch).await.unwrap();
    }

    // Inspect: lists, operations; by id, by reference, by identity.
    for state in ["dead", "scheduled"] {
        console.do_it("inspect", &json!({"action": "list", "state": state})).await.unwrap();
    }
    let told = console.do_it("inspect", &json!({"action": "operations"})).await.unwrap();
    let of_redrive =
        |action: &str| told["operations"].as_array().unwrap().iter().find(|one| one["action"] == action).cloned().unwrap();
    for action in ["start", "freeze", "unfreeze"] {
        let one = of_redrive(action);
        assert_eq!((&one["by"], &one["evidence"], &one["outcome"]), (&json!("ann"), &json!("INC-7"), &json!("done")), "{one}");
    }
    console.explain(ids[0].as_str()).await.unwrap();
    console.do_it("inspect", &json!({"action": "capacity"})).await.unwrap();
    let canary = json!({"action": "canary", "destination_id": "fine", "run": "one"});
    console.do_it("schedule", &canary).await.unwrap();
    console.do_it("inspect", &canary).await.unwrap();
    console.do_it("inspect", &json!({"action": "capacity", "destination_id": "fine"})).await.unwrap();
    let found = console.do_it("inspect", &json!({"action": "explain", "reference": reminders[0]["reference"]})).await.unwrap();
    assert_eq!(found["deliveries"][0]["delivery_id"], ids[0].as_str());

    let path = world.stack.log().to_path_buf();
    world.stop().await;
    // Some refused calls fail nothing at once: a read of the time, a pause, a cursor. The log tells of them.
    let log = fs::read_to_string(path).unwrap();
    let refused = log.lines().find(|line| line.contains("AccessDenied") || line.contains("not authorized"));
    assert_eq!(refused, None);
}
