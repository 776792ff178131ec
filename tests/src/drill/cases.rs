//! I am the list of drills: where each one strikes, and what must have become of its delivery.

use punctual_core::state::State;
use punctual_flows::fault::Point;

/// What happens to a delivery on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blow {
    /// A dispatch run is killed at this point.
    Dispatch(Point),
    /// The invocation of schedule that stored it is killed at this point, while it releases.
    Schedule(Point),
    /// A deliver invocation is killed at this point.
    Deliver(Point),
    /// The deliver worker is killed from outside while the receiver, which has processed the call, takes its time.
    WorkerInMidCall,
    /// Its message is gone from the queue.
    MessageLost,
    /// Its message is in the queue three times.
    MessageTripled,
}

/// What has to end before anybody may act again. The queue's visibility is the other end, whichever is sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Nothing: the message is there, or the next run acts.
    Now,
    /// The lease that the row was left under.
    LeaseEnds,
    /// The time after which a message that nobody took counts as lost.
    MessageOverdue,
}

/// One drill.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// Its destination, and its part of the receiver's path.
    pub(super) id: &'static str,
    /// For the table.
    pub(super) what: &'static str,
    /// What happens.
    pub(super) blow: Blow,
    /// What must end first.
    pub(super) until: Until,
    /// Calls at the receiver.
    pub(super) calls: usize,
    /// How it ends.
    pub(super) ends: State,
    /// Reason codes of the attempts.
    pub(super) attempts: &'static [&'static str],
    /// The history without its `queued` lines: a mark may lose its race against deliver at any time.
    pub(super) history: &'static [&'static str],
    /// Dead letters sent, repetitions included.
    pub(super) letters: usize,
}

impl Case {
    /// Effects at the receiver.
    pub(super) fn effects(&self) -> usize {
        usize::from(self.ends == State::Delivered)
    }

    /// The receiver's behaviour.
    pub(super) fn path(&self) -> String {
        let behaviour = if self.ends == State::Dead { "rejecting" } else { "healthy" };
        format!("{behaviour}/{}", self.id)
    }
}

const STRAIGHT: &[&str] = &["scheduled", "dispatching", "delivering#1", "delivered#1 accepted"];
const LEASE_ENDED: &[&str] = &["scheduled", "dispatching", "dispatching lease_ended", "delivering#1", "delivered#1 accepted"];
const OVERDUE: &[&str] = &["scheduled", "dispatching", "dispatching message_overdue", "delivering#1", "delivered#1 accepted"];
const UNKNOWN: &[&str] = &[
    "scheduled",
    "dispatching",
    "delivering#1",
    "scheduled#1 outcome_unknown",
    "dispatching",
    "delivering#2",
    "delivered#2 accepted",
];
const BURIED: &[&str] = &["scheduled", "dispatching", "delivering#1", "dead#1 rejected", "dead dead_letter_sent"];

/// A drill after which the first attempt succeeds, as if nothing had happened.
const fn case(id: &'static str, what: &'static str, blow: Blow) -> Case {
    Case {
        id,
        what,
        blow,
        until: Until::Now,
        calls: 1,
        ends: State::Delivered,
        attempts: &["accepted"],
        history: STRAIGHT,
        letters: 0,
    }
}

/// A drill whose first attempt has no recorded outcome.
const fn unknown(id: &'static str, what: &'static str, blow: Blow, calls: usize) -> Case {
    let attempts = &["outcome_unknown", "accepted"];
    Case { until: Until::LeaseEnds, calls, attempts, history: UNKNOWN, ..case(id, what, blow) }
}

/// A drill at a receiver that rejects.
const fn rejected(id: &'static str, what: &'static str, blow: Blow, letters: usize) -> Case {
    Case { ends: State::Dead, attempts: &["rejected"], history: BURIED, letters, ..case(id, what, blow) }
}

/// Drills of the way into the queue. None of them kills deliver.
pub(super) const INTO_THE_QUEUE: [Case; 7] = [
    Case {
        until: Until::LeaseEnds,
        history: LEASE_ENDED,
        ..case("dispatch-claimed", "dispatch killed after its claim, before the message", Blow::Dispatch(Point::Claimed))
    },
    Case {
        until: Until::LeaseEnds,
        history: LEASE_ENDED,
        ..case("schedule-claimed", "schedule killed after its claim, before the message", Blow::Schedule(Point::Claimed))
    },
    case("dispatch-published", "dispatch killed after the message, before the mark", Blow::Dispatch(Point::Published)),
    case("dispatch-marked", "dispatch killed after the mark", Blow::Dispatch(Point::Marked)),
    case("dispatch-unclaimed", "dispatch killed before its claim", Blow::Dispatch(Point::BeforeClaim)),
    case("message-tripled", "the message is in the queue three times", Blow::MessageTripled),
    Case { until: Until::MessageOverdue, history: OVERDUE, ..case("message-lost", "the message is lost", Blow::MessageLost) },
];

/// Drills of the way out of the queue, those that are left under the longest lease first: the emulator ends all deliver
/// environments when one of them dies, so no delivery may come back while another is still to be struck.
pub(super) const OUT_OF_THE_QUEUE: [Case; 7] = [
    unknown("deliver-claimed", "deliver killed after its claim, before the call", Blow::Deliver(Point::Delivering), 1),
    unknown("deliver-called", "deliver killed after the call, before the record", Blow::Deliver(Point::Called), 2),
    unknown("deliver-in-call", "deliver's worker killed from outside in mid-call", Blow::WorkerInMidCall, 2),
    case("deliver-recorded", "deliver killed after the record, before the acknowledgement", Blow::Deliver(Point::Recorded)),
    rejected("dead-unsent", "deliver killed after the dead write, before the dead letter", Blow::Deliver(Point::BeforeLetter), 1),
    rejected("dead-unmarked", "deliver killed after the dead letter, before its mark", Blow::Deliver(Point::AfterLetter), 2),
    Case {
        until: Until::MessageOverdue,
        history: OVERDUE,
        ..case("deliver-unclaimed", "deliver killed before its claim", Blow::Deliver(Point::Received))
    },
];
