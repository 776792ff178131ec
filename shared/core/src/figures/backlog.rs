//! I am one destination's part of the wake index in numbers: what is due and waits, what is out and for how long.
//!
//! An entry says when its row is due, until when it was held when it was last written, and its deadline; it is a moment old.
//! Nobody holds an entry without a hold: its row waits in the ledger. One with a hold is *out*: claimed, published, in a call,
//! or waiting in the queue for a retry.

use std::collections::BinaryHeap;
use std::time::Duration;

use crate::admission::Candidate;
use crate::figures::load::{Load, Span};
use crate::figures::stage::SOON;
use crate::id::DeliveryId;
use crate::retry::last_safe_start;
use crate::time::Timestamp;

/// A row that is out is not looked at before it is late by this: messages take a moment.
pub const LOOK_AFTER: Duration = Duration::from_secs(10);
/// A last safe start that is less than this away is near: time enough for a person to resume, release or tell the owner.
pub const NEAR: Duration = Duration::from_secs(1_800);
/// So many of the rows that are out the longest are looked at for one destination.
pub const MOST_LOOKED_AT: usize = 100;

/// A row to be read, since it is late for its call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspect {
    /// Since when it should have been called, as far as the index tells.
    pub since: Timestamp,
    /// Which row.
    pub id: DeliveryId,
}

/// One destination's part of the wake index.
#[derive(Debug, Clone)]
pub struct Backlog {
    span: Span,
    /// Entries noted.
    pub entries: u64,
    /// Due, and nobody holds them.
    pub due: u64,
    /// Since when the oldest of these is due.
    pub due_since: Option<Timestamp>,
    /// How much of the time between due and last safe start has passed, in percent, for the one that has least of it left.
    pub used_percent: u32,
    /// The next last safe start of what is due, held or not.
    pub next_last_start: Option<Timestamp>,
    /// Due or out, or due within [`SOON`], and not past their last safe start: those that a call is wanted for.
    pub wanted: u64,
    /// Whose last safe start is [`NEAR`], due or not, held by an operator or not.
    pub near: u64,
    /// Of these, held by an operator: they sleep until their last safe start.
    pub held_near: u64,
    /// Out, due or not.
    pub out: u64,
    /// Since when the oldest of those that are out should have been called.
    pub out_since: Option<Timestamp>,
    /// So many of those that are out should have been called by more than [`LOOK_AFTER`] ago.
    pub suspects: u64,
    /// What falls due until the span's end.
    pub load: Load,
    /// The oldest suspects; the newest of them is on top.
    oldest: BinaryHeap<Suspect>,
}

impl Backlog {
    /// Nothing yet.
    #[must_use]
    pub fn new(span: Span) -> Self {
        Self {
            span,
            entries: 0,
            due: 0,
            due_since: None,
            used_percent: 0,
            next_last_start: None,
            wanted: 0,
            near: 0,
            held_near: 0,
            out: 0,
            out_since: None,
            suspects: 0,
            load: Load::new(span),
            oldest: BinaryHeap::new(),
        }
    }

    /// Notes an entry.
    pub fn note(&mut self, candidate: &Candidate) {
        self.entries += 1;
        self.load.note(candidate);
        let Span { now, margin, .. } = self.span;
        let last = last_safe_start(candidate.deliver_by, margin);
        let since = candidate.held_until.map_or(candidate.wake_at, |held| held.max(candidate.wake_at));
        let is_due = since <= now;
        self.out += u64::from(candidate.held_until.is_some());
        // A frozen row sleeps until its last safe start: it waits for nobody.
        let asleep = candidate.held_until.is_none() && candidate.wake_at >= last;
        if last >= now {
            let near = last < now.plus(NEAR);
            self.near += u64::from(near);
            self.held_near += u64::from(near && asleep);
            self.wanted += u64::from(!asleep && since < now.plus(SOON));
        }
        if !is_due || asleep {
            return;
        }
        if last >= now {
            earliest(&mut self.next_last_start, last);
        }
        if candidate.held_until.is_none() {
            self.due += 1;
            earliest(&mut self.due_since, candidate.wake_at);
            self.used_percent = self.used_percent.max(percent(now.since(since), last.since(since)));
            return;
        }
        earliest(&mut self.out_since, since);
        if now.since(since) > LOOK_AFTER {
            self.suspects += 1;
            self.oldest.push(Suspect { since, id: candidate.id.clone() });
            if self.oldest.len() > MOST_LOOKED_AT {
                self.oldest.pop();
            }
        }
    }

    /// The rows to read: the oldest first, at most [`MOST_LOOKED_AT`].
    #[must_use]
    pub fn to_look_at(&self) -> Vec<Suspect> {
        self.oldest.clone().into_sorted_vec()
    }
}

fn earliest(first: &mut Option<Timestamp>, at: Timestamp) {
    *first = Some(first.map_or(at, |first| first.min(at)));
}

/// At most 100: what is past its last safe start expires.
fn percent(passed: Duration, of: Duration) -> u32 {
    let share = passed.as_millis().saturating_mul(100) / of.as_millis().max(1);
    u32::try_from(share.min(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 09:00 and so many seconds.
    fn at(s: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
    }

    fn backlog() -> Backlog {
        Backlog::new(Span { now: at(0), until: at(86_400), margin: Duration::from_secs(10) })
    }

    fn entry(n: usize, wake: i64, held: Option<i64>, by: i64) -> Candidate {
        let id = DeliveryId::new(format!("dlv_{n:04}")).expect("an id");
        Candidate { id, wake_at: at(wake), held_until: held.map(at), deliver_by: at(by) }
    }

    #[test]
    fn what_is_due_and_what_is_out() {
        let mut backlog = backlog();
        for (n, (wake, held, by)) in [
            // In the ledger: due, due with little left, not due, frozen, hopeless.
            (-30, None, 3_610),
            (-90, None, 20),
            (60, None, 100),
            (90, None, 100),
            (-50, None, 5),
            // Out: its slot is to come, just due, due for long by its hold, and by its due time.
            (-100, Some(40), 200),
            (0, Some(-20), 200),
            (-100, Some(-60), 210),
            (-45, Some(-70), 300),
        ]
        .into_iter()
        .enumerate()
        {
            backlog.note(&entry(n, wake, held, by));
        }
        assert_eq!((backlog.entries, backlog.due, backlog.out), (9, 3, 4));
        assert_eq!((backlog.due_since, backlog.next_last_start), (Some(at(-90)), Some(at(10))));
        // 90 of 100 seconds; the hopeless one has used all of its time.
        assert_eq!(backlog.used_percent, 100);
        assert_eq!((backlog.out_since, backlog.suspects), (Some(at(-60)), 2));
        let looked_at: Vec<(Timestamp, String)> =
            backlog.to_look_at().into_iter().map(|suspect| (suspect.since, suspect.id.to_string())).collect();
        assert_eq!(looked_at, [(at(-60), "dlv_0007".to_owned()), (at(-45), "dlv_0008".to_owned())]);
    }

    #[test]
    fn what_is_near_its_last_safe_start_and_what_a_call_is_wanted_for() {
        let mut backlog = backlog();
        for (n, (wake, held, by)) in [
            // Held by an operator: near, and not.
            (1_799, None, 1_809),
            (1_800, None, 1_810),
            // Not held: due and near, to come and near, due and not near, due in an hour, out, hopeless.
            (-30, None, 600),
            (900, None, 1_200),
            (-30, None, 3_600),
            (3_600, None, 7_200),
            (-30, Some(20), 7_200),
            (-30, None, 5),
        ]
        .into_iter()
        .enumerate()
        {
            backlog.note(&entry(n, wake, held, by));
        }
        assert_eq!((backlog.near, backlog.held_near, backlog.wanted), (3, 1, 4));
    }

    #[test]
    fn an_empty_one_has_no_ages() {
        let backlog = backlog();
        assert_eq!((backlog.due_since, backlog.out_since, backlog.next_last_start, backlog.used_percent), (None, None, None, 0));
    }

    proptest! {
        /// Whatever the order, the oldest are kept and all are counted.
        #[test]
        fn the_oldest_are_kept(ages in prop::collection::vec(11_i64..5_000, 0..300)) {
            let mut backlog = backlog();
            for (n, age) in ages.iter().enumerate() {
                backlog.note(&entry(n, -age, Some(-age), 3_600));
            }
            let mut sorted = ages.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted.truncate(MOST_LOOKED_AT);
            let kept: Vec<i64> = backlog.to_look_at().iter().map(|suspect| at(0).since(suspect.since).as_secs().cast_signed()).collect();
            prop_assert_eq!(kept, sorted);
            prop_assert_eq!(backlog.suspects, ages.len() as u64);
        }
    }
}
