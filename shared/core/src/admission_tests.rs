use proptest::prelude::*;

use super::*;
use crate::decide::{Handoff, overdue_at};
use crate::delivery::{Delivery, NewDelivery};
use crate::id::{Content, Correlation, DestinationId, IdempotencyKey, MessageId, Owner, Reference};
use crate::transition::{Stamp, dispatch_claimed, queued};

const HORIZON: Duration = Duration::from_secs(150);
const TICK: Duration = Duration::from_secs(60);
const MARGIN: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(30);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + ms)
}

fn candidate(id: &str, due: i64, by: i64) -> Candidate {
    Candidate { id: DeliveryId::new(id).expect("an id"), wake_at: at(due), held_until: None, deliver_by: at(by) }
}

fn pace(rate_per_second: u32, outstanding: &[Timestamp]) -> Pace<'_> {
    Pace { now: at(0), rate_per_second, horizon: HORIZON, tick: TICK, margin: MARGIN, outstanding }
}

fn all(all: usize) -> Budget {
    Budget { all, reserve: 0 }
}

fn slots(admission: &Admission) -> Vec<(&str, i64)> {
    admission.rows.iter().map(|row| (row.id.as_str(), row.slot.as_millis() - at(0).as_millis())).collect()
}

#[test]
fn releases_what_the_rate_takes_less_what_is_out() {
    let capacity = Capacity { rate_per_second: 10, max_in_flight: 1_000 };
    let of = |capacity, outstanding, complete| budget(capacity, HORIZON, TICK, outstanding, complete);
    assert_eq!(of(capacity, 0, true), Budget { all: 1_000, reserve: 100 });
    assert_eq!(of(capacity, 400, true), Budget { all: 600, reserve: 100 });
    assert_eq!(of(capacity, 950, true), Budget { all: 50, reserve: 50 });
    assert_eq!(of(capacity, 2_000, true), Budget { all: 0, reserve: 0 });
    assert_eq!(of(capacity, 0, false), Budget { all: 600, reserve: 60 });
    assert_eq!(of(Capacity { rate_per_second: 2, max_in_flight: 1_000 }, 0, true), Budget { all: 300, reserve: 30 });
    assert_eq!(of(Capacity { rate_per_second: 2, max_in_flight: 9 }, 0, true), Budget { all: 9, reserve: 0 });
    assert_eq!([0, 1, 4, 100].map(|n| of_redrive(all(n))), [0, 1, 1, 20]);
}

#[test]
fn the_nearest_deadline_goes_first_among_those_that_are_due() {
    let rows = vec![candidate("late", 0, 900_000), candidate("soon", 90, 800_000), candidate("mid", 0, 850_000)];
    let admission = admit(rows.clone(), all(2), &pace(10, &[]));
    // Nobody waits for the nearest one, which is not due yet; once it is, it goes before the other.
    assert_eq!(slots(&admission), [("soon", 100), ("mid", 0)]);
    let admission = admit(rows, all(3), &pace(10, &[]));
    assert_eq!(slots(&admission), [("soon", 100), ("mid", 0), ("late", 200)]);
    assert_eq!(admission.spread, Duration::from_millis(200));
}

#[test]
fn what_is_out_goes_before_all_but_near_deadlines() {
    let out = vec![at(-5_000); 20];
    let rows = vec![candidate("far", 0, 3_600_000), candidate("near", 0, 60_000)];
    let admission = admit(rows, all(5), &pace(10, &out));
    assert_eq!(slots(&admission), [("near", 0), ("far", 2_100)]);
    // What is out but not due yet leaves its time to others.
    let admission = admit(vec![candidate("far", 0, 3_600_000)], all(5), &pace(10, &[at(60_000); 20]));
    assert_eq!(slots(&admission), [("far", 0)]);
}

#[test]
fn a_slot_beyond_the_horizon_is_left_to_a_later_run() {
    let rows: Vec<Candidate> = (0..10).map(|n| candidate(&format!("d{n}"), 148_000, 3_600_000)).collect();
    let admission = admit(rows, all(10), &pace(1, &[]));
    assert_eq!(slots(&admission), [("d0", 148_000), ("d1", 149_000), ("d2", 150_000)]);
}

#[test]
fn the_reserve_is_for_near_deadlines_alone() {
    let mut rows: Vec<Candidate> = (0..20).map(|n| candidate(&format!("far{n:02}"), 0, 3_600_000)).collect();
    let admission = admit(rows.clone(), Budget { all: 10, reserve: 2 }, &pace(1, &[]));
    assert_eq!((admission.rows.len(), admission.reserve_used), (8, 0));
    // Due long after what fills the budget, and with no run to spare: they have the reserve, and no more than it.
    rows.extend((0..5).map(|n| candidate(&format!("near{n}"), 70_000, 120_000)));
    let admission = admit(rows.clone(), Budget { all: 10, reserve: 2 }, &pace(1, &[]));
    let near: Vec<_> = slots(&admission).into_iter().filter(|(id, _)| id.starts_with("near")).collect();
    assert_eq!((admission.rows.len(), admission.reserve_used, near), (10, 2, vec![("near0", 70_000), ("near1", 71_000)]));
    // Due at once, they may have all of it.
    rows.extend((0..20).map(|n| candidate(&format!("now{n:02}"), 0, 50_000)));
    let admission = admit(rows, Budget { all: 10, reserve: 2 }, &pace(1, &[]));
    assert!(admission.rows.iter().all(|row| row.id.as_str().starts_with("now")), "{admission:?}");
}

proptest! {
    #[test]
    fn the_line_takes_one_row_an_interval_wastes_none_and_never_calls_early(
        rows in prop::collection::vec((-200_000_i64..150_000, 0_i64..600_000), 0..120),
        out in prop_oneof![Just(Vec::new()), prop::collection::vec(-10_000_i64..150_000, 1..40)],
        rate in 1_u32..50, most in 0_usize..150, reserve in 0_usize..20,
    ) {
        let candidates: Vec<Candidate> =
            rows.iter().enumerate().map(|(n, (due, left))| candidate(&format!("d{n:03}"), *due, due + left)).collect();
        let out: Vec<Timestamp> = out.into_iter().map(at).collect();
        let (budget, pace) = (Budget { all: most, reserve: reserve.min(most) }, pace(rate, &out));
        let admission = admit(candidates.clone(), budget, &pace);
        let interval = i64::from(1_000 / rate);

        prop_assert!(admission.rows.len() <= most);
        let others = admission.rows.iter().filter(|row| !pace.is_near(row.due, row.deliver_by)).count();
        prop_assert!(others <= budget.all - budget.reserve);
        let mut taken: Vec<i64> = admission.rows.iter().map(|row| row.slot.as_millis()).collect();
        taken.sort_unstable();
        prop_assert!(taken.windows(2).all(|pair| pair[1] - pair[0] >= interval), "two in one interval");
        let mut ids: Vec<&DeliveryId> = admission.rows.iter().map(|row| &row.id).collect();
        ids.dedup();
        prop_assert_eq!(ids.len(), admission.rows.len());
        for row in &admission.rows {
            prop_assert!(row.slot >= row.due.max(at(0)) && row.slot <= at(0).plus(HORIZON));
            // Whoever went before me while I was due had the nearer deadline, or was near and I am not.
            let mine = (!pace.is_near(row.due, row.deliver_by), row.deliver_by);
            for other in admission.rows.iter().filter(|other| other.slot < row.slot && row.due <= other.slot) {
                prop_assert!((!pace.is_near(other.due, other.deliver_by), other.deliver_by) <= mine, "{other:?} before {row:?}");
            }
        }
        // Whoever waits, waits behind somebody: the slot before is taken.
        for row in admission.rows.iter().filter(|row| out.is_empty() && row.slot > row.due.max(at(0))) {
            let before = row.slot.as_millis() - interval - 2;
            prop_assert!(taken.iter().any(|slot| (before..row.slot.as_millis()).contains(slot)), "{row:?} waits for nothing");
        }
    }
}

fn row(due: i64, by: i64) -> Delivery {
    let id = DeliveryId::new("d").expect("an id");
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id),
        reference: Reference::new("r").expect("a reference"),
        destination: DestinationId::new("acme").expect("an id"),
        shard: 0,
        content: Content::of(&[b"x"]),
        deliver_after: at(due),
        deliver_by: at(by),
        id,
    };
    Delivery::new(new, at(due - 60_000), Correlation::of_request("test"))
}

#[test]
fn a_row_is_held_until_its_slot_only_where_that_is_far_off_and_leaves_time_for_a_rescue() {
    let held = |due, slot, by| {
        let row = Admitted { id: DeliveryId::new("d").expect("an id"), due: at(due), slot: at(slot), deliver_by: at(by) };
        held_until(&row, Now { lo: at(-500), hi: at(0) }, LEASE, TICK, MARGIN).since(at(0)).as_secs()
    };
    assert_eq!(held(0, 100_000, 3_600_000), 100);
    assert_eq!(held(0, 32_000, 3_600_000), 30, "within the lease and the clock's bound");
    assert_eq!(held(0, 32_001, 3_600_000), 32, "just beyond it");
    assert_eq!(held(90_000, 100_000, 3_600_000), 30, "it is the due time that is far off, not the slot");
    assert_eq!(held(0, 100_000, 240_000), 100, "two runs after the slot can still save it");
    assert_eq!(held(0, 100_000, 239_999), 30, "they can't");
}

#[test]
fn a_message_is_missed_from_its_slot_on() {
    let handoff = Handoff { threshold: Duration::from_secs(120), lease: Some(LEASE) };
    let by = Correlation::of_request("test");
    let stamp = |ms| Stamp { now: Now::exactly(at(ms)), by: by.clone() };
    let overdue = |held: i64, due: i64| {
        let claimer = crate::acquire::Claimer { owner: Owner::new("o").expect("an owner"), by: by.clone(), until: at(held) };
        let claimed =
            dispatch_claimed(&row(due, 3_600_000), claimer, crate::destination::Mode::Live, &stamp(0)).expect("claimed").after;
        let row = queued(&claimed, MessageId::new("m").expect("an id"), &stamp(100)).expect("queued").after;
        overdue_at(&row, handoff, MARGIN).since(at(0)).as_millis()
    };
    assert_eq!(overdue(30_000, 0), 120_100, "from the last line on");
    assert_eq!(overdue(32_000, 0), 120_100, "a lease by a clock that was not sure");
    assert_eq!(overdue(100_000, 0), 220_000, "from the slot on");
    assert_eq!(overdue(30_000, 60_000), 180_000, "from the due time on");
}
