//! I am a state of the world: the ledger's time and row, what each actor holds in its memory, the queue, and what was
//! promised or seen so far.
//!
//! The queue is the set of attempt numbers that its messages name. A message may be received at any time, by several
//! consumers, again and again, or never: delay, reordering, duplicates, redelivery and loss are all in this, without a
//! bound. An actor may be as slow as it likes, and crash at every step.

use punctual_core::state::State;

use crate::bounds::{CONSUMERS, DISPATCHERS, SLICES, Scope, TICKS, WRITES, ZOMBIES};
use crate::protocol::{letter_marked, marked};
use crate::row::{Pending, RUNS, Row};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct World {
    /// The ledger's true time.
    pub now: u8,
    pub row: Row,
    pub dispatchers: [Dispatcher; DISPATCHERS],
    pub consumers: [Consumer; CONSUMERS],
    pub operator: Operator,
    pub slices: [Slice; SLICES],
    /// Bit n: a message for attempt n may be received.
    pub queue: u8,
    /// Bit n: a dead letter of death n was sent.
    pub letters: u8,
    /// Bit n: a dead letter of death n lies in the dead-letter queue.
    pub there: u8,
    /// Bit n: a call of attempt n was started, and attempt n is not closed.
    pub calls: u8,
    pub cancel_acknowledged: bool,
    pub reschedule_acknowledged: bool,
    /// Somebody saw a 2xx and has done with recording it.
    pub success_recorded: bool,
    /// Bits of [`Fault`]: what must never happen at a step.
    pub faults: u16,
}

/// A dispatch run, or whoever releases and buries like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dispatcher {
    Idle,
    /// About to write; a claim is published next.
    Writing {
        write: Pending,
        claim: bool,
    },
    /// Holds the row. Its message is out as far as anybody can tell: one that was not sent is one that was lost.
    Claimed(Row),
    /// Has sent the dead letter that the row owed, has not marked it.
    Buried(Row),
}

/// A deliver invocation with one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consumer {
    Idle,
    /// About to write; after a claim it makes an attempt.
    Writing {
        write: Pending,
        claim: bool,
    },
    /// Holds the row, has not called.
    Claimed(Row),
    /// A call is under way since that tick.
    Calling {
        row: Row,
        since: u8,
    },
    /// Knows the outcome and is about to record it.
    Recording {
        write: Pending,
        number: u8,
        answer: Answer,
    },
    /// Lost its fence.
    Late {
        number: u8,
        answer: Answer,
    },
    /// Has read the row again and is about to record the late outcome.
    LateWriting {
        write: Pending,
        number: u8,
        answer: Answer,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    Idle,
    Writing { write: Pending, wish: Wish },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wish {
    Cancel,
    /// To a later due time and deadline.
    Forwards,
    /// To the first ones again.
    Backwards,
}

/// A slice of the redrive run. The run's lease is not known here: two slices at once are what it must not depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slice {
    Idle,
    /// About to write the row's move. The release that follows is a dispatch run's claim, which may come at any time.
    Moving(Pending),
    /// Has decided that the letter of this death goes.
    Deleting(u8),
}

/// What a call comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    Accepted,
    /// Retryable; the next try can wait in the queue.
    Failed,
    /// Retryable; the next try is too far away for the queue.
    FailedFar,
    /// No retry can mend it.
    Rejected,
    /// Stopped right before the first byte.
    NotCalled,
}

/// What must never happen at a step.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    Early,
    TooLate,
    AfterCancel,
    NumberReused,
    CallOutlivesLease,
    DeliverLeaseBroken,
    DispatchLeaseBroken,
    TerminalChanged,
    OverBudget,
    AttemptForgotten,
    OpenedEarly,
    DeathForgotten,
    LetterOfThePresentDeleted,
}

impl World {
    pub fn new(scope: Scope) -> Self {
        Self {
            now: 1,
            row: Row::new(scope),
            dispatchers: [Dispatcher::Idle; DISPATCHERS],
            consumers: [Consumer::Idle; CONSUMERS],
            operator: Operator::Idle,
            slices: [Slice::Idle; SLICES],
            queue: 0,
            letters: 0,
            there: 0,
            calls: 0,
            cancel_acknowledged: false,
            reschedule_acknowledged: false,
            success_recorded: false,
            faults: 0,
        }
    }

    pub fn fault(&mut self, fault: Fault) {
        self.faults |= 1 << fault as u16;
    }

    pub fn has_fault(&self, fault: Fault) -> bool {
        self.faults & (1 << fault as u16) != 0
    }

    /// Whether no more writes are decided and have not arrived, and no more consumers have lost their fence, than the
    /// bound has. The outcome that a holder writes is not counted.
    pub fn is_within_bounds(&self) -> bool {
        let zombie = |c: &&Consumer| matches!(c, Consumer::Late { .. } | Consumer::LateWriting { .. });
        let writing = self.dispatchers.iter().filter(|d| matches!(d, Dispatcher::Writing { .. })).count()
            + self.consumers.iter().filter(|c| matches!(c, Consumer::Writing { .. } | Consumer::LateWriting { .. })).count()
            + self.slices.iter().filter(|s| matches!(s, Slice::Moving(_))).count()
            + usize::from(self.operator != Operator::Idle);
        writing <= WRITES && self.consumers.iter().filter(zombie).count() <= ZOMBIES
    }

    /// The same world in its one normal form. Equal actors are interchangeable. Versions are only compared for being
    /// equal, so they count from the row's, and far ones are alike. An instant that has passed for everybody has
    /// passed. A write that the core refuses now will be refused for ever, so its conflict is told at once. Of a row
    /// whose holder has lost it for sure, only what decides about a call is left.
    pub fn normalised(mut self) -> Self {
        self.tell_conflicts();
        // A call of a closed attempt needs no remembering: its number is in the row.
        self.calls &= u8::MAX << (self.row.closed() + 1);
        let base = self.row.version;
        let passed = self.now.saturating_sub(1);
        self.each_row(|row| {
            row.version = (row.version - base).clamp(-FAR, FAR);
            for instant in [&mut row.wake, &mut row.held, &mut row.lease].into_iter().flatten() {
                *instant = (*instant).max(passed);
            }
            let waits = matches!(row.state, State::Queued | State::Deferred);
            row.next = row.next.max(if waits { passed.min(row.since) } else { passed });
            if waits {
                // Two ticks after it was handed over, a message is overdue for everybody.
                row.since = row.since.max(passed.saturating_sub(2));
            }
            if row.state.needs_operator() || row.state.is_terminal() {
                // Only a reschedule or a redrive leads on, and it begins to count anew.
                row.rescues = 0;
            }
            if row.state == State::Cancelled {
                (row.death, row.sent, row.next) = (0, 0, 0);
            }
        });
        for consumer in &mut self.consumers {
            if let Consumer::Claimed(row) | Consumer::Calling { row, .. } = consumer
                && row.version < -1
            {
                *row = Row { wake: None, rescues: 0, late: None, death: 0, sent: 0, moves: [0; RUNS], version: -FAR, ..*row };
            }
        }
        // Deaths only grow: a letter of an earlier one is nothing to anybody but the sweep that deletes it.
        self.there &= u8::MAX << self.row.death;
        self.letters &= 1 << self.row.death | 1 << self.row.sent;
        for slice in &mut self.slices {
            if matches!(slice, Slice::Deleting(death) if *death < self.row.death || self.row.state.is_terminal()) {
                *slice = Slice::Idle;
            }
        }
        self.dispatchers.sort_unstable();
        self.consumers.sort_unstable();
        self.slices.sort_unstable();
        if self.row.state.is_terminal() {
            self.letters = 0;
            self.there = 0;
            self.queue = 0;
            if !self.consumers.iter().any(|c| matches!(c, Consumer::Claimed(_) | Consumer::Calling { .. })) {
                // Nobody can call any more, at whatever time.
                self.now = self.now.max(TICKS);
            }
        }
        let moving = self.slices.iter().any(|s| matches!(s, Slice::Moving(_)));
        if !moving && self.row.moves == [0; RUNS] {
            return self;
        }
        let swapped = self.runs_swapped();
        self.min(swapped)
    }

    /// The same with the runs' names swapped: they are alike.
    fn runs_swapped(&self) -> Self {
        let mut swapped = self.clone();
        swapped.each_row(|row| row.moves.reverse());
        swapped.dispatchers.sort_unstable();
        swapped.consumers.sort_unstable();
        swapped.slices.sort_unstable();
        swapped
    }

    /// Everybody whose write is lost learns it; from there the handlers read the row again.
    fn tell_conflicts(&mut self) {
        let row = self.row;
        for dispatcher in &mut self.dispatchers {
            let lost = match dispatcher {
                Dispatcher::Idle => false,
                Dispatcher::Writing { write, .. } => write.is_lost(&row),
                Dispatcher::Claimed(held) => marked(held, self.now).is_none_or(|mark| mark.is_lost(&row)),
                Dispatcher::Buried(read) => letter_marked(read).is_none_or(|mark| mark.is_lost(&row)),
            };
            if lost {
                *dispatcher = Dispatcher::Idle;
            }
        }
        for consumer in &mut self.consumers {
            match *consumer {
                Consumer::Writing { write, .. } if write.is_lost(&row) => *consumer = Consumer::Idle,
                Consumer::Recording { write, number, answer } if write.before.version != row.version && write.is_lost(&row) => {
                    *consumer = Consumer::late(number, answer);
                }
                Consumer::LateWriting { write, number, answer } if write.is_lost(&row) => {
                    *consumer = Consumer::late(number, answer);
                }
                _ => {}
            }
        }
        for slice in &mut self.slices {
            if matches!(slice, Slice::Moving(write) if write.is_lost(&row)) {
                *slice = Slice::Idle;
            }
        }
        if matches!(self.operator, Operator::Writing { write, .. } if write.is_lost(&row)) {
            self.operator = Operator::Idle;
        }
    }

    /// Everybody has finished or crashed. If the messages are lost too, only the wake index can move the row.
    pub fn nobody_runs(&self) -> bool {
        self.operator == Operator::Idle
            && self.slices.iter().all(|s| *s == Slice::Idle)
            && self.dispatchers.iter().all(|d| *d == Dispatcher::Idle)
            && self.consumers.iter().all(|c| *c == Consumer::Idle)
    }

    fn each_row(&mut self, mut change: impl FnMut(&mut Row)) {
        change(&mut self.row);
        for dispatcher in &mut self.dispatchers {
            match dispatcher {
                Dispatcher::Idle => {}
                Dispatcher::Writing { write, .. } => both(write, &mut change),
                Dispatcher::Claimed(row) | Dispatcher::Buried(row) => change(row),
            }
        }
        for consumer in &mut self.consumers {
            match consumer {
                Consumer::Idle | Consumer::Late { .. } => {}
                Consumer::Writing { write, .. } | Consumer::Recording { write, .. } | Consumer::LateWriting { write, .. } => {
                    both(write, &mut change)
                }
                Consumer::Claimed(row) | Consumer::Calling { row, .. } => change(row),
            }
        }
        for slice in &mut self.slices {
            if let Slice::Moving(write) = slice {
                both(write, &mut change);
            }
        }
        if let Operator::Writing { write, .. } = &mut self.operator {
            both(write, &mut change);
        }
    }
}

impl Consumer {
    /// Whoever lost the fence only knows whether there was an effect.
    pub fn late(number: u8, answer: Answer) -> Self {
        Self::Late { number, answer: if answer == Answer::Accepted { answer } else { Answer::Failed } }
    }
}

/// Versions further away than this are alike.
const FAR: i8 = 2;

fn both(write: &mut Pending, change: &mut impl FnMut(&mut Row)) {
    change(&mut write.before);
    change(&mut write.after);
}
