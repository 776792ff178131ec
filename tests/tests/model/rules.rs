//! I am what must hold in every state, and what must happen in some, so that the rest is not vacuous.

use punctual_core::state::State;
use stateright::Property;

use crate::Protocol;
use crate::bounds::{ASKED, MOVED, REDRIVEN_BY, Scope};
use crate::protocol::{CALL, Knows, Question, Reply, ask};
use crate::row::{Closed, RUNS};
use crate::steps::{budget, comes_to_an_end, is_settled};
use crate::world::{Consumer, Fault, Slice, World};

type Rule = (&'static str, fn(&World) -> bool);

/// In every state.
pub const ALWAYS: &[Rule] = &[
    ("no call starts before it is due", |w| !w.has_fault(Fault::Early)),
    ("no attempt is opened before it is due", |w| !w.has_fault(Fault::OpenedEarly)),
    ("no call starts after the last safe start", |w| !w.has_fault(Fault::TooLate)),
    ("no call starts after an acknowledged cancel", |w| !w.has_fault(Fault::AfterCancel)),
    ("no attempt number is called twice", |w| !w.has_fault(Fault::NumberReused)),
    ("a call ends within its lease", |w| !w.has_fault(Fault::CallOutlivesLease)),
    ("nobody moves a row under another's deliver lease", |w| !w.has_fault(Fault::DeliverLeaseBroken)),
    ("nobody claims a row under another's dispatch lease", |w| !w.has_fault(Fault::DispatchLeaseBroken)),
    ("a terminal row never changes", |w| !w.has_fault(Fault::TerminalChanged)),
    ("two calls are never under way at once", |w| {
        w.consumers.iter().filter(|c| matches!(c, Consumer::Calling { since, .. } if w.now < since + CALL)).count() <= 1
    }),
    ("two deliver leases are never live at once", |w| {
        let live = |c: &&Consumer| match c {
            Consumer::Claimed(row) | Consumer::Calling { row, .. } => row.lease.is_some_and(|end| end > w.now),
            _ => false,
        };
        w.consumers.iter().filter(live).count() <= 1
    }),
    ("identity and key never change", |w| w.row.intact),
    ("attempts stay within the budget", |w| w.row.closed() <= budget(&w.row) && !w.has_fault(Fault::OverBudget)),
    ("a recorded success is never dropped", |w| {
        let honoured = match w.row.state {
            State::Delivered | State::Cancelled => true,
            State::Delivering => w.row.late.is_some(),
            _ => false,
        };
        !w.success_recorded || (honoured && w.row.has(Closed::Accepted))
    }),
    ("no letter is marked that was not sent", |w| {
        let sent = w.row.sent == 0 || w.row.state.is_terminal() || w.letters & (1 << w.row.sent) != 0;
        w.row.sent <= w.row.death && sent
    }),
    ("every call that was started is in the row, or its attempt is still open", |w| {
        let open = w.row.state == State::Delivering;
        let known = 1 << (w.row.closed() + usize::from(open));
        !w.nobody_runs() || w.calls & !known == 0
    }),
    ("a recorded outcome is never overwritten", |w| !w.has_fault(Fault::AttemptForgotten)),
    ("the wake index has a row exactly until it is settled", |w| !w.nobody_runs() || w.row.wake.is_none() == is_settled(&w.row)),
    ("every row comes to its end once nothing fails any more", |w| !w.nobody_runs() || comes_to_an_end(w)),
    ("a death is counted once, and none is forgotten", |w| !w.has_fault(Fault::DeathForgotten)),
    ("a run moves a row at most once, and grants what it says", |w| {
        w.row.moves.iter().all(|n| *n <= 1) && w.row.granted == moves(w) * w.row.scope.bounds().granted
    }),
    ("no letter of a death that is not over is deleted", |w| {
        let lies = w.there & (1 << w.row.death) != 0;
        let told = w.row.state.needs_operator() && w.row.sent == w.row.death;
        !w.has_fault(Fault::LetterOfThePresentDeleted) && (lies || !told)
    }),
    ("what is dead can be moved while its deadline can be kept, letter or not", |w| {
        let due = w.row.next.max(w.row.after).max(w.now);
        let dead = w.row.state.needs_operator() && due < w.row.by.max(REDRIVEN_BY);
        let now = Knows { lo: w.now, hi: w.now };
        let moved = |run| matches!(ask(Question::Redrive(run), &w.row, now), Reply::Write(_));
        !dead || (0..w.row.scope.bounds().runs).all(|run| moved(run) == (w.row.moves[usize::from(run)] == 0))
    }),
];

/// In some state, whatever is explored.
pub const SOMETIMES: &[Rule] = &[
    ("delivered", |w| w.row.state == State::Delivered),
    ("dead, and its letter marked", |w| w.row.state == State::Dead && w.row.sent == w.row.death),
    ("expired", |w| w.row.state == State::Expired),
    ("cancelled, acknowledged", |w| w.row.state == State::Cancelled && w.cancel_acknowledged),
    ("a second death", |w| w.row.death == 2),
    ("rescued", |w| w.row.state == State::Dispatching && w.row.rescues > 0),
    ("closed as unknown", |w| w.row.has(Closed::Unknown)),
    ("a late success under another lease", |w| w.row.state == State::Delivering && w.row.late.is_some()),
    ("a late success after death", |w| w.row.state == State::Delivered && w.row.death > 0),
    ("an effect after a cancel", |w| w.row.state == State::Cancelled && w.row.has(Closed::Accepted)),
    ("a lost fence", |w| w.consumers.iter().any(|c| matches!(c, Consumer::Late { .. }))),
    ("a write whose answer was lost", |w| {
        w.consumers.iter().any(|c| matches!(c, Consumer::Recording { write, .. } if write.written))
    }),
    ("delivered at the second attempt", |w| w.row.state == State::Delivered && w.row.attempts[1] == Some(Closed::Accepted)),
];

/// In some state of a reminder that is rescheduled.
const RESCHEDULED: &[Rule] = &[
    ("moved forwards, then delivered", |w| {
        w.row.state == State::Delivered && w.reschedule_acknowledged && w.row.after == MOVED.0
    }),
    // Forwards comes first: the first move that is acknowledged is one.
    ("moved forwards and back, then delivered", |w| {
        w.row.state == State::Delivered && w.reschedule_acknowledged && w.row.after == ASKED.0
    }),
    ("moved after a death, then delivered", |w| w.row.state == State::Delivered && w.reschedule_acknowledged && w.row.death > 0),
];

/// In some state of one that is redriven.
const REDRIVEN: &[Rule] = &[
    ("dead again, of both runs, and its letter marked", |w| moves(w) == 2 && w.row.sent == 3),
    ("delivered after two redrives", |w| moves(w) == 2 && w.row.attempts[2] == Some(Closed::Accepted)),
    ("redriven before its letter was marked", |w| moves(w) == 1 && w.row.sent == 0 && w.row.death == 1),
    ("redriven to a new deadline, delivered in it", |w| {
        w.row.by != ASKED.1 && w.row.state == State::Delivered && !w.row.has(Closed::Unknown)
    }),
    ("redriven and its letter deleted", |w| moves(w) == 1 && w.row.sent == 1 && w.row.death == 1 && w.there == 0),
    ("two slices of one run about to move the row", |w| moving(w, |first, second| first == second)),
    ("slices of two runs about to move the row", |w| moving(w, |first, second| first != second)),
    ("a letter about to be deleted, its row alive", |w| {
        !w.row.state.needs_operator() && w.slices.iter().any(|s| matches!(s, Slice::Deleting(_)))
    }),
];

fn moves(w: &World) -> u8 {
    w.row.moves.iter().sum()
}

/// Both slices are about to move the row, for runs that are so related.
fn moving(w: &World, related: fn([u8; RUNS], [u8; RUNS]) -> bool) -> bool {
    matches!(w.slices, [Slice::Moving(first), Slice::Moving(second)] if related(first.after.moves, second.after.moves))
}

macro_rules! properties {
    ($($list:ident[$($i:literal),+] $kind:ident)+) => {
        vec![$($(Property::$kind($list[$i].0, |_: &Protocol, w| ($list[$i].1)(w)),)+)+]
    };
}

pub fn properties(scope: Scope) -> Vec<Property<Protocol>> {
    let mut all = properties![
        ALWAYS[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22] always
        SOMETIMES[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] sometimes
    ];
    let (own, own_rules) = match scope {
        Scope::Reminder => (properties![RESCHEDULED[0, 1, 2] sometimes], RESCHEDULED),
        Scope::Redrive => (properties![REDRIVEN[0, 1, 2, 3, 4, 5, 6, 7] sometimes], REDRIVEN),
    };
    all.extend(own);
    assert_eq!(all.len(), ALWAYS.len() + SOMETIMES.len() + own_rules.len(), "every rule is checked");
    all
}
