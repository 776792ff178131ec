//! I decide what a run does with one row and with one dead letter.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Now;
use crate::delivery::Delivery;
use crate::destination::Destination;
use crate::retry::last_safe_start;
use crate::time::Timestamp;

use super::run::Run;

/// A row that is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The attempts that it is granted: the run's number, and more if the row's attempts are past its budget already.
    pub grant: u32,
    /// Its new deadline, if its own cannot be kept.
    pub deliver_by: Option<Timestamp>,
    /// The next call starts no earlier: the row's own wait, a receiver's `Retry-After` included.
    pub not_before: Timestamp,
    /// The next call starts no later: a slot after this is no use to it.
    pub start_by: Timestamp,
}

/// Why a selected row is not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// This run moved it already, and it ended again: a later run may take it.
    AlreadyMoved,
    /// An operator holds it.
    Held,
    /// No call can start before its deadline, or before the run's own.
    DeadlineUnreachable,
    /// Its destination is not registered.
    UnknownDestination,
    /// Its destination is paused.
    DestinationPaused,
    /// What it sends is missing or was erased.
    NoPayload,
    /// It is neither dead nor expired any more, or somebody else wrote it first.
    Changed,
}

impl SkipReason {
    /// The stable word.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::AlreadyMoved => "already_moved",
            Self::Held => "held",
            Self::DeadlineUnreachable => "deadline_unreachable",
            Self::UnknownDestination => "unknown_destination",
            Self::DestinationPaused => "destination_paused",
            Self::NoPayload => "no_payload",
            Self::Changed => "changed",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// What a run does with a selected row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForRow {
    /// It is moved.
    Move(Move),
    /// It is left as it is.
    Skip(SkipReason),
}

/// What a row is offered on its return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Further attempts.
    pub attempts: u32,
    /// A new deadline, if its own cannot be kept.
    pub deliver_by: Option<Timestamp>,
}

/// Decides on a row as it was read: the rules that fresh work obeys, again. `has_payload` is whether what it sends is still
/// there; `margin` is the stage's safety margin.
#[must_use]
pub fn for_row(
    row: &Delivery,
    run: &Run,
    destination: Option<&Destination>,
    has_payload: bool,
    now: Now,
    margin: Duration,
) -> ForRow {
    if row.state.needs_operator() && row.redrives.iter().any(|redrive| redrive.run.as_ref() == Some(&run.id)) {
        return ForRow::Skip(SkipReason::AlreadyMoved);
    }
    let offer = Offer { attempts: run.order.attempts, deliver_by: run.order.deliver_by };
    for_offer(row, offer, destination, has_payload, now, margin)
}

/// Decides on a row as [`for_row`] does, whichever run moves it.
#[must_use]
pub fn for_offer(
    row: &Delivery,
    offer: Offer,
    destination: Option<&Destination>,
    has_payload: bool,
    now: Now,
    margin: Duration,
) -> ForRow {
    use ForRow::Skip;
    if !row.state.needs_operator() {
        return Skip(SkipReason::Changed);
    }
    if row.hold.is_some() {
        return Skip(SkipReason::Held);
    }
    let Some(destination) = destination else { return Skip(SkipReason::UnknownDestination) };
    if destination.paused.is_some() {
        return Skip(SkipReason::DestinationPaused);
    }
    if !has_payload {
        return Skip(SkipReason::NoPayload);
    }
    let margin = destination.margin(margin);
    let not_before = row.next_attempt_at.max(row.deliver_after);
    let fits = |deliver_by: &Timestamp| not_before.max(now.hi) <= last_safe_start(*deliver_by, margin);
    let deliver_by = if fits(&row.deliver_by) { None } else { offer.deliver_by.filter(fits) };
    if deliver_by.is_none() && !fits(&row.deliver_by) {
        return Skip(SkipReason::DeadlineUnreachable);
    }
    let made = u32::try_from(row.attempts.len()).unwrap_or(u32::MAX);
    let over = made.saturating_sub(destination.spec.retry.attempts.saturating_add(row.granted));
    ForRow::Move(Move {
        grant: offer.attempts.saturating_add(over),
        deliver_by,
        not_before,
        start_by: last_safe_start(deliver_by.unwrap_or(row.deliver_by), margin),
    })
}

/// Why a dead letter is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeleteWhy {
    /// It tells of an earlier death than the row's last.
    Older,
    /// Its row is delivered, cancelled or shadowed, and no redrive brought it there.
    Suppressed,
    /// Its row came back from that death, and is alive or at a good end.
    Moved,
}

/// Why a dead letter is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaveWhy {
    /// Its row is dead or expired, of that very death.
    Unselected,
    /// The ledger has no such row, or does not know that death.
    Unknown,
    /// It names no delivery of ours, or its death is no number.
    Malformed,
    /// It names no death: the queue itself moved it, and its row is at no end.
    BrokerMoved,
}

impl DeleteWhy {
    /// The stable word.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Older => "older",
            Self::Suppressed => "suppressed",
            Self::Moved => "moved",
        }
    }
}

impl LeaveWhy {
    /// The stable word.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Unselected => "unselected",
            Self::Unknown => "unknown",
            Self::Malformed => "malformed",
            Self::BrokerMoved => "broker_moved",
        }
    }
}

/// What a sweep does with a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForLetter {
    /// The death that it tells of is over.
    Delete(DeleteWhy),
    /// It stays, as it is.
    Leave(LeaveWhy),
}

/// Decides on a dead letter: the death that it names, if it names one, and the row that it tells of, as it was read after
/// the letter was received.
#[must_use]
pub fn for_letter(death: Option<u32>, row: Option<&Delivery>) -> ForLetter {
    use ForLetter::{Delete, Leave};
    let Some(row) = row else { return Leave(LeaveWhy::Unknown) };
    match death {
        Some(death) if death < row.death => Delete(DeleteWhy::Older),
        Some(death) if row.redrives.iter().any(|redrive| redrive.death == death) && !row.state.needs_operator() => {
            Delete(DeleteWhy::Moved)
        }
        _ if row.state.is_terminal() => Delete(DeleteWhy::Suppressed),
        None => Leave(LeaveWhy::BrokerMoved),
        Some(death) if death > row.death => Leave(LeaveWhy::Unknown),
        Some(_) if row.state.needs_operator() => Leave(LeaveWhy::Unselected),
        Some(_) => Delete(DeleteWhy::Moved),
    }
}
