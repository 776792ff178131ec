//! I count dead and expired rows, entry by entry of their index: why they ended, and what can still be done.

use std::collections::BTreeMap;

use crate::id::DestinationId;
use crate::ports::EndedEntry;
use crate::reason::Reason;
use crate::state::State;
use crate::time::Timestamp;

/// The dead and expired rows whose deadlines are not long past.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Dead rows by reason.
    pub dead: BTreeMap<Reason, u64>,
    /// Expired rows by reason.
    pub expired: BTreeMap<Reason, u64>,
    /// Dead rows whose deadline has not passed.
    pub reachable: u64,
    /// The nearest deadline among these.
    pub nearest_deadline: Option<Timestamp>,
    /// Rows that still owe the dead letters their message, by destination.
    pub letters_owed: BTreeMap<DestinationId, u64>,
}

impl Ended {
    /// Notes an entry; `now` is the present.
    pub fn note(&mut self, entry: &EndedEntry, now: Timestamp) {
        // An entry without a reason was written by somebody else: it is counted all the same.
        let reason = entry.reason.unwrap_or(Reason::OutcomeUnknown);
        let by_reason = if entry.state == State::Dead { &mut self.dead } else { &mut self.expired };
        *by_reason.entry(reason).or_default() += 1;
        if entry.dlq_sent < entry.death {
            *self.letters_owed.entry(entry.destination.clone()).or_default() += 1;
        }
        if entry.state == State::Dead && entry.deliver_by > now {
            self.reachable += 1;
            self.nearest_deadline = Some(self.nearest_deadline.map_or(entry.deliver_by, |first| first.min(entry.deliver_by)));
        }
    }

    /// How many dead rows.
    #[must_use]
    pub fn dead_rows(&self) -> u64 {
        self.dead.values().sum()
    }

    /// How many expired rows.
    #[must_use]
    pub fn expired_rows(&self) -> u64 {
        self.expired.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::DeliveryId;

    /// 09:00 and so many seconds.
    fn at(s: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
    }

    fn entry(state: State, by: i64, reason: Option<Reason>, (death, dlq_sent): (u32, u32)) -> EndedEntry {
        EndedEntry {
            id: DeliveryId::new("dlv_1").expect("an id"),
            state,
            deliver_by: at(by),
            reason,
            death,
            dlq_sent,
            destination: DestinationId::new("acme").expect("an id"),
        }
    }

    #[test]
    fn by_reason_reachable_and_owed() {
        let mut ended = Ended::default();
        for entry in [
            entry(State::Dead, 60, Some(Reason::Rejected), (1, 1)),
            entry(State::Dead, 30, Some(Reason::Rejected), (2, 1)),
            entry(State::Dead, 0, Some(Reason::Gone), (1, 1)),
            entry(State::Dead, -60, None, (1, 1)),
            entry(State::Expired, -60, Some(Reason::DeadlinePassed), (1, 0)),
            // A deadline that is still to come does not make an expired row reachable: it can't be called in time any more.
            entry(State::Expired, 5, Some(Reason::DeadlinePassed), (1, 1)),
        ] {
            ended.note(&entry, at(0));
        }
        assert_eq!((ended.dead_rows(), ended.expired_rows(), ended.reachable), (4, 2, 2));
        assert_eq!(ended.letters_owed.values().sum::<u64>(), 2);
        assert_eq!(ended.nearest_deadline, Some(at(30)));
        assert_eq!(ended.dead, [(Reason::Rejected, 2), (Reason::Gone, 1), (Reason::OutcomeUnknown, 1)].into());
    }
}
