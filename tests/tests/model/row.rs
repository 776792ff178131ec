//! I am the row as the model sees it: the core's [`Delivery`] without what no decision reads, in a few bytes.
//!
//! A tick is a minute. Every comparison in the core is between an instant of the row and a whole tick, so an instant
//! between two ticks is the later one. Version numbers count from the row's present one (see `world.rs`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use punctual_core::attempt::{Answer, Attempt};
use punctual_core::delivery::{Delivery, NewDelivery};
use punctual_core::history::HistoryEntry;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, MessageId, Owner, Reference, RunId};
use punctual_core::reason::Reason;
use punctual_core::redrive::Redrive;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::Transition;

use crate::bounds::{ASKED, Scope};

/// One tick.
pub const TICK: Duration = Duration::from_secs(60);
/// Tick 0.
const ORIGIN_MS: i64 = 1_796_115_600_000;

pub fn ticks(n: u8) -> Duration {
    TICK * u32::from(n)
}

pub fn at(tick: u8) -> Timestamp {
    Timestamp::from_millis(ORIGIN_MS).plus(ticks(tick))
}

fn tick_of(at: Timestamp) -> u8 {
    let ms = at.since(Timestamp::from_millis(ORIGIN_MS)).as_millis();
    u8::try_from(ms.div_ceil(TICK.as_millis())).expect("a few ticks")
}

/// What is known of a closed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Closed {
    Accepted,
    Failed,
    Unknown,
}

/// The most runs.
pub const RUNS: usize = 2;
/// The most attempts that a row can show; one more than any budget here.
pub const SLOTS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    pub state: State,
    pub version: i8,
    pub after: u8,
    pub by: u8,
    pub next: u8,
    /// When dispatch looks; not before the next attempt, since an earlier look finds nothing to do.
    pub wake: Option<u8>,
    /// The end of a dispatch lease.
    pub held: Option<u8>,
    pub lease: Option<u8>,
    pub attempts: [Option<Closed>; SLOTS],
    pub rescues: u8,
    pub late: Option<u8>,
    pub death: u8,
    pub sent: u8,
    /// How often each run moved it.
    pub moves: [u8; RUNS],
    /// The attempts that were granted to it beyond the budget.
    pub granted: u8,
    /// When the message was handed over; dispatch judges by it whether it is overdue.
    pub since: u8,
    /// Identity and key are what they were.
    pub intact: bool,
    /// What its destination and the runs allow.
    pub scope: Scope,
}

/// Version numbers of the core are these plus the model's.
const VERSIONS_FROM: i64 = 100;
/// Past so many rescues the wait is half of the window in any case: no window here is longer than three ticks.
const MOST_RESCUES: u8 = 1;

fn small(n: impl TryInto<u8>) -> u8 {
    n.try_into().ok().expect("a small number")
}

impl Row {
    /// As it was scheduled.
    pub fn new(scope: Scope) -> Self {
        let (after, by) = ASKED;
        Self {
            state: State::Scheduled,
            version: 0,
            after,
            by,
            next: after,
            wake: Some(after),
            held: None,
            lease: None,
            attempts: [None; SLOTS],
            rescues: 0,
            late: None,
            death: 0,
            sent: 0,
            moves: [0; RUNS],
            granted: 0,
            since: 0,
            intact: true,
            scope,
        }
    }

    pub fn closed(&self) -> usize {
        self.attempts.iter().flatten().count()
    }

    pub fn has(&self, what: Closed) -> bool {
        self.attempts.contains(&Some(what))
    }

    /// What the model keeps of a core row.
    pub fn of(d: &Delivery, scope: Scope) -> Self {
        let original = template();
        let intact = d.id == original.id
            && d.idempotency_key == original.idempotency_key
            && d.reference == original.reference
            && d.destination == original.destination
            && d.shard == original.shard
            && d.content == original.content;
        let mut attempts = [None; SLOTS];
        for (slot, (i, attempt)) in attempts.iter_mut().zip(d.attempts.iter().enumerate()) {
            assert_eq!(usize::try_from(attempt.number).ok(), Some(i + 1), "attempts are numbered in order");
            *slot = Some(match attempt.answer {
                Answer::Status(200) => Closed::Accepted,
                Answer::Unknown => Closed::Unknown,
                Answer::Status(_) | Answer::Error | Answer::Shadow | Answer::Refused(_) => Closed::Failed,
            });
        }
        let handed_over = matches!(d.state, State::Queued | State::Deferred);
        Self {
            state: d.state,
            version: i8::try_from(i64::try_from(d.version).expect("a version") - VERSIONS_FROM).expect("a near version"),
            after: tick_of(d.deliver_after),
            by: tick_of(d.deliver_by),
            next: tick_of(d.next_attempt_at),
            wake: d.wake_at.map(|at| tick_of(at).max(tick_of(d.next_attempt_at))),
            held: d.held_until.filter(|_| d.state == State::Dispatching).map(tick_of),
            lease: d.lease_until.map(tick_of),
            attempts,
            rescues: small(d.rescues).min(MOST_RESCUES),
            late: d.late_success.map(small),
            death: small(d.death),
            sent: small(d.dlq_sent),
            moves: RUN_IDS.map(|run| small(d.redrives.iter().filter(|r| r.run == run_id(run)).count())),
            granted: small(d.granted),
            since: d.history.last().filter(|_| handed_over).map_or(0, |line| tick_of(line.at)),
            intact,
            scope,
        }
    }

    /// The core row; its history is one line that nobody in the model has written.
    pub fn delivery(&self) -> Delivery {
        let leased = matches!(self.state, State::Dispatching | State::Delivering);
        Delivery {
            state: self.state,
            version: u64::try_from(VERSIONS_FROM + i64::from(self.version)).expect("a version"),
            deliver_after: at(self.after),
            deliver_by: at(self.by),
            next_attempt_at: at(self.next),
            wake_at: self.wake.map(at),
            held_until: self.held.map(at),
            lease_owner: Owner::new("holder").ok().filter(|_| leased),
            lease_until: self.lease.map(at),
            attempts: self.attempts.iter().flatten().enumerate().map(|(i, closed)| attempt(i, *closed)).collect(),
            rescues: u32::from(self.rescues),
            late_success: self.late.map(u32::from),
            death: u32::from(self.death),
            dlq_sent: u32::from(self.sent),
            redrives: RUN_IDS.into_iter().zip(self.moves).flat_map(|(run, n)| vec![redrive(run); usize::from(n)]).collect(),
            granted: u32::from(self.granted),
            history: vec![line(at(self.since), self.state, "elsewhere")],
            ..template()
        }
    }
}

fn line(at: Timestamp, state: State, by: &str) -> HistoryEntry {
    HistoryEntry { at, state, attempt: None, reason: None, by: Correlation::new(by).expect("a token") }
}

/// The runs by number.
const RUN_IDS: [u8; RUNS] = [0, 1];

pub fn run_id(run: u8) -> Option<RunId> {
    RunId::new(format!("run_{run}")).ok()
}

/// A move by the run; of which death, and with how many attempts, is no decision's business.
fn redrive(run: u8) -> Redrive {
    Redrive { run: run_id(run), death: 1, granted: 1, deadline_was: None, owner: "ann".into() }
}

fn attempt(index: usize, closed: Closed) -> Attempt {
    let (answer, reason) = match closed {
        Closed::Accepted => (Answer::Status(200), Reason::Accepted),
        Closed::Failed => (Answer::Status(503), Reason::ServerError),
        Closed::Unknown => (Answer::Unknown, Reason::OutcomeUnknown),
    };
    Attempt {
        number: u32::try_from(index + 1).expect("a few attempts"),
        started_at: at(0),
        took: Duration::ZERO,
        answer,
        reason,
        destination_version: 1,
        key_ids: "k".into(),
    }
}

/// All that never changes.
fn template() -> Delivery {
    thread_local! {
        static TEMPLATE: Delivery = {
            let id = DeliveryId::new("dlv_model").expect("an id");
            Delivery { version: 0, wake_at: None, message: MessageId::new("m").ok(), history: Vec::new(), ..Delivery::new(NewDelivery { idempotency_key: IdempotencyKey::from(&id), reference: Reference::new("c-1").expect("a reference"), destination: DestinationId::new("crm").expect("a destination"), shard: 0, content: Content::new("abc").expect("a hash"), deliver_after: at(0), deliver_by: at(0), id }, at(0), Correlation::new("elsewhere").expect("a token")) }
        };
    }
    TEMPLATE.with(Delivery::clone)
}

pub fn id() -> DeliveryId {
    template().id
}

/// A transition that an actor has computed and not yet written, or whose answer it has not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pending {
    pub before: Row,
    pub after: Row,
    /// It adds a line to the history.
    pub tells: bool,
    /// It was written, and its answer was lost on the wire.
    pub written: bool,
}

/// What the core says of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guarded {
    Admits,
    Mine,
    Refuses,
}

/// What the ledger answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Done,
    Conflict,
}

impl Pending {
    pub fn of(t: &Transition, scope: Scope) -> Self {
        let tells = t.after.history.len() > t.before.history.len();
        Self { before: Row::of(&t.before, scope), after: Row::of(&t.after, scope), tells, written: false }
    }

    /// Sends the write to the ledger: the core's guard decides, and the adapter's rule (write what differs) applies it.
    pub fn write(&self, row: &mut Row) -> Answered {
        match self.verdict(row) {
            Guarded::Admits => {
                self.merge(row);
                Answered::Done
            }
            Guarded::Mine => Answered::Done,
            Guarded::Refuses => Answered::Conflict,
        }
    }

    /// The core refuses it. What refuses it (another version, another late success) never becomes as it was.
    pub fn is_lost(&self, row: &Row) -> bool {
        (self.before.version, self.before.late) != (row.version, row.late) && self.verdict(row) == Guarded::Refuses
    }

    /// The core's word; asked once for each question.
    fn verdict(&self, row: &Row) -> Guarded {
        thread_local! {
            static KNOWN: RefCell<HashMap<(Pending, Row), Guarded>> = RefCell::default();
        }
        KNOWN.with_borrow_mut(|known| *known.entry((*self, *row)).or_insert_with(|| self.judged(row)))
    }

    fn judged(&self, row: &Row) -> Guarded {
        let mine = line(at(0), self.after.state, "mine");
        let mut transition = Transition { before: self.before.delivery(), after: self.after.delivery() };
        transition.after.history.clone_from(&transition.before.history);
        let mut current = row.delivery();
        if self.tells {
            transition.after.history.push(mine.clone());
        }
        if self.tells && self.written {
            current.history.push(mine);
        }
        if transition.admits(&current) {
            Guarded::Admits
        } else if transition.is_mine(&current) {
            Guarded::Mine
        } else {
            Guarded::Refuses
        }
    }

    fn merge(&self, row: &mut Row) {
        macro_rules! copy_changed {
            ($($field:ident),+) => {{
                let Row { attempts: _, since: _, scope: _, $($field: _),+ } = self.after;
                $(if self.before.$field != self.after.$field { row.$field = self.after.$field; })+
            }};
        }
        copy_changed!(state, version, after, by, next, wake, held, lease, rescues, late, death, sent, moves, granted, intact);
        if self.tells {
            row.since = self.after.since;
        }
        for (slot, (before, after)) in row.attempts.iter_mut().zip(self.before.attempts.iter().zip(self.after.attempts)) {
            if *before != after {
                *slot = after;
            }
        }
    }
}
