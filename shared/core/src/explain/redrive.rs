//! I say what a redrive would make of a dead or expired row, and what of it would be consumed.

use std::time::Duration;

use crate::clock::Now;
use crate::delivery::Delivery;
use crate::destination::Destination;
use crate::redrive::run::ATTEMPTS;
use crate::redrive::{ForRow, Move, Offer, SkipReason, for_offer};
use crate::retry::last_safe_start;

/// The answer for one row.
pub(super) struct Redrive {
    /// In one or two sentences.
    pub(super) text: String,
    /// What an operator may do, if a redrive moves it.
    pub(super) actions: Vec<&'static str>,
}

/// Of a row that is neither dead nor expired there is nothing to say. `margin` is the stage's.
pub(super) fn of(
    row: &Delivery,
    has_payload: bool,
    destination: Option<&Destination>,
    margin: Duration,
    now: Now,
) -> Option<Redrive> {
    let name = &row.destination;
    let offer = Offer { attempts: ATTEMPTS, deliver_by: None };
    let leaves = |text: String| Redrive { text, actions: Vec::new() };
    Some(match for_offer(row, offer, destination, has_payload, now, margin) {
        ForRow::Move(Move { grant, start_by, .. }) => {
            let policy = destination.map_or(0, |d| d.spec.retry.attempts);
            let allowed = policy.saturating_add(row.granted).saturating_add(grant);
            let letter = if row.owes_dead_letter() { "; its dead letter is not sent yet" } else { "" };
            Redrive {
                text: format!(
                    "A redrive ends death {} and deletes its dead letter{letter}; attempt {} of {allowed} comes next ({grant} \
                     granted unless said otherwise), by {start_by} at the latest.",
                    row.death,
                    row.next_attempt()
                ),
                actions: vec!["redrive", "requeue"],
            }
        }
        ForRow::Skip(SkipReason::DeadlineUnreachable) => {
            let last = last_safe_start(row.deliver_by, destination.map_or(margin, |d| d.margin(margin)));
            let waits = if row.next_attempt_at > last && !now.may_have_reached(last) {
                format!("it may not be called before {}", row.next_attempt_at)
            } else {
                format!("its last safe start {last} has passed")
            };
            Redrive {
                text: format!("A redrive takes it with a new deadline only: {waits}."),
                actions: vec!["redrive with a new deadline", "requeue with a new deadline"],
            }
        }
        ForRow::Skip(SkipReason::Held) => leaves("A redrive leaves it while it is held.".to_owned()),
        ForRow::Skip(SkipReason::UnknownDestination) => {
            leaves(format!("A redrive leaves it until its destination {name} is registered."))
        }
        ForRow::Skip(SkipReason::DestinationPaused) => {
            leaves(format!("A redrive leaves it until its destination {name} is resumed."))
        }
        ForRow::Skip(SkipReason::NoPayload) => leaves("No redrive takes it: what it sends is missing or was erased.".to_owned()),
        ForRow::Skip(SkipReason::Changed | SkipReason::AlreadyMoved) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Whither, explain, text};
    use super::*;
    use crate::delivery::{Hold, NewDelivery, Payload};
    use crate::destination::{Change, Pause};
    use crate::history::HistoryEntry;
    use crate::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference};
    use crate::reason::Reason;
    use crate::state::State;
    use crate::time::Timestamp;

    const MARGIN: Duration = Duration::from_secs(60);

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + minute * 60_000)
    }

    fn dead() -> Delivery {
        let id = DeliveryId::new("dlv_x").expect("an id");
        let by = Correlation::new("7f3a").expect("a token");
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new("c-1").expect("a reference"),
            destination: DestinationId::new("crm").expect("a destination"),
            shard: 0,
            content: Content::new("abc").expect("a hash"),
            deliver_after: at(0),
            deliver_by: at(60),
            id,
        };
        let mut row = Delivery::new(new, at(-5), by.clone());
        (row.state, row.reason, row.wake_at) = (State::Dead, Some(Reason::Rejected), None);
        (row.death, row.dlq_sent, row.granted) = (2, 2, 3);
        let (state, reason) = (State::Dead, Some(Reason::Rejected));
        row.history.push(HistoryEntry { at: at(20), state, attempt: None, reason, by });
        row.redrives.push("run_a death#1 +3 by ann".parse().expect("a redrive"));
        row
    }

    fn destination() -> Destination {
        let spec = r#"{"id":"crm","url":"https://hooks.example.com/r","secrets":["punctual/prod/crm"]}"#;
        let changed = Change { at: at(0), by: "op".into(), why: "new".into() };
        Destination { spec: serde_json::from_str(spec).expect("a spec"), version: 1, paused: None, changed }
    }

    fn payload() -> Payload {
        let part = || "x".to_owned();
        let parts = IdentityParts { tenant: part(), subscriber: part(), renewal_period: part(), reminder_kind: part() };
        Payload { body: b"{}".to_vec(), parts, deliver_after: at(0), deliver_by: at(60) }
    }

    fn told(
        row: &Delivery,
        destination: Option<&Destination>,
        payload: Option<&Payload>,
        minute: i64,
    ) -> (Option<String>, String) {
        let whither = Whither { destination, ..Whither::default() };
        let explained = explain(row, payload, whither, MARGIN, Now::exactly(at(minute)));
        (explained.redrive.clone(), explained.allowed.join(", "))
    }

    #[test]
    fn a_dead_row_says_what_a_redrive_would_consume_or_why_it_is_left() {
        let (d, p) = (destination(), payload());
        let paused = Pause { since: at(1), by: "ann".into(), why: "review".into() };
        let paused = Destination { paused: Some(paused), ..destination() };
        let held = Delivery { hold: Some(Hold { since: at(1), by: "ann".into(), why: "asked".into() }), ..dead() };
        let waits = Delivery { next_attempt_at: at(70), ..dead() };
        let owes = Delivery { dlq_sent: 1, ..dead() };
        let moves = "A redrive ends death 2 and deletes its dead letter; attempt 1 of 16 comes next (3 granted unless said \
                     otherwise), by 2026-12-01T09:59:00.000Z at the latest.";
        let late = "A redrive takes it with a new deadline only: its last safe start 2026-12-01T09:59:00.000Z has passed.";
        let wish = "A redrive takes it with a new deadline only: it may not be called before 2026-12-01T10:10:00.000Z.";
        let with_deadline = "hold, cancel, redrive with a new deadline, requeue with a new deadline";
        let owed = moves.replace("letter;", "letter; its dead letter is not sent yet;");
        for (row, destination, payload, minute, sentence, allowed) in [
            (&dead(), Some(&d), Some(&p), 30, moves, "hold, cancel, redrive, requeue"),
            (&owes, Some(&d), Some(&p), 30, owed.as_str(), "hold, cancel, redrive, requeue"),
            (&dead(), Some(&d), Some(&p), 60, late, with_deadline),
            (&waits, Some(&d), Some(&p), 30, wish, with_deadline),
            (&held, Some(&d), Some(&p), 30, "A redrive leaves it while it is held.", "release, cancel"),
            (
                &dead(),
                None,
                Some(&p),
                30,
                "A redrive leaves it until its destination crm is registered.",
                "hold, cancel, put_destination: register its destination",
            ),
            (
                &dead(),
                Some(&paused),
                Some(&p),
                30,
                "A redrive leaves it until its destination crm is resumed.",
                "hold, cancel, resume: its destination",
            ),
            (&dead(), Some(&d), None, 30, "No redrive takes it: what it sends is missing or was erased.", "hold, cancel"),
        ] {
            assert_eq!(told(row, destination, payload, minute), (Some(sentence.to_owned()), allowed.to_owned()));
        }
        for state in State::ALL.into_iter().filter(|state| !state.needs_operator()) {
            let row = Delivery { state, ..dead() };
            let (sentence, allowed) = told(&row, Some(&d), Some(&p), 30);
            assert!(sentence.is_none() && !allowed.contains("redrive"), "{state}: {allowed}");
        }
    }

    #[test]
    fn a_person_reads_what_was_redriven_and_what_would_be() {
        let whither = Whither::default();
        let text = text(&explain(&dead(), None, whither, MARGIN, Now::exactly(at(30))));
        let shown: Vec<&str> = text.lines().filter(|line| line.contains("redriv")).collect();
        assert_eq!(
            shown,
            [
                "redriven        run_a death#1 +3 by ann",
                "redrive         A redrive leaves it until its destination crm is registered."
            ]
        );
    }
}
