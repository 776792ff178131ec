//! The control table: redrive runs and the freeze.

use std::collections::BTreeMap;

use punctual_core::destination::Change;
use punctual_core::id::{DeliveryId, DestinationId, Owner, RunId};
use punctual_core::ports::{Control as _, Stored};
use punctual_core::reason::Reason;
use punctual_core::redrive::run::Base;
use punctual_core::redrive::{Counters, DeleteWhy, Lease, LeaveWhy, Order, Run, Selection, SkipReason, Stop, StopCode, Totals};
use punctual_core::settings::RetryMode;

use crate::rows::at;
use crate::worlds::World;

fn name(name: &str) -> RunId {
    RunId::new(name).expect("a run id")
}

fn run(id: &str) -> Run {
    let selection = Selection {
        delivery_ids: Some(vec![DeliveryId::new("dlv_x").expect("an id")]),
        reasons: Some(vec![Reason::Rejected, Reason::Gone]),
        destination_ids: Some(vec![DestinationId::new("acme").expect("a destination")]),
        died_from: Some(at(0)),
        died_until: Some(at(60)),
        deadline_reachable: Some(false),
    };
    let order = Order {
        owner: "ann".into(),
        why: "the receiver was \"fixed\"\n".into(),
        evidence: "CHG-17".into(),
        selection,
        max_count: 1_000_000,
        rate_per_second: 5,
        canary_size: 10,
        abort_threshold_percent: 20,
        canary_seconds: 900,
        attempts: 3,
        deliver_by: Some(at(9_000)),
    };
    Run::new(name(id), order, at(70))
}

/// A run with every field set.
fn full(id: &str) -> Run {
    let owner = Owner::new("slice-7").expect("an owner");
    let stop = Stop { code: StopCode::AbortThreshold, text: "3 of 10 rows failed.".into() };
    let resumed = run(id).stop(stop.clone(), at(80), "7f3a9c21").expect("stopped");
    let resumed = resumed.resume(&Totals::default(), "ann", "fixed", at(90)).expect("resumed");
    let stopped = resumed.stop(stop, at(95), "7f3a9c21").expect("stopped");
    Run {
        slice: 7,
        next_slice_at: Some(at(100)),
        lease: Some(Lease { owner, until: at(101) }),
        canary_until: Some(at(102)),
        base: Base { moved: 8, elsewhere: 1, failures: BTreeMap::from([(Reason::ServerError, 2)]) },
        counters: Counters {
            moved: 11,
            skipped: BTreeMap::from([(SkipReason::Held, 1), (SkipReason::NoPayload, 2)]),
            deleted: BTreeMap::from([(DeleteWhy::Moved, 9), (DeleteWhy::Older, 1)]),
            left: BTreeMap::from([(LeaveWhy::Unselected, 4), (LeaveWhy::BrokerMoved, 1)]),
            scan_receives: 20_000,
        },
        swept: true,
        last_error: Some("ledger: throttled".into()),
        ..stopped
    }
}

pub(crate) async fn runs_are_versioned(world: &impl World) {
    let control = world.control();
    assert_eq!((control.runs().await.unwrap(), control.run(&name("run_a")).await.unwrap()), (Vec::new(), None));
    let first = run("run_a");
    assert_eq!(control.put_run(&first.next(), 1).await.unwrap(), Stored::Conflict, "nothing to replace");
    assert_eq!(control.put_run(&first, 0).await.unwrap(), Stored::Done);
    assert_eq!(control.put_run(&first, 0).await.unwrap(), Stored::Done, "this very write again");
    let rival = Run { slice: 9, ..run("run_a") };
    assert_eq!(control.put_run(&rival, 0).await.unwrap(), Stored::Conflict, "it exists");
    // A slice and an operator write the same version: one of them is told.
    let (slice, abort) = (first.next(), first.abort("ann", "wrong receiver", at(75)).expect("aborted"));
    assert_eq!(control.put_run(&abort, first.version).await.unwrap(), Stored::Done);
    assert_eq!(control.put_run(&slice, first.version).await.unwrap(), Stored::Conflict);
    assert_eq!(control.run(&first.id).await.unwrap(), Some(abort.clone()));
    assert_eq!(control.put_run(&abort, first.version).await.unwrap(), Stored::Done, "its answer may have been lost");
    assert_eq!(control.put_run(&run("run_b"), 0).await.unwrap(), Stored::Done);
    assert_eq!(control.runs().await.unwrap(), [abort, run("run_b")]);
    assert_eq!(control.destinations().await.unwrap(), [], "a run is no destination");
}

pub(crate) async fn a_run_with_every_field_round_trips(world: &impl World) {
    let control = world.control();
    let full = full("run_20261201-090000-7f3a");
    control.put_run(&full, 0).await.unwrap();
    assert_eq!(control.run(&full.id).await.unwrap(), Some(full.clone()));
    assert_eq!(control.runs().await.unwrap(), [full]);
}

pub(crate) async fn one_of_two_slices_has_the_lease(world: &impl World) {
    let control = world.control();
    let first = run("run_a");
    control.put_run(&first, 0).await.unwrap();
    let claimed =
        |owner: &str| Run { lease: Some(Lease { owner: Owner::new(owner).expect("an owner"), until: at(200) }), ..first.next() };
    let (a, b) = (claimed("a"), claimed("b"));
    let (one, other) = futures::join!(control.put_run(&a, 1), control.put_run(&b, 1));
    let won = [one.unwrap(), other.unwrap()].map(|stored| stored == Stored::Done);
    assert!(won[0] != won[1], "one of them: {won:?}");
    let winner = if won[0] { a } else { b };
    assert_eq!(control.run(&first.id).await.unwrap(), Some(winner));
}

pub(crate) async fn a_freeze_is_kept_until_it_is_lifted(world: &impl World) {
    let control = world.control();
    assert_eq!(control.freeze().await.unwrap(), None);
    control.put_freeze(None).await.unwrap();
    let freeze = |why: &str| Change { at: at(0), by: "ann".into(), why: why.into() };
    for why in ["an incident", "another \"incident\""] {
        control.put_freeze(Some(&freeze(why))).await.unwrap();
        assert_eq!(control.freeze().await.unwrap(), Some(freeze(why)));
    }
    // The stage's switches are apart.
    world.set_retry_mode(RetryMode::DeadLetter).await;
    assert_eq!(control.lookup(&[]).await.unwrap().1.retry_mode, RetryMode::DeadLetter);
    assert!(control.freeze().await.unwrap().is_some());
    control.put_freeze(None).await.unwrap();
    assert_eq!(control.freeze().await.unwrap(), None);
    assert_eq!(control.lookup(&[]).await.unwrap().1.retry_mode, RetryMode::DeadLetter);
}
