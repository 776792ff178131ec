use proptest::prelude::*;

use crate::destination::{Change, Pause};
use crate::outcome::{Failure, classify};
use crate::reason::Reason;
use crate::time::Timestamp;

use super::*;

fn destination(rejected: u32, of_last: u32) -> Destination {
    let spec = serde_json::json!({
        "id": "acme", "url": "https://hooks.example.com/r", "secrets": ["punctual/prod/acme"],
        "pause_after": {"rejected": rejected, "of_last": of_last},
    });
    let changed = Change { at: Timestamp::from_millis(0), by: "ops".into(), why: "new".into() };
    Destination { spec: serde_json::from_value(spec).expect("a spec"), version: 3, paused: None, changed }
}

fn by() -> Correlation {
    Correlation::of_request("c7ce577f")
}

fn seen(rejected: bool) -> Seen {
    Seen { rejected, status: Some(if rejected { 400 } else { 200 }) }
}

proptest! {
    #[test]
    fn pauses_if_and_only_if_k_of_the_last_n_were_rejected(
        k in 1_u32..=64, more in 0_u32..64, batches in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..10), 0..20),
    ) {
        let destination = destination(k, (k + more).min(MOST_RESULTS));
        let n = destination.spec.pause_after.of_last;
        let (mut stored, mut all): (Option<Rejections>, Vec<bool>) = (None, Vec::new());
        for batch in batches {
            let before = stored.clone();
            let results: Vec<Seen> = batch.iter().map(|rejected| seen(*rejected)).collect();
            let noted = Rejections::noted(stored.as_ref(), &destination, &results, &by());
            let in_sight = |all: &[bool]| all.iter().rev().take(n as usize).filter(|rejected| **rejected).count();
            // Nothing is written where nothing can come of it.
            let wanted = !batch.is_empty() && (in_sight(&all) > 0 || batch.contains(&true));
            prop_assert_eq!(noted.is_some(), wanted);
            all.extend(batch);
            if let Some(noted) = noted {
                prop_assert_eq!(noted.version, before.map_or(0, |before| before.version) + 1);
                stored = Some(noted);
            }
            let rejected = in_sight(&all);
            if let Some(stored) = &stored {
                prop_assert_eq!(stored.results.rejected(n) as usize, rejected);
                prop_assert!(stored.results.count() <= n);
                prop_assert_eq!(stored.results.to_string().parse(), Ok(stored.results));
            }
            let pauses = stored.as_ref().and_then(|stored| stored.why_pause(&destination)).is_some();
            prop_assert_eq!(pauses, rejected >= k as usize);
        }
    }
}

#[test]
fn says_what_was_seen() {
    let destination = destination(3, 5);
    let note = |stored: Option<&Rejections>, results: &[Seen]| Rejections::noted(stored, &destination, results, &by());
    let first = note(None, &[seen(true), seen(false), seen(true)]).expect("news");
    assert_eq!((first.version, first.destination_version, first.results.to_string().as_str()), (1, 3, "x.x"));
    assert_eq!(first.why_pause(&destination), None);
    let second = note(Some(&first), &[Seen { rejected: true, status: Some(403) }]).expect("news");
    assert_eq!(second.why_pause(&destination).as_deref(), Some("3 of the last 4 calls were rejected, the last with status 403"));
    // What came before falls out of sight; the last status stays.
    let third = note(Some(&second), &[seen(false), seen(false)]).expect("news");
    assert_eq!((third.results.to_string().as_str(), third.last_status), (".xx..", Some(403)));
}

#[test]
fn another_version_begins_with_nothing() {
    let old = destination(2, 5);
    let stored = Rejections::noted(None, &old, &[seen(true), seen(true)], &by()).expect("news");
    assert!(stored.why_pause(&old).is_some());
    let next = Destination { version: old.version + 1, ..old.clone() };
    assert_eq!(stored.why_pause(&next), None);
    assert_eq!(Rejections::noted(Some(&stored), &next, &[seen(false)], &by()), None);
    let begun = Rejections::noted(Some(&stored), &next, &[seen(true)], &by()).expect("news");
    assert_eq!((begun.version, begun.destination_version, begun.results.to_string().as_str()), (2, 4, "x"));
    // A call that began before the change says nothing about what came of it.
    assert_eq!(Rejections::noted(Some(&begun), &old, &[seen(true)], &by()), None);
}

#[test]
fn counts_what_the_receiver_refused_for_good() {
    let now = crate::clock::Now::exactly(Timestamp::from_millis(0));
    let of = |result: CallResult| {
        let class = classify(&result, &std::collections::BTreeMap::new(), now);
        Seen::of(&result, class).map(|seen| (seen.rejected, seen.status))
    };
    let answered = |status| CallResult::Answered { status, retry_after: None };
    for (status, rejected) in
        [(200, false), (302, true), (400, true), (401, true), (410, true), (422, true), (429, false), (503, false)]
    {
        assert_eq!(of(answered(status)), Some((rejected, Some(status))), "{status}");
    }
    assert_eq!(of(Failure::Timeout.into()), Some((false, None)));
    assert_eq!(of(CallResult::not_called()), None);
    assert_eq!(of(CallResult::NotCalled(Reason::PayloadMissing)), None, "dead, but not by the receiver");
}

#[test]
fn a_change_that_the_receiver_cannot_see_does_not_save_a_destination() {
    let old = destination(2, 5);
    let changed = |change: &dyn Fn(&mut Destination)| {
        let mut next = Destination { version: old.version + 1, ..old.clone() };
        change(&mut next);
        still_stands(&old, &next)
    };
    assert!(changed(&|next| next.spec.rate_per_second = 1));
    assert!(!changed(&|next| next.spec.url.push('2')));
    assert!(!changed(&|next| next.spec.secrets.push("punctual/prod/new".into())));
    assert!(!changed(&|next| next.version += 1), "it may have been paused and resumed");
    let pause = Pause { since: Timestamp::from_millis(0), by: "ops".into(), why: "x".into() };
    assert!(!changed(&|next| next.paused = Some(pause.clone())));
}

#[test]
fn unreadable_results_are_refused() {
    for text in ["y", "x x", &"x".repeat(65)] {
        assert_eq!(text.parse::<Results>(), Err(NoResults), "{text}");
    }
    let full: Results = "x".repeat(64).parse().expect("64");
    assert_eq!((full.count(), full.rejected(64), full.rejected(20), full.rejected(0)), (64, 64, 20, 0));
}
