//! A shadow run of the demo's input: the receiver is never called, the sink has every delivery, and what nobody had
//! claimed at the promotion goes live under its own id.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_adapters::clock::machine_time;
use punctual_core::id::DeliveryId;
use punctual_core::ports::{Control as _, ShadowQuery};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_operate::destination::CLAIMS_END;
use punctual_tests::demo;
use serde_json::{Value, json};

use crate::world::{BOUND, World, list, number, until};

const DAY: Duration = Duration::from_secs(86_400);

/// The destination whose reminders nobody claims before the promotion.
const LATER: &str = "ticked";

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_run_of_the_demos_input_calls_nobody_and_its_promotion_makes_the_rest_live() {
    let world = World::start().await;
    let console = world.console();
    for name in demo::destinations() {
        let path = if name == LATER { "healthy/ticked" } else { name };
        world.destination(name, path, json!({"mode": "shadow"})).await;
    }
    console.on_destination("pause", LATER).await.unwrap();
    let start = machine_time();
    let reminders = demo::reminders(start).unwrap();
    let ids = world.schedule(&reminders).await;
    let (later, now): (Vec<_>, Vec<_>) =
        ids.iter().cloned().zip(&reminders).partition(|(_, reminder)| reminder["destination_id"] == LATER);
    let of = |part: Vec<(DeliveryId, &Value)>| part.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    let (later, now) = (of(later), of(now));
    assert_eq!((later.len(), now.len()), (20, 190));

    // What waits says where it goes.
    let explained = console.explain(later[0].as_str()).await.unwrap();
    let why = explained["deliveries"][0]["why"].as_str().unwrap();
    assert!(why.contains("In shadow mode: the shadow sink gets it, not the receiver."), "{why}");

    let shadowed = world.settled(&now).await;
    for row in &shadowed {
        assert_eq!((row.state, row.reason, row.shadow), (State::Shadowed, Some(Reason::Shadowed), true), "{row:?}");
        assert_eq!(row.attempts.len(), 1, "{row:?}");
        let attempt = row.attempts[0].to_string();
        assert!(attempt.contains(" shadow shadowed v") && attempt.ends_with(" flows"), "{attempt}");
        assert!(row.attempts[0].started_at >= row.deliver_after && row.attempts[0].started_at < row.deliver_by, "{row:?}");
    }
    assert_eq!(world.receiver.call_count(), 0, "a receiver was called");
    assert_eq!(sink(&world).await, now.iter().cloned().collect::<BTreeSet<_>>(), "the sink has every delivery once");
    assert!(world.dead_letters().await.is_empty());

    refused_changes(&world).await;
    no_pass(&world, "healthy", 60).await;

    // Promotion: what nobody has claimed goes live under its own id; what is shadowed stays so. A run that still sees the old
    // mode could claim: only a destination that has been paused for longer than any run lasts is promoted.
    let promote = json!({"action": "promote", "by": "ops", "why": "go", "evidence": "a test", "destination_id": "healthy"});
    let answer = console.send("operate", &promote).await.unwrap();
    assert_eq!(answer["errors"][0]["code"], "not_paused", "{answer}");
    until("the end of every run that saw the old mode", CLAIMS_END * 2, async || {
        let event = json!({"action": "promote", "by": "ops", "why": "go", "evidence": "a test", "destination_id": LATER});
        let answer = console.send("operate", &event).await.unwrap();
        if answer["ok"] == true { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    assert!(machine_time() > world.stored_destination(LATER).await.paused.unwrap().since.plus(CLAIMS_END));
    let again = console.on_destination("promote", LATER).await.unwrap();
    assert_eq!(again["did"], format!("nothing: {LATER} is live"));
    console.on_destination("resume", LATER).await.unwrap();
    until("the claim of the rest", BOUND, async || {
        let summary = console.dispatch().await.unwrap();
        if number(&summary["outstanding"]) + number(&summary["claimed"]) >= 20 { Ok(()) } else { Err(summary.to_string()) }
    })
    .await;
    for (row, id) in world.settled(&later).await.iter().zip(&later) {
        assert_eq!((row.state, row.shadow, row.attempts.len()), (State::Delivered, false, 1), "{row:?}");
        assert_eq!(row.idempotency_key.as_str(), id.as_str());
        assert_eq!(world.receiver.calls_for(id.as_str()).len(), 1);
    }
    assert_eq!(world.receiver.call_count(), 20);
    assert_eq!(world.rows(&now).await, shadowed, "a shadowed row changed");
    // The same input again changes nothing: no second identity, and nothing that was shadowed comes back.
    let answer = console.schedule(&reminders).await.unwrap();
    assert_eq!((number(&answer["summary"]["unchanged"]), number(&answer["summary"]["created"])), (210, 0), "{answer}");
    println!("shadow run: 190 shadowed with 0 calls, 20 promoted and delivered under their ids");
    world.stop().await;
}

/// Every delivery that the sink has, of all of the demo's destinations.
async fn sink(world: &World) -> BTreeSet<DeliveryId> {
    let mut found = BTreeSet::new();
    for name in demo::destinations() {
        let destination = world.stored_destination(name).await;
        let from = machine_time().minus(Duration::from_secs(3_600));
        let until = from.plus(Duration::from_secs(7_200));
        let query = ShadowQuery { destination: destination.spec.id.clone(), from, until, start: None };
        let page = world.control.shadow_entries(&query).await.unwrap();
        assert_eq!(page.next, None);
        for entry in page.entries {
            assert_eq!((entry.destination_version, entry.attempt, entry.key_ids.as_str()), (1, 1, "flows"), "{entry:?}");
            assert!(entry.body_bytes > 0);
            assert!(found.insert(entry.delivery_id.clone()), "twice: {entry:?}");
        }
    }
    found
}

/// A mode never changes by the way.
async fn refused_changes(world: &World) {
    let url = world.receiver.url("healthy");
    let spec = |mode: Value| {
        json!({"action": "put_destination", "by": "ops", "why": "another rate", "evidence": "a test",
            "destination": {"id": "healthy", "url": url, "secrets": [crate::world::SECRET_NAME], "mode": mode}})
    };
    let answer = world.console().send("operate", &spec(json!("live"))).await.unwrap();
    let error = (&answer["errors"][0]["field"], &answer["errors"][0]["code"]);
    assert_eq!(error, (&json!("destination.mode"), &json!("must_not_change")), "{answer}");
    let answer = world.console().send("operate", &spec(json!("dark"))).await.unwrap();
    assert_eq!(answer["errors"][0]["field"], "destination.mode", "{answer}");
    let unknown = json!({"action": "promote", "by": "ops", "why": "go", "evidence": "a test", "destination_id": "nobody"});
    let answer = world.console().send("operate", &unknown).await.unwrap();
    assert_eq!(answer["errors"][0]["code"], "unknown_destination", "{answer}");
    // A live destination is never shadowed.
    world.destination("lively", "healthy", json!({})).await;
    let mut back = spec(json!("shadow"));
    back["destination"]["id"] = json!("lively");
    let answer = world.console().send("operate", &back).await.unwrap();
    assert_eq!(answer["errors"][0]["field"], "destination.mode", "{answer}");
}

/// Today alone proves nothing, and the report says why; bad questions are answered with the field.
async fn no_pass(world: &World, destination: &str, deliveries: usize) {
    let day = |n: u32| machine_time().minus(DAY).plus(DAY * n).to_string()[..10].to_owned();
    let (yesterday, after_tomorrow) = (day(0), day(3));
    let hours = json!([["00:00", "24:00"]]);
    let calendar = json!({"time_zone": "UTC", "hours": {
        "mon": hours, "tue": hours, "wed": hours, "thu": hours, "fri": hours, "sat": hours, "sun": hours}});
    let ask = json!({"action": "shadow_report", "destination_id": destination,
        "from": yesterday, "until": after_tomorrow, "calendar": calendar});
    let answer = world.console().do_it("inspect", &ask).await.unwrap();
    let report = &answer["report"];
    assert_eq!((number(&report["deliveries"]), &report["pass"]), (deliveries, &json!(false)), "{answer}");
    assert_eq!((number(&report["waiting"]), number(&report["outside_hours"])), (0, 0), "{answer}");
    let objections: Vec<&str> = list(&report["objections"]).iter().map(|one| one.as_str().unwrap()).collect();
    assert!(["period_too_short", "period_not_over", "no_holiday"].iter().all(|one| objections.contains(one)), "{answer}");
    assert!(answer["text"][1].as_str().unwrap().starts_with("No pass: "), "{answer}");

    for (change, code, field) in [
        (json!({"from": "yesterday"}), "invalid_date", "from"),
        (json!({"until": yesterday}), "out_of_bounds", "until"),
        (json!({"destination_id": "nobody"}), "unknown_destination", "destination_id"),
        (json!({"calendar": {"time_zone": "Mars/Olympus", "hours": {}}}), "unknown_time_zone", "calendar.time_zone"),
        (
            json!({"calendar": {"time_zone": "UTC", "hours": {"mon": [["17:00", "09:00"]]}}}),
            "invalid_hours",
            "calendar.hours.mon",
        ),
        (json!({"calendar": {"time_zone": "UTC", "hours": {}, "open": 1}}), "unknown_field", "calendar.open"),
        (json!({"month": 5}), "unknown_field", "month"),
    ] {
        let mut bad = ask.clone();
        bad.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = world.console().send("inspect", &bad).await.unwrap();
        assert_eq!((&answer["ok"], &answer["errors"][0]["code"]), (&json!(false), &json!(code)), "{answer}");
        assert_eq!(answer["errors"][0]["field"], field, "{answer}");
    }
}
