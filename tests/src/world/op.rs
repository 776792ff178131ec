//! I am what can happen in the world, as data: a list of me is replayed, printed, shortened and kept.
//!
//! Actors and reminders are named by number, so that leaving an operation out changes as little as possible of the
//! rest; an operation that names what is not there does nothing.

use serde::{Deserialize, Serialize};

/// What becomes of one call that an actor made to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It happens, and the actor learns it.
    Ok,
    /// It happens, and the answer is lost: the actor sees a failure.
    AnswerLost,
    /// It does not happen: throttled, refused, unreachable.
    Refused,
    /// Every second entry of a batch fails.
    Partial,
    /// It happens, and the answer comes with a later step.
    Held,
    /// The actor dies before the call leaves.
    CrashBefore,
    /// It happens, and the actor dies before it learns it.
    CrashAfter,
}

/// What a receiver does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// Processes and answers 200.
    Healthy,
    /// Processes and answers 200 after so many milliseconds.
    Slow(u32),
    /// Answers this status and processes nothing.
    Status(u16),
    /// Answers 429 with a `Retry-After` in seconds.
    TooMany(u32),
    /// Processes and never answers.
    Swallow,
    /// Processes and cuts the connection.
    Cut,
    /// Does not process and never answers.
    Silent,
    /// Takes no connection.
    Down,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Time passes; whoever is past its invocation's end dies.
    Advance {
        /// Milliseconds.
        ms: u32,
    },
    /// A dispatch run begins.
    Tick {
        /// Its number.
        actor: u32,
    },
    /// The poller receives messages and a deliver invocation begins.
    Poll {
        /// Its number.
        actor: u32,
        /// At most so many.
        most: u8,
        /// Leaving out the first so many that are visible: the queue keeps no order.
        skip: u8,
    },
    /// An application schedules a reminder, or the same one again.
    Schedule {
        /// Its number.
        actor: u32,
        /// Which reminder.
        reminder: u8,
        /// Which content.
        content: u8,
    },
    /// An operator freezes a delivery.
    Hold {
        /// Its number.
        actor: u32,
        /// Which reminder.
        reminder: u8,
    },
    /// An operator releases a delivery.
    Release {
        /// Its number.
        actor: u32,
        /// Which reminder.
        reminder: u8,
    },
    /// An operator pauses a destination.
    Pause {
        /// Its number.
        actor: u32,
        /// Which destination.
        destination: u8,
    },
    /// An operator resumes a destination.
    Resume {
        /// Its number.
        actor: u32,
        /// Which destination.
        destination: u8,
    },
    /// An operator replaces a destination's timeouts, rate and retry policy.
    Policy {
        /// Its number.
        actor: u32,
        /// Which destination.
        destination: u8,
        /// Which policy.
        variant: u8,
    },
    /// Rates bind from the start, or they have room for everything.
    Limits {
        /// They bind.
        on: bool,
    },
    /// A destination that nobody has used yet is in shadow mode.
    Shadow {
        /// Which destination.
        destination: u8,
    },
    /// An operator promotes a destination.
    Promote {
        /// Its number.
        actor: u32,
        /// Which destination.
        destination: u8,
    },
    /// An operator turns the kill switch.
    KillSwitch {
        /// On or off.
        on: bool,
    },
    /// One call of an actor gets its fate.
    Step {
        /// Whose.
        actor: u32,
        /// Which of its open calls.
        call: u8,
        /// What becomes of it.
        fate: Fate,
    },
    /// An actor goes on undisturbed until it must wait or is done.
    Run {
        /// Which.
        actor: u32,
    },
    /// An actor dies; what it has sent is still under way.
    Crash {
        /// Which.
        actor: u32,
    },
    /// The platform forgets to end an actor: it may go on after its lease.
    Outlive {
        /// Which.
        actor: u32,
    },
    /// A request of a dead actor arrives after all.
    Arrive {
        /// Which.
        request: u8,
    },
    /// The operator takes a delivery back.
    Cancel {
        /// Its number.
        actor: u32,
        /// Which reminder.
        reminder: u8,
    },
    /// A producer moves a delivery to other instants.
    Reschedule {
        /// Its number.
        actor: u32,
        /// Which reminder.
        reminder: u8,
        /// Which instants.
        variant: u8,
    },
    /// A reminder's payload is erased.
    Erase {
        /// Which reminder.
        reminder: u8,
    },
    /// A message that lies, or says nothing, is in the queue.
    Garble {
        /// Which reminder it names, if any.
        reminder: u8,
        /// In which way it is wrong.
        variant: u8,
    },
    /// A message is lost.
    Lose {
        /// Which.
        message: u8,
    },
    /// A message, deleted ones included, is there once more, visible now.
    Duplicate {
        /// Which.
        message: u8,
    },
    /// A message stays invisible longer.
    Delay {
        /// Which.
        message: u8,
        /// Seconds.
        seconds: u16,
    },
    /// A receiver changes.
    Receiver {
        /// Which destination's.
        destination: u8,
        /// From now on.
        behaviour: Behaviour,
    },
    /// How destinations are reached is noted from now on, or no longer: without it there are no breakers.
    Reach {
        /// On or off.
        on: bool,
    },
    /// The machines' clock is off by so much.
    Skew {
        /// Milliseconds, to either side.
        ms: i32,
    },
    /// The database's time is known so well.
    Width {
        /// Milliseconds.
        ms: u16,
    },
    /// The indexes do not see what happens to a row.
    Lag {
        /// Which reminder.
        reminder: u8,
    },
    /// The indexes see everything again.
    CatchUp,
    /// An actor goes on undisturbed to its next call whose loss matters to redriving, or for so many calls.
    Walk {
        /// Which.
        actor: u32,
        /// At most so many.
        calls: u8,
    },
    /// An operator starts a redrive run.
    Redrive {
        /// Its number.
        actor: u32,
        /// Which order.
        variant: u8,
    },
    /// A slice that is due begins.
    Slice {
        /// Its number.
        actor: u32,
        /// Which of those that are due.
        which: u8,
        /// The same start comes once more.
        again: bool,
    },
    /// A planned slice never begins.
    LoseSlice {
        /// Which.
        which: u8,
    },
    /// An operator aborts a redrive run.
    Abort {
        /// Its number.
        actor: u32,
        /// Which run.
        run: u8,
    },
    /// The owner of a redrive run lets it go on.
    GoOn {
        /// Its number.
        actor: u32,
        /// Which run.
        run: u8,
    },
    /// An operator freezes all redriving, or lets it go on.
    Freeze {
        /// Its number.
        actor: u32,
        /// Frozen or not.
        on: bool,
    },
    /// The queue itself moves a message to the dead-letter queue: with its body alone.
    Broker {
        /// Which reminder it names.
        reminder: u8,
    },
}

/// A list as text: one operation a line.
///
/// # Errors
/// What serde says of an operation; none is known to have no text.
pub fn to_text(ops: &[Op]) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for op in ops {
        text.push_str(&serde_json::to_string(op)?);
        text.push('\n');
    }
    Ok(text)
}

/// Reads a list; empty lines and lines that begin with `#` say nothing.
///
/// # Errors
/// What is wrong with the first line that is no operation.
pub fn from_text(text: &str) -> Result<Vec<Op>, serde_json::Error> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(serde_json::from_str).collect()
}
