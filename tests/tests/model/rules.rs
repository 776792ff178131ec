//! I am what must hold in every state, and what must happen in some, so that the rest is not vacuous.

use punctual_core::state::State;
use stateright::Property;

use crate::Protocol;
use crate::bounds::ATTEMPTS;
use crate::protocol::CALL;
use crate::row::Closed;
use crate::steps::{comes_to_an_end, is_settled};
use crate::world::{Consumer, Fault, World};

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
    ("attempts stay within the budget", |w| w.row.closed() <= usize::from(ATTEMPTS) && !w.has_fault(Fault::OverBudget)),
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
];

/// In some state.
pub const SOMETIMES: &[Rule] = &[
    ("delivered", |w| w.row.state == State::Delivered),
    ("dead, and its letter marked", |w| w.row.state == State::Dead && w.row.sent == w.row.death),
    ("expired", |w| w.row.state == State::Expired),
    ("cancelled, acknowledged", |w| w.row.state == State::Cancelled && w.cancel_acknowledged),
    ("rescheduled, then delivered", |w| w.row.state == State::Delivered && w.reschedule_acknowledged),
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

macro_rules! properties {
    ($($list:ident[$($i:literal),+] $kind:ident)+) => {
        vec![$($(Property::$kind($list[$i].0, |_: &Protocol, w| ($list[$i].1)(w)),)+)+]
    };
}

pub fn properties() -> Vec<Property<Protocol>> {
    let all = properties![
        ALWAYS[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18] always
        SOMETIMES[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] sometimes
    ];
    assert_eq!(all.len(), ALWAYS.len() + SOMETIMES.len(), "every rule is checked");
    all
}
