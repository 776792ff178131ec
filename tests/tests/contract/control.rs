//! The control table: destinations, the stage's switch, places in lanes.

use punctual_core::breaker::{Open, Probe, Reach};
use punctual_core::delivery::Lane;
use punctual_core::destination::{Change, Destination, Pause, Spec};
use punctual_core::id::{Correlation, DeliveryId, DestinationId, Owner};
use punctual_core::limiter::{Key, Move, Moved};
use punctual_core::ports::{Control as _, Cursor, Limits as _, ShadowQuery, Stored, Watched};
use punctual_core::rejections::Rejections;
use punctual_core::settings::{RetryMode, Settings};
use punctual_core::shadow::ShadowEntry;

use crate::rows::{at, content};
use crate::worlds::World;

pub(crate) fn destination(name: &str, version: u64) -> Destination {
    let spec = format!(
        r#"{{"id":"{name}","url":"https://hooks.example.com/r","secrets":["punctual/prod/{name}"],
            "classes":{{"409":"dead"}},"on_unknown":"review","allowed_ports":[9000]}}"#
    );
    let changed = Change { at: at(0), by: "operator".into(), why: "a new receiver".into() };
    Destination { spec: serde_json::from_str::<Spec>(&spec).expect("a spec"), version, changed, paused: None }
}

fn id(name: &str) -> DestinationId {
    DestinationId::new(name).expect("a destination id")
}

fn paused(mut destination: Destination) -> Destination {
    destination.paused = Some(Pause { since: at(0), by: "operator".into(), why: "\"review\"\n".into() });
    destination
}

pub(crate) async fn destinations_are_versioned(world: &impl World) {
    let control = world.control();
    assert_eq!(control.destinations().await.unwrap(), []);
    let (first, second) = (destination("acme", 1), paused(destination("acme", 2)));
    assert_eq!(control.put_destination(&second, 1).await.unwrap(), Stored::Conflict, "nothing to replace");
    assert_eq!(control.destinations().await.unwrap(), []);
    assert_eq!(control.put_destination(&first, 0).await.unwrap(), Stored::Done);
    let rival = paused(destination("acme", 1));
    assert_eq!(control.put_destination(&rival, 0).await.unwrap(), Stored::Conflict, "it exists");
    assert_eq!(control.destinations().await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(control.put_destination(&second, 1).await.unwrap(), Stored::Done);
    assert_eq!(control.put_destination(&destination("acme", 2), 1).await.unwrap(), Stored::Conflict, "written since");
    assert_eq!(control.destinations().await.unwrap(), std::slice::from_ref(&second));
    // A resumed destination has no pause left.
    let third = destination("acme", 3);
    assert_eq!(control.put_destination(&third, 2).await.unwrap(), Stored::Done);
    assert_eq!(control.destinations().await.unwrap(), [third]);
}

pub(crate) async fn a_repeated_put_is_done(world: &impl World) {
    let control = world.control();
    for (destination, expected) in [(destination("acme", 1), 0), (paused(destination("acme", 2)), 1)] {
        for _ in 0..2 {
            assert_eq!(control.put_destination(&destination, expected).await.unwrap(), Stored::Done);
        }
        assert_eq!(control.destinations().await.unwrap(), [destination]);
    }
}

pub(crate) async fn looks_up_each_destination_once(world: &impl World) {
    let control = world.control();
    assert_eq!(control.lookup(&[]).await.unwrap(), (Vec::new(), Settings::default()));
    let stored = [destination("acme", 1), destination("beta", 1), destination("gamma", 1)];
    for destination in &stored {
        control.put_destination(destination, 0).await.unwrap();
    }
    let (mut found, _) = control.lookup(&[id("beta"), id("acme"), id("beta"), id("nobody")]).await.unwrap();
    found.sort_by(|a, b| a.spec.id.cmp(&b.spec.id));
    assert_eq!(found, stored[..2]);
    // More than one call can hold.
    let many: Vec<DestinationId> = (0..150).map(|n| id(&format!("d{n}"))).chain([id("gamma")]).collect();
    assert_eq!(control.lookup(&many).await.unwrap().0, stored[2..]);
}

pub(crate) async fn the_switch_is_read(world: &impl World) {
    assert_eq!(world.control().lookup(&[id("acme")]).await.unwrap().1.retry_mode, RetryMode::Retry);
    world.set_retry_mode(RetryMode::DeadLetter).await;
    assert_eq!(world.control().lookup(&[id("acme")]).await.unwrap().1.retry_mode, RetryMode::DeadLetter);
    world.set_retry_mode(RetryMode::Retry).await;
    assert_eq!(world.control().lookup(&[]).await.unwrap().1.retry_mode, RetryMode::Retry);
    assert_eq!(world.control().destinations().await.unwrap(), [], "the switch is no destination");
}

pub(crate) async fn keeps_and_forgets_places(world: &impl World) {
    let control = world.control();
    let lane = |shard| Lane { destination: id("acme"), shard };
    let place = |n: i64| Cursor { wake_at: at(n), id: DeliveryId::new(format!("d{n}")).expect("an id") };
    assert_eq!(control.cursors().await.unwrap(), []);
    control.keep_cursor(&lane(0), Some(&place(1))).await.unwrap();
    control.keep_cursor(&lane(1), Some(&place(2))).await.unwrap();
    control.keep_cursor(&lane(0), Some(&place(3))).await.unwrap();
    let mut places = control.cursors().await.unwrap();
    places.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(places, [(lane(0), place(3)), (lane(1), place(2))]);
    control.keep_cursor(&lane(0), None).await.unwrap();
    control.keep_cursor(&lane(7), None).await.unwrap();
    assert_eq!(control.cursors().await.unwrap(), [(lane(1), place(2))]);
}

fn shadowed(name: &str, n: i64, due: i64) -> ShadowEntry {
    ShadowEntry {
        destination: id(name),
        delivery_id: DeliveryId::new(format!("d{n}")).expect("an id"),
        deliver_after: at(due),
        deliver_by: at(due + 900),
        posted_at: at(due + 1),
        attempt: 1,
        destination_version: 7,
        content: content("{}"),
        body_bytes: 2,
        key_ids: "2026a,2026b".into(),
    }
}

pub(crate) async fn the_sink_keeps_one_entry_for_each_delivery(world: &impl World) {
    let control = world.control();
    let query = |name: &str, from, until| ShadowQuery { destination: id(name), from: at(from), until: at(until), start: None };
    assert_eq!(control.shadow_entries(&query("acme", 0, 100)).await.unwrap().entries, []);
    for entry in [shadowed("acme", 1, 20), shadowed("acme", 2, 10), shadowed("acme", 3, 10), shadowed("beta", 4, 15)] {
        control.post_shadow(&entry).await.unwrap();
    }
    let again = ShadowEntry { attempt: 2, posted_at: at(30), ..shadowed("acme", 1, 20) };
    control.post_shadow(&again).await.unwrap();
    // In the order of due times; the end is not included, another destination's are apart, the same again replaces.
    let all = control.shadow_entries(&query("acme", 10, 21)).await.unwrap();
    assert_eq!(all.entries, [shadowed("acme", 2, 10), shadowed("acme", 3, 10), again]);
    assert_eq!(all.next, None);
    assert_eq!(control.shadow_entries(&query("acme", 10, 20)).await.unwrap().entries.len(), 2);
    assert_eq!(control.shadow_entries(&query("acme", 11, 20)).await.unwrap().entries, []);
    let rest = ShadowQuery { start: Some(shadowed("acme", 2, 10).place()), ..query("acme", 0, 100) };
    assert_eq!(control.shadow_entries(&rest).await.unwrap().entries.len(), 2, "goes on behind a place");
    assert_eq!(control.destinations().await.unwrap(), [], "an entry is no destination");
}

pub(crate) fn rejections(version: u64, results: &str, by: &str) -> Rejections {
    let last_status = results.contains('x').then_some(400);
    let results = results.parse().expect("results");
    Rejections { version, destination_version: 7, results, last_status, by: Correlation::of_request(by) }
}

pub(crate) async fn rejections_are_versioned(world: &impl World) {
    let control = world.control();
    assert_eq!(control.watch(&[]).await.unwrap(), Watched::default());
    let acme = destination("acme", 1);
    control.put_destination(&acme, 0).await.unwrap();
    world.set_retry_mode(RetryMode::DeadLetter).await;
    let settings = Settings { retry_mode: RetryMode::DeadLetter, ..Settings::default() };
    let watched = |stored: Option<&Rejections>| Watched {
        destinations: vec![acme.clone()],
        rejections: stored.map(|stored| (id("acme"), stored.clone())).into_iter().collect(),
        reach: Vec::new(),
        settings,
    };
    let asked = [id("acme"), id("beta"), id("acme")];
    assert_eq!(control.watch(&asked).await.unwrap(), watched(None));

    let (first, second) = (rejections(1, "x", "a"), rejections(2, &"x.".repeat(32), "b"));
    assert_eq!(control.note_rejections(&id("acme"), &second).await.unwrap(), Stored::Conflict, "nothing to follow");
    assert_eq!(control.watch(&asked).await.unwrap(), watched(None));
    for stored in [&first, &second] {
        // The second time its answer was lost.
        for _ in 0..2 {
            assert_eq!(control.note_rejections(&id("acme"), stored).await.unwrap(), Stored::Done);
        }
        assert_eq!(control.watch(&asked).await.unwrap(), watched(Some(stored)));
    }
    assert_eq!(control.note_rejections(&id("acme"), &rejections(2, "x", "c")).await.unwrap(), Stored::Conflict, "written since");
    assert_eq!(control.watch(&asked).await.unwrap(), watched(Some(&second)));
    let calm = rejections(3, "..", "c");
    assert_eq!(control.note_rejections(&id("acme"), &calm).await.unwrap(), Stored::Done);
    assert_eq!(control.watch(&asked).await.unwrap(), watched(Some(&calm)), "no status is left");
    // It is no destination, and a destination that is not asked for brings none.
    assert_eq!(control.destinations().await.unwrap(), std::slice::from_ref(&acme));
    assert_eq!(control.lookup(&asked).await.unwrap(), (vec![acme], settings));
    assert_eq!(control.watch(&[id("beta")]).await.unwrap(), Watched { settings, ..Watched::default() });
}

pub(crate) async fn two_writers_of_equal_results_lose_none(world: &impl World) {
    let control = world.control();
    let (acme, mine, theirs) = (id("acme"), rejections(1, "x", "a"), rejections(1, "x", "b"));
    let answers = tokio::join!(control.note_rejections(&acme, &mine), control.note_rejections(&acme, &theirs));
    let answers = [answers.0.unwrap(), answers.1.unwrap()];
    // Whoever is told of the conflict adds its results to the other's.
    assert_eq!(answers.iter().filter(|answer| **answer == Stored::Done).count(), 1, "{answers:?}");
    let kept = control.watch(std::slice::from_ref(&acme)).await.unwrap().rejections;
    assert_eq!(kept, [(acme, if answers[0] == Stored::Done { mine } else { theirs })]);
}

pub(crate) async fn a_limit_moves_as_the_core_says(world: &impl World) {
    let control = world.control();
    let moves = [
        Move::Add { by: 20, from: 100, to: 200 },
        Move::Set { to: 150, at_least: Some(100), at_most: 200 },
        Move::Set { to: 150, at_least: None, at_most: 200 },
    ];
    // None, below, at and above the bounds, and as large as today's instants.
    let stored = [None, Some(99), Some(100), Some(150), Some(200), Some(201), Some(1_796_115_600_000_000)];
    for (n, (write, before)) in moves.iter().flat_map(|write| stored.map(|before| (*write, before))).enumerate() {
        let key = Key::of(&id(&format!("d{n}")));
        let begins = |to| Move::Set { to, at_least: None, at_most: 0 };
        if let Some(before) = before {
            assert_eq!(control.move_limit(&key, begins(before)).await.unwrap(), Moved::Done { now: before });
        }
        let expected = write.apply(before).map_or(Moved::Refused { is: before }, |now| Moved::Done { now });
        assert_eq!(control.move_limit(&key, write).await.unwrap(), expected, "{write:?} on {before:?}");
        let kept = write.apply(before).or(before);
        assert_eq!(control.limit(&key).await.unwrap(), kept, "{write:?} on {before:?}");
        let told = control.move_limit(&key, Move::Add { by: 1, from: 1, to: 0 }).await.unwrap();
        assert_eq!(told, Moved::Refused { is: kept }, "{write:?} on {before:?}");
        // Redriven calls have a number of their own.
        let apart = Key::of_redrive(&id(&format!("d{n}")));
        assert_eq!(control.move_limit(&apart, begins(7)).await.unwrap(), Moved::Done { now: 7 });
    }
    assert_eq!(control.destinations().await.unwrap(), [], "it is no destination");
}

pub(crate) async fn two_bookings_share_no_slot(world: &impl World) {
    let (control, key) = (world.control(), Key::of(&id("acme")));
    let first = Move::Set { to: 1_000, at_least: None, at_most: 10 };
    let answers = tokio::join!(control.move_limit(&key, first), control.move_limit(&key, first));
    let answers = [answers.0.unwrap(), answers.1.unwrap()];
    assert!(
        answers.contains(&Moved::Done { now: 1_000 }) && answers.contains(&Moved::Refused { is: Some(1_000) }),
        "{answers:?}"
    );
    let next = Move::Add { by: 20, from: 0, to: 2_000 };
    let answers = tokio::join!(control.move_limit(&key, next), control.move_limit(&key, next));
    let answers = [answers.0.unwrap(), answers.1.unwrap()];
    assert!(answers.contains(&Moved::Done { now: 1_020 }) && answers.contains(&Moved::Done { now: 1_040 }), "{answers:?}");
}

pub(crate) fn reach(version: u64, silent: u32, open: Option<Open>, by: &str) -> Reach {
    Reach { version, silent, in_flight: 100, open, by: Correlation::of_request(by) }
}

fn open(probe: Option<Probe>) -> Open {
    Open { since: at(0), probe_at: at(15), probes: 2, probe }
}

pub(crate) async fn reach_is_versioned(world: &impl World) {
    let control = world.control();
    assert_eq!(control.reaches().await.unwrap(), []);
    let acme = destination("acme", 1);
    control.put_destination(&acme, 0).await.unwrap();
    let probe = Probe { owner: Owner::new("o1").expect("an owner"), until: at(60) };
    let lives = [
        reach(1, 2, None, "a"),
        reach(2, 3, Some(open(None)), "b"),
        reach(3, 3, Some(open(Some(probe))), "c"),
        reach(4, 0, None, "d"),
    ];
    assert_eq!(control.note_reach(&id("acme"), &lives[1]).await.unwrap(), Stored::Conflict, "nothing to follow");
    assert_eq!(control.reaches().await.unwrap(), []);
    for stored in &lives {
        // The second time its answer was lost.
        for _ in 0..2 {
            assert_eq!(control.note_reach(&id("acme"), stored).await.unwrap(), Stored::Done);
        }
        let kept = vec![(id("acme"), stored.clone())];
        assert_eq!(control.reaches().await.unwrap(), kept);
        let watched = control.watch(&[id("acme"), id("beta"), id("acme")]).await.unwrap();
        assert_eq!(watched, Watched { destinations: vec![acme.clone()], reach: kept, ..Watched::default() });
    }
    assert_eq!(control.note_reach(&id("acme"), &reach(4, 1, None, "e")).await.unwrap(), Stored::Conflict, "written since");
    // Another destination's row is apart, needs no destination, and is none.
    let beta = reach(1, 1, None, "e");
    assert_eq!(control.note_reach(&id("beta"), &beta).await.unwrap(), Stored::Done);
    let mut all = control.reaches().await.unwrap();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(all, [(id("acme"), lives[3].clone()), (id("beta"), beta.clone())]);
    assert_eq!(control.watch(&[id("beta")]).await.unwrap().reach, [(id("beta"), beta)]);
    assert_eq!(control.destinations().await.unwrap(), [acme]);
}

pub(crate) async fn one_of_two_probes_has_the_lease(world: &impl World) {
    let control = world.control();
    let acme = id("acme");
    control.note_reach(&acme, &reach(1, 3, Some(open(None)), "a")).await.unwrap();
    let probing =
        |owner: &str, by| reach(2, 3, Some(open(Some(Probe { owner: Owner::new(owner).expect("an owner"), until: at(60) }))), by);
    let (mine, theirs) = (probing("o1", "b"), probing("o2", "b"));
    let answers = tokio::join!(control.note_reach(&acme, &mine), control.note_reach(&acme, &theirs));
    let answers = [answers.0.unwrap(), answers.1.unwrap()];
    assert_eq!(answers.iter().filter(|answer| **answer == Stored::Done).count(), 1, "{answers:?}");
    let kept = control.reaches().await.unwrap();
    assert_eq!(kept, [(acme, if answers[0] == Stored::Done { mine } else { theirs })]);
}
