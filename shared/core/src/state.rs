//! I am the state table: what each state means, and what every event does in it.
//!
//! Every pair (state, event) is decided here, refusals included; a refused pair is a value, not a panic. I do not
//! know leases, times or versions: [`crate::acquire`] and [`crate::transition`] carry those guards.

use std::fmt;
use std::str::FromStr;

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The row is stored and nobody holds it.
    Scheduled,
    /// One dispatch run holds it until its lease ends.
    Dispatching,
    /// The queue accepted its message.
    Queued,
    /// One deliver invocation holds it until its lease ends: a call may be under way.
    Delivering,
    /// An attempt failed; the message waits in the queue for the next one.
    Deferred,
    /// A 2xx is recorded.
    Delivered,
    /// No further attempt will be made; it is in the dead letters, or on its way there.
    Dead,
    /// The deadline passed, or less than the safety margin is left.
    Expired,
    /// An operator or the producer took it back.
    Cancelled,
    /// It was posted to the shadow sink, never to the receiver.
    Shadowed,
}

/// What a state promises, for documents and for `explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateDoc {
    /// What the row shows in this state.
    pub evidence: &'static str,
    /// Who moves it on.
    pub moved_by: &'static str,
    /// What an operator does first.
    pub first_action: &'static str,
}

impl State {
    /// Every state there is.
    pub const ALL: [State; 10] = [
        State::Scheduled,
        State::Dispatching,
        State::Queued,
        State::Delivering,
        State::Deferred,
        State::Delivered,
        State::Dead,
        State::Expired,
        State::Cancelled,
        State::Shadowed,
    ];

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Dispatching => "dispatching",
            State::Queued => "queued",
            State::Delivering => "delivering",
            State::Deferred => "deferred",
            State::Delivered => "delivered",
            State::Dead => "dead",
            State::Expired => "expired",
            State::Cancelled => "cancelled",
            State::Shadowed => "shadowed",
        }
    }

    /// Nothing ever moves a terminal row.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, State::Delivered | State::Cancelled | State::Shadowed)
    }

    /// Dead and expired rows wait for an operator.
    #[must_use]
    pub const fn needs_operator(self) -> bool {
        matches!(self, State::Dead | State::Expired)
    }

    /// What this state promises.
    #[must_use]
    pub const fn doc(self) -> StateDoc {
        let (evidence, moved_by, first_action) = match self {
            State::Scheduled => ("row stored, nobody holds it", "dispatch", "look at `next_attempt_at`"),
            State::Dispatching => ("lease owner and end of one dispatch run", "the same run, or rescue", "wait for `held_until`"),
            State::Queued => {
                ("message id of the accepted message", "deliver, or rescue", "reconcile when older than the handoff threshold")
            }
            State::Delivering => (
                "lease of one deliver invocation, open attempt",
                "the same invocation, a later one or rescue once expired",
                "wait for `lease_until`",
            ),
            State::Deferred => ("attempt recorded, `next_attempt_at` set", "deliver, or rescue", "read the last reason"),
            State::Delivered => ("a 2xx recorded", "nobody: terminal", "none; never a new id"),
            State::Dead => ("reason code; in the dead letters", "operator: requeue, redrive or cancel", "read the reason"),
            State::Expired => (
                "the deadline passed, or less than the safety margin is left",
                "operator, with a new deadline only",
                "treat as a missed promise",
            ),
            State::Cancelled => ("who, when, why", "nobody: terminal", "none"),
            State::Shadowed => ("posted to the shadow sink only", "nobody: terminal", "none"),
        };
        StateDoc { evidence, moved_by, first_action }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown state")]
pub struct UnknownState;

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or(UnknownState)
    }
}

impl serde::Serialize for State {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for State {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not a state, like scheduled or dead"))
    }
}

/// What can happen to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A dispatch run takes a due row.
    DispatchClaim,
    /// A dispatch run takes back a row whose message is overdue.
    Rescue,
    /// The queue accepted the message.
    Queued,
    /// The row goes back to the ledger: not published, held, paused, or its next try is far away.
    ReturnToLedger,
    /// A deliver invocation takes the row for one attempt.
    DeliverClaim,
    /// The attempt's answer was a 2xx.
    Accepted,
    /// The attempt went to the shadow sink.
    Shadow,
    /// The attempt failed, or its lease ended, and another one will follow.
    Defer,
    /// No further attempt will be made.
    Die,
    /// The deadline can no longer be met.
    Expire,
    /// A 2xx came in after its attempt's lease had ended.
    LateSuccess,
    /// The dead-letter message was sent.
    DeadLetterSent,
    /// An operator freezes the row.
    Hold,
    /// An operator releases the frozen row.
    Unhold,
    /// It is taken back.
    Cancel,
    /// It gets other instants.
    Reschedule,
    /// An operator returns dead work to the ledger.
    Requeue,
    /// A redrive run returns dead work to the ledger; the ordinary path takes it from there.
    Redrive,
}

impl Event {
    /// Every event there is.
    pub const ALL: [Event; 18] = [
        Event::DispatchClaim,
        Event::Rescue,
        Event::Queued,
        Event::ReturnToLedger,
        Event::DeliverClaim,
        Event::Accepted,
        Event::Shadow,
        Event::Defer,
        Event::Die,
        Event::Expire,
        Event::LateSuccess,
        Event::DeadLetterSent,
        Event::Hold,
        Event::Unhold,
        Event::Cancel,
        Event::Reschedule,
        Event::Requeue,
        Event::Redrive,
    ];
}

/// Why an event does nothing in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The row is terminal.
    #[error("the delivery is in a terminal state")]
    Terminal,
    /// A deliver lease stands in the way.
    #[error("an attempt is in flight")]
    InFlight,
    /// The row waits for an operator.
    #[error("the delivery is dead or expired: an operator decides")]
    NeedsOperator,
    /// The row is in the ledger: the message that asks is stale.
    #[error("the delivery is in the ledger: the message is stale")]
    Stale,
    /// The queue already has it.
    #[error("the queue already has its message")]
    AlreadyQueued,
    /// Whoever asks does not hold the row (any more).
    #[error("the lease that this event needs is not held")]
    LeaseNotHeld,
    /// The event makes sense for dead or expired rows only.
    #[error("the delivery is neither dead nor expired")]
    NotDead,
    /// The redrive run moved it already: a later death belongs to a later run.
    #[error("this run moved the delivery already")]
    AlreadyMoved,
}

/// What an event does in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The row moves.
    Move(State),
    /// The row keeps its state; other fields may change.
    Stay,
    /// Nothing changes.
    Refuse(Refusal),
}

/// The table itself.
#[must_use]
pub const fn verdict(state: State, event: Event) -> Verdict {
    use Event as E;
    use Refusal as R;
    use State as S;
    use Verdict::{Move, Refuse, Stay};

    match (event, state) {
        (E::DispatchClaim, S::Scheduled | S::Dispatching) => Move(S::Dispatching),
        (E::DispatchClaim, S::Queued | S::Deferred) => Refuse(R::AlreadyQueued),
        (E::Rescue, S::Queued | S::Deferred) => Move(S::Dispatching),
        (E::Rescue, S::Scheduled | S::Dispatching) => Refuse(R::Stale),
        (E::DispatchClaim | E::Rescue, S::Delivering) => Refuse(R::InFlight),
        (E::DispatchClaim | E::Rescue, S::Dead | S::Expired) => Refuse(R::NeedsOperator),

        (E::Queued, S::Dispatching) => Move(S::Queued),
        (E::Queued, S::Scheduled | S::Queued | S::Delivering | S::Deferred | S::Dead | S::Expired) => Refuse(R::LeaseNotHeld),

        (E::ReturnToLedger, S::Dispatching | S::Queued | S::Delivering | S::Deferred) => Move(S::Scheduled),
        (E::ReturnToLedger, S::Scheduled) => Refuse(R::Stale),
        (E::ReturnToLedger, S::Dead | S::Expired) => Refuse(R::NeedsOperator),

        (E::DeliverClaim, S::Dispatching | S::Queued | S::Deferred) => Move(S::Delivering),
        (E::DeliverClaim, S::Scheduled) => Refuse(R::Stale),
        (E::DeliverClaim, S::Delivering) => Refuse(R::InFlight),
        (E::DeliverClaim, S::Dead | S::Expired) => Refuse(R::NeedsOperator),

        (E::Accepted, S::Delivering) => Move(S::Delivered),
        (E::Shadow, S::Delivering) => Move(S::Shadowed),
        (E::Defer, S::Delivering) => Move(S::Deferred),
        (E::Accepted | E::Shadow | E::Defer, S::Scheduled | S::Dispatching | S::Queued | S::Deferred | S::Dead | S::Expired) => {
            Refuse(R::LeaseNotHeld)
        }

        (E::Die, S::Dispatching | S::Queued | S::Delivering | S::Deferred) => Move(S::Dead),
        (E::Die, S::Scheduled) => Move(S::Dead),
        (E::Expire, S::Scheduled | S::Dispatching | S::Queued | S::Delivering | S::Deferred) => Move(S::Expired),
        (E::Die | E::Expire, S::Dead | S::Expired) => Refuse(R::NeedsOperator),

        (E::LateSuccess, S::Scheduled | S::Dispatching | S::Queued | S::Deferred | S::Dead | S::Expired) => Move(S::Delivered),
        (E::LateSuccess, S::Delivering | S::Cancelled | S::Delivered | S::Shadowed) => Stay,

        (E::DeadLetterSent, S::Dead | S::Expired) => Stay,
        (E::DeadLetterSent, S::Scheduled | S::Dispatching | S::Queued | S::Delivering | S::Deferred) => Refuse(R::NotDead),

        (E::Hold | E::Unhold, S::Scheduled | S::Dispatching | S::Queued | S::Delivering | S::Deferred | S::Dead | S::Expired) => {
            Stay
        }

        (E::Cancel, S::Scheduled | S::Dispatching | S::Queued | S::Deferred | S::Dead | S::Expired) => Move(S::Cancelled),
        (E::Reschedule, S::Scheduled | S::Dispatching | S::Queued | S::Deferred | S::Dead | S::Expired) => Move(S::Scheduled),
        (E::Cancel | E::Reschedule, S::Delivering) => Refuse(R::InFlight),

        (E::Requeue | E::Redrive, S::Dead | S::Expired) => Move(S::Scheduled),
        (E::Requeue | E::Redrive, S::Scheduled | S::Dispatching | S::Queued | S::Delivering | S::Deferred) => Refuse(R::NotDead),

        (_, S::Delivered | S::Cancelled | S::Shadowed) => Refuse(R::Terminal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table, so that a change of any pair shows in review.
    #[test]
    fn the_table() {
        let mut table = String::new();
        for event in Event::ALL {
            table.push_str(&format!("{event:?}:"));
            for state in State::ALL {
                let cell = match verdict(state, event) {
                    Verdict::Move(to) => format!(" {state}>{to}"),
                    Verdict::Stay => format!(" {state}="),
                    Verdict::Refuse(_) => continue,
                };
                table.push_str(&cell);
            }
            table.push('\n');
        }
        let expected = "\
DispatchClaim: scheduled>dispatching dispatching>dispatching
Rescue: queued>dispatching deferred>dispatching
Queued: dispatching>queued
ReturnToLedger: dispatching>scheduled queued>scheduled delivering>scheduled deferred>scheduled
DeliverClaim: dispatching>delivering queued>delivering deferred>delivering
Accepted: delivering>delivered
Shadow: delivering>shadowed
Defer: delivering>deferred
Die: scheduled>dead dispatching>dead queued>dead delivering>dead deferred>dead
Expire: scheduled>expired dispatching>expired queued>expired delivering>expired deferred>expired
LateSuccess: scheduled>delivered dispatching>delivered queued>delivered delivering= deferred>delivered delivered= dead>delivered expired>delivered cancelled= shadowed=
DeadLetterSent: dead= expired=
Hold: scheduled= dispatching= queued= delivering= deferred= dead= expired=
Unhold: scheduled= dispatching= queued= delivering= deferred= dead= expired=
Cancel: scheduled>cancelled dispatching>cancelled queued>cancelled deferred>cancelled dead>cancelled expired>cancelled
Reschedule: scheduled>scheduled dispatching>scheduled queued>scheduled deferred>scheduled dead>scheduled expired>scheduled
Requeue: dead>scheduled expired>scheduled
Redrive: dead>scheduled expired>scheduled
";
        assert_eq!(table, expected);
    }

    #[test]
    fn nothing_moves_a_terminal_row() {
        for state in State::ALL.into_iter().filter(|s| s.is_terminal()) {
            for event in Event::ALL {
                assert!(!matches!(verdict(state, event), Verdict::Move(_)), "{state} {event:?}");
            }
        }
    }
}
