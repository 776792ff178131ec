//! Fresh deliveries while 5,000 dead ones come back: they are called as soon as without a redrive, over ten seconds the
//! redrive's own calls stay under its cap, and no second holds more than twice the cap.
//!
//! A slot is laid out for each redriven call, and its message comes up to a second before; consumers that are all waiting
//! take it later. So a single second can hold what two would: that is the burst which deliver books it on, and its bound.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference};
use punctual_core::ports::{Created, Ledger as _};
use punctual_core::reason::Reason;
use punctual_core::redrive::Phase;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::load::report::{fullest, fullest_second};
use serde_json::json;

use crate::world::{Stage, World, begin, dead, order, run_id};

const DEAD: usize = 5_000;
/// Calls a second that the destination takes, and that a redrive may have of them.
const RATE: u32 = 100;
const CAP: usize = 20;
/// Fresh deliveries fall due one after another, so many a second, from ten minutes on.
const FRESH: u64 = 60;
const FROM: Duration = Duration::from_secs(600);
const LASTS: Duration = Duration::from_secs(400);

impl World {
    async fn put_fresh(&self, number: u64) {
        let parts = IdentityParts {
            tenant: "acme".into(),
            subscriber: format!("f{number:05}"),
            renewal_period: "2027".into(),
            reminder_kind: "fresh".into(),
        };
        let (id, body) = (DeliveryId::derive(&parts), b"{}".to_vec());
        let deliver_after = begin().plus(FROM).plus(Duration::from_millis(number * 1_000 / FRESH));
        let deliver_by = deliver_after.plus(Duration::from_secs(3_600));
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new(format!("f{number:05}")).unwrap(),
            destination: DestinationId::new("crm").unwrap(),
            shard: id.shard(2),
            content: Content::of(&[&body]),
            deliver_after,
            deliver_by,
            id,
        };
        let row = Delivery::new(new, begin(), Correlation::new("before").unwrap());
        let payload = Payload { body, parts, deliver_after, deliver_by };
        assert_eq!(self.ledger.create(&row, &payload).await.unwrap(), Created::New);
    }
}

/// What one run of the scenario shows.
#[derive(Debug)]
struct Shown {
    /// How long after its due time the first call of each fresh delivery began, shortest first.
    waits: Vec<Duration>,
    /// When redriven calls began.
    redriven: Vec<Timestamp>,
    /// How many of them began while fresh ones fell due.
    beside: usize,
    /// The most calls within any one second.
    fullest: usize,
}

impl Shown {
    fn p99(&self) -> Duration {
        self.waits[self.waits.len() * 99 / 100]
    }
}

fn play(redrives: bool) -> Shown {
    let mut stage = Stage::start();
    let world = stage.world.clone();
    stage.wait(async move {
        world.destination("crm", json!({"rate_per_second": RATE})).await;
        for n in 0..DEAD {
            world.put(n, dead("crm", Reason::Rejected)).await;
        }
        for n in 0..FRESH * LASTS.as_secs() {
            world.put_fresh(n).await;
        }
    });
    stage.answer("crm", 200);
    // The canary is over when the first fresh delivery falls due.
    stage.pass(FROM.saturating_sub(Duration::from_secs(80)));
    let more = json!({"rate_per_second": CAP, "canary_size": 50});
    let run = redrives.then(|| run_id(&stage.ask(order(json!({"reasons": ["rejected"]}), more))));
    let over = begin().plus(FROM + LASTS + Duration::from_secs(120));
    stage.until("the end of fresh work", Duration::from_secs(3_600), |world| world.clock.instant() >= over);
    if let Some(run) = run {
        let run = stage.until_over(&run);
        assert_eq!((run.phase, run.counters.moved), (Phase::Done, 5_000));
    }
    let rows: BTreeMap<String, Delivery> =
        stage.ledger.rows().into_iter().map(|row| (row.idempotency_key.to_string(), row)).collect();
    let is_fresh = |key: &str| rows[key].deliver_after >= begin();
    let (mut first, mut redriven): (BTreeMap<String, Timestamp>, Vec<Timestamp>) = (BTreeMap::new(), Vec::new());
    let calls = stage.calls();
    for call in &calls {
        if is_fresh(&call.key) {
            first.entry(call.key.clone()).or_insert(call.at);
        } else {
            redriven.push(call.at);
        }
    }
    assert!(rows.values().all(|row| row.state == State::Delivered || (!redrives && row.state == State::Dead)));
    let mut waits: Vec<Duration> = first.iter().map(|(key, at)| at.since(rows[key].deliver_after)).collect();
    waits.sort_unstable();
    assert_eq!(waits.len(), usize::try_from(FRESH * LASTS.as_secs()).unwrap());
    let between = begin().plus(FROM)..begin().plus(FROM + LASTS);
    let beside = redriven.iter().filter(|at| between.contains(at)).count();
    let fullest = fullest_second(calls.iter().map(|call| call.at));
    Shown { waits, redriven, beside, fullest }
}

#[test]
fn fresh_work_waits_no_longer_while_five_thousand_come_back() {
    let (alone, beside) = (play(false), play(true));
    let (second, ten) = (Duration::from_secs(1), Duration::from_secs(10));
    let most_within = |window| fullest(beside.redriven.iter().copied(), window);
    let (in_second, in_ten) = (most_within(second), most_within(ten));
    println!(
        "fresh p99 {:?} alone, {:?} beside {} of {} redriven calls; of these at most {in_second} in a second, {in_ten} in ten; {} in all",
        alone.p99(),
        beside.p99(),
        beside.beside,
        beside.redriven.len(),
        beside.fullest
    );
    assert!(beside.p99() <= alone.p99() + second, "{:?} against {:?}", beside.p99(), alone.p99());
    assert_eq!((alone.redriven.len(), beside.redriven.len()), (0, DEAD));
    assert!(beside.beside > DEAD * 9 / 10, "{} redriven calls were beside fresh ones", beside.beside);
    // Ten seconds of the cap, and its burst of one second.
    assert!(in_ten <= 11 * CAP, "{in_ten} redriven calls within ten seconds");
    assert!(in_second <= 2 * CAP, "{in_second} redriven calls within a second");
    assert!(beside.fullest <= usize::try_from(RATE + RATE / 5).unwrap(), "{} calls within a second", beside.fullest);
}
