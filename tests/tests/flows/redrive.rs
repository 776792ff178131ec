//! A thousand dead deliveries of three reasons on two destinations, one receiver mended: planned, redriven by reason, watched
//! and swept by the deployed functions, with slices that their schedules start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::load::report::fullest;
use punctual_tests::receiver::ReceiverOptions;
use punctual_tests::stack::StackOptions;
use serde_json::{Value, json};

use crate::world::{MACHINE, World, list, number, until};

/// (destination, reason, how many).
const GROUPS: [(&str, Reason, usize); 6] = [
    ("crm", Reason::Rejected, 300),
    ("crm", Reason::AttemptsExhausted, 200),
    ("crm", Reason::KeyConflict, 100),
    ("erp", Reason::Rejected, 250),
    ("erp", Reason::AttemptsExhausted, 100),
    ("erp", Reason::KeyConflict, 50),
];
/// Calls a second of a run, which are all that its destination gives to redrives; and their burst, a second's worth.
const RATE: usize = 10;
const BURST: usize = RATE;
const CANARY: usize = 20;
/// Over so long they are counted once more.
const WINDOW: Duration = Duration::from_secs(10);
const DESTINATION_RATE: usize = 50;
/// The emulator starts schedules every ten seconds, and a run has several.
const RUN: Duration = Duration::from_secs(240);

fn rejected_of(destination: &str) -> Value {
    json!({"reasons": ["rejected"], "destination_ids": [destination]})
}

fn order(destination: &str) -> Value {
    json!({
        "action": "start",
        "owner": "ann",
        "why": "it answered 400 to everything",
        "evidence": "INC-7",
        "selection": rejected_of(destination),
        "max_count": 1_000,
        "rate_per_second": RATE,
        "canary_size": CANARY,
        "abort_threshold_percent": 10,
    })
}

/// What inspect says of each letter, without what looking changes: by message, and how often each was received.
fn seen(answer: &Value) -> (BTreeMap<String, Value>, Vec<u64>) {
    let mut letters = BTreeMap::new();
    let mut receives = Vec::new();
    for letter in list(&answer["dead_letters"]["letters"]) {
        let mut letter = letter.clone();
        let fields = letter.as_object_mut().unwrap();
        receives.push(fields.remove("receives").unwrap().as_u64().unwrap());
        fields.remove("age_seconds");
        let name = fields["message_id"].as_str().unwrap().to_owned();
        assert!(letters.insert(name, letter).is_none(), "a letter is shown twice");
    }
    (letters, receives)
}

/// Waits until a run has come to its end, its dead letters swept, and gives it.
async fn until_over(world: &World, id: &str) -> Value {
    let event = json!({"action": "status", "run_id": id});
    until("the end of a run", RUN, async || {
        let answer = world.console().do_it("redrive", &event).await.unwrap();
        if answer["run"]["run"]["swept"] == true { Ok(answer) } else { Err(answer["text"].to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_dead_are_redriven_by_reason_and_the_wrong_run_stops_by_itself() {
    let options = StackOptions::default().parameter("RedriveSliceSeconds", 10);
    let world = World::start_with(options, ReceiverOptions::default()).await;
    let console = world.console();
    for (id, path) in [("crm", "healthy/crm"), ("erp", "rejecting/erp")] {
        let never_paused = json!({"rate_per_second": DESTINATION_RATE, "pause_after": {"rejected": 64, "of_last": 64}});
        world.destination(id, path, never_paused).await;
        world.proven(id).await;
    }
    let rows = punctual_tests::buried::all(&world.stack, &GROUPS).await.unwrap();

    // Looking, twice: nothing changes but the receive counts.
    let look = json!({"action": "dead_letters", "limit": 1_000});
    let (first, receives) = seen(&console.do_it("inspect", &look).await.unwrap());
    assert_eq!((first.len(), receives.iter().all(|n| *n == 1)), (1_000, true));
    let again = console.do_it("inspect", &look).await.unwrap();
    let (second, receives) = seen(&again);
    assert!(first == second && receives.iter().all(|n| *n == 2));
    assert_eq!(again["dead_letters"]["reasons"], json!({"attempts_exhausted": 300, "key_conflict": 150, "rejected": 550}));
    assert_eq!(number(&again["dead_letters"]["reachable"]), 1_000);

    // The plan is right to the row.
    let plan = console.do_it("redrive", &json!({"action": "plan", "selection": rejected_of("crm")})).await.unwrap();
    let (matched, moves) = (number(&plan["plan"]["matched"]), number(&plan["plan"]["would_move"]));
    assert_eq!((matched, moves, number(&plan["plan"]["destinations"][0]["cap_per_second"])), (300, 300, RATE));
    let all = json!({"action": "plan", "selection": {"destination_ids": ["crm", "erp"]}});
    let groups = console.do_it("redrive", &all).await.unwrap()["plan"]["groups"].clone();
    let told: BTreeSet<(String, String, usize)> = list(&groups)
        .iter()
        .map(|g| (g["destination_id"].as_str().unwrap().into(), g["reason"].as_str().unwrap().into(), number(&g["would_move"])))
        .collect();
    assert_eq!(told, GROUPS.map(|(destination, reason, n)| (destination.to_owned(), reason.to_string(), n)).into());

    // The machine is ours: how calls follow each other is measured.
    let machine = MACHINE.write().await;
    let start = |destination| {
        let event = order(destination);
        async move { console.do_it("redrive", &event).await.unwrap()["run"]["run"]["id"].as_str().unwrap().to_owned() }
    };
    let (mended, broken) = (start("crm").await, start("erp").await);
    let stopped = until_over(&world, &broken).await;
    let done = until_over(&world, &mended).await;
    let selected = |row: &&Delivery| row.destination.as_str() == "crm" && row.reason == Some(Reason::Rejected);
    let ids: Vec<DeliveryId> = rows.iter().filter(selected).map(|row| row.id.clone()).collect();
    world.until_rows("the last call", &ids, |row| row.state == State::Delivered).await;
    drop(machine);

    // Only the selection, canary first, at the rate; attempts go on.
    let calls: Vec<_> = world.receiver.calls().into_iter().filter(|call| call.path.contains("crm")).collect();
    let keys: BTreeSet<&str> = calls.iter().map(|call| call.idempotency_key.as_str()).collect();
    assert_eq!((calls.len(), keys), (300, ids.iter().map(DeliveryId::as_str).collect()));
    assert!(calls.iter().all(|call| call.attempt == Some(2)));
    let mut began: Vec<i64> = calls.iter().map(|call| call.received_at_ms).collect();
    began.sort_unstable();
    let after_canary = began[CANARY] - began[CANARY - 1];
    assert!(after_canary > 3_000, "the canary was not waited for: {after_canary} ms");
    let began: Vec<Timestamp> = began.into_iter().map(Timestamp::from_millis).collect();
    let most_within = |window| fullest(began.iter().copied(), window);
    let (second, window) = (most_within(Duration::from_secs(1)), most_within(WINDOW));
    let as_f64 = |count: usize| f64::from(u32::try_from(count).unwrap());
    let ratio = as_f64(second) / as_f64(RATE + BURST);
    println!("redrive_peak_window_ratio {ratio:.2} ({second} calls in the fullest second, {window} in the fullest {WINDOW:?})");
    assert!(ratio <= 1.0, "{second} calls in a second");
    assert!(window <= RATE * usize::try_from(WINDOW.as_secs()).unwrap() + BURST, "{window} calls in {WINDOW:?}");
    for row in world.rows(&ids).await {
        let numbers: Vec<u32> = row.attempts.iter().map(|attempt| attempt.number).collect();
        assert_eq!((numbers, row.granted, row.run().map(|run| run.as_str())), (vec![1, 2], 3, Some(mended.as_str())));
    }
    let counters = &done["run"]["run"]["counters"];
    println!("redrive_scan_receives {} of {}", counters["scan_receives"], stopped["run"]["run"]["counters"]["scan_receives"]);
    assert_eq!((done["run"]["run"]["phase"].as_str(), number(&counters["moved"])), (Some("done"), 300));
    assert_eq!(number(&done["run"]["totals"]["rows"]), 300);

    // The other one stopped in its canary, and says why.
    let run = &stopped["run"]["run"];
    assert_eq!(run["phase"], "stopped");
    assert_eq!((number(&run["counters"]["moved"]), run["stopped"]["code"].as_str()), (CANARY, Some("abort_threshold")));
    let why = run["stopped"]["text"].as_str().unwrap();
    assert!(why.contains("failed with rejected: more than 10 %"), "{why}");
    let refused = world.receiver.calls().into_iter().filter(|call| call.path.contains("erp")).count();
    assert_eq!(refused, CANARY);

    // The dead letters: those of the rows that are still dead, with everything that they said, and no others.
    let all: Vec<DeliveryId> = rows.iter().map(|row| row.id.clone()).collect();
    let dead: Vec<Delivery> = world.rows(&all).await.into_iter().filter(|row| row.state == State::Dead).collect();
    let expected: BTreeMap<(String, String), (String, BTreeMap<String, String>)> = dead
        .iter()
        .map(|row| {
            let letter = DeadLetter::of(row);
            let attributes = letter.attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            ((row.id.to_string(), row.death.to_string()), (letter.body, attributes))
        })
        .collect();
    assert_eq!(expected.len(), 700);
    let letters: BTreeMap<(String, String), (String, BTreeMap<String, String>)> = world
        .dead_letters()
        .await
        .into_iter()
        .map(|letter| ((letter.get("delivery_id").into(), letter.get("death").into()), (letter.body, letter.attributes)))
        .collect();
    let (there, wanted): (BTreeSet<_>, BTreeSet<_>) = (letters.keys().collect(), expected.keys().collect());
    assert!(there == wanted, "missing {:?}, too many {:?}", wanted.difference(&there), there.difference(&wanted));
    // A letter tells the row as it was when it died; the present death's is as the row would tell it now.
    assert_eq!(letters, expected);
    world.stop().await;
}
