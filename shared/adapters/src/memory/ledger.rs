//! I am the ledger in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use punctual_core::acquire::Acquire;
use punctual_core::admission::Candidate;
use punctual_core::delivery::{Delivery, Payload};
use punctual_core::id::{Content, DeliveryId, DestinationId, IdempotencyKey, Reference, RunId};
use punctual_core::ports::{
    Acquired, Created, Cursor, EndedEntry, EndedPage, EndedPlace, EndedQuery, Ledger, Partition, PortError, Rows, RowsNamed,
    RowsPage, RowsPlace, RowsQuery, RunPage, RunRow, WakePage, WakeQuery, Written,
};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::Transition;

use super::locked;

/// The ledger in memory.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    rows: BTreeMap<DeliveryId, Delivery>,
    payloads: BTreeMap<(DeliveryId, Content), Payload>,
    /// Derived ids of migrated reminders, and the ids that these have.
    aliases: BTreeMap<DeliveryId, DeliveryId>,
    /// Keys of migrated reminders, and who has them.
    locks: BTreeMap<IdempotencyKey, DeliveryId>,
}

impl MemoryLedger {
    /// All rows, by id.
    #[must_use]
    pub fn rows(&self) -> Vec<Delivery> {
        locked(&self.tables).rows.values().cloned().collect()
    }

    /// Whether every row is as wanted; nothing is copied.
    pub fn all(&self, wanted: impl Fn(&Delivery) -> bool) -> bool {
        locked(&self.tables).rows.values().all(wanted)
    }

    /// Puts a row as it is, whatever was there.
    pub fn put_row(&self, row: Delivery) {
        locked(&self.tables).rows.insert(row.id.clone(), row);
    }

    /// Puts a payload alone, as a creation does that is stopped half-way.
    pub fn put_payload(&self, id: &DeliveryId, content: &Content, payload: Payload) {
        locked(&self.tables).payloads.insert((id.clone(), content.clone()), payload);
    }

    /// Erases a delivery's payloads; the evidence stays.
    pub fn erase_payloads(&self, id: &DeliveryId) {
        locked(&self.tables).payloads.retain(|(owner, _), _| owner != id);
    }
}

impl Tables {
    fn create(&mut self, row: &Delivery, payload: &Payload) -> Created {
        self.payloads.entry((row.id.clone(), row.content.clone())).or_insert_with(|| payload.clone());
        if let Some(id) = self.aliases.get(&row.id) {
            return Created::Taken(id.clone());
        }
        if let Some(row) = self.rows.get(&row.id) {
            return Created::Exists(Box::new(row.clone()));
        }
        if !row.id.is_derived() || row.idempotency_key != IdempotencyKey::from(&row.id) {
            let derived = DeliveryId::derive(&payload.parts);
            if let Some(holder) = self.locks.get(&row.idempotency_key) {
                return Created::Taken(holder.clone());
            }
            if derived != row.id {
                if self.rows.contains_key(&derived) {
                    return Created::Taken(derived);
                }
                if let Some(id) = self.aliases.get(&derived) {
                    return Created::Taken(id.clone());
                }
                self.aliases.insert(derived, row.id.clone());
            }
            self.locks.insert(row.idempotency_key.clone(), row.id.clone());
        }
        self.rows.insert(row.id.clone(), row.clone());
        Created::New
    }

    fn wake(&self, query: &WakeQuery) -> WakePage {
        let mut entries: Vec<(Timestamp, &Delivery)> = self
            .rows
            .values()
            .filter(|row| row.destination == query.lane.destination && row.shard == query.lane.shard)
            .filter_map(|row| Some((row.wake_at.filter(|wake_at| *wake_at <= query.until)?, row)))
            .filter(|(at, row)| query.start.as_ref().is_none_or(|start| (*at, &row.id) > (start.wake_at, &start.id)))
            .collect();
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX).max(1);
        let more = entries.len() > limit;
        let order = |a: &(Timestamp, &Delivery), b: &(Timestamp, &Delivery)| (a.0, &a.1.id).cmp(&(b.0, &b.1.id));
        if more {
            entries.select_nth_unstable_by(limit, order);
            entries.truncate(limit);
        }
        entries.sort_unstable_by(order);
        let mut entries: Vec<Candidate> = entries
            .into_iter()
            .map(|(wake_at, row)| Candidate {
                id: row.id.clone(),
                wake_at,
                held_until: row.held_until,
                deliver_by: row.deliver_by,
            })
            .collect();
        let next = entries.last().filter(|_| more).map(|last| Cursor { wake_at: last.wake_at, id: last.id.clone() });
        entries.retain(|entry| query.deadline_by.is_none_or(|by| entry.deliver_by <= by));
        WakePage { candidates: entries, next, read_units: 0.0 }
    }
}

impl Tables {
    fn ended(&self, query: &EndedQuery) -> EndedPage {
        let place = |row: &Delivery| EndedPlace { deliver_by: row.deliver_by, id: row.id.clone() };
        let mut found: Vec<(EndedPlace, &Delivery)> = self
            .rows
            .values()
            .filter(|row| row.state.needs_operator() && row.state == query.state)
            .filter(|row| query.from.is_none_or(|from| row.deliver_by >= from))
            .map(|row| (place(row), row))
            .filter(|(place, _)| query.start.as_ref().is_none_or(|start| place > start))
            .collect();
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX).max(1);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(place, _)| place.clone());
        let entry = |row: &Delivery| EndedEntry {
            id: row.id.clone(),
            state: row.state,
            deliver_by: row.deliver_by,
            reason: row.reason,
            death: row.death,
            dlq_sent: row.dlq_sent,
            destination: row.destination.clone(),
        };
        EndedPage { entries: found.into_iter().map(|(_, row)| entry(row)).collect(), next }
    }

    fn of_run(&self, run: &RunId, start: Option<&DeliveryId>) -> RunPage {
        let mine = self.rows.values().filter(|row| row.run() == Some(run) && start.is_none_or(|start| row.id > *start));
        let row =
            |row: &Delivery| RunRow { id: row.id.clone(), state: row.state, reason: row.reason, deliver_by: row.deliver_by };
        RunPage { rows: mine.map(row).collect(), next: None }
    }
}

impl Ledger for MemoryLedger {
    async fn create(&self, row: &Delivery, payload: &Payload) -> Result<Created, PortError> {
        Ok(locked(&self.tables).create(row, payload))
    }

    async fn acquire(&self, acquire: &Acquire) -> Result<Acquired, PortError> {
        let mut tables = locked(&self.tables);
        let Some(row) = tables.rows.get_mut(&acquire.id) else { return Ok(Acquired::Absent) };
        if acquire.guard.admits(row) {
            *row = acquire.claim.apply(row);
        } else if !acquire.is_mine(row) {
            return Ok(Acquired::Refused(Box::new(row.clone())));
        }
        Ok(Acquired::Won(Box::new(row.clone())))
    }

    async fn write(&self, transition: &Transition) -> Result<Written, PortError> {
        let mut tables = locked(&self.tables);
        let Some(row) = tables.rows.get_mut(&transition.before.id) else { return Ok(Written::Absent) };
        if transition.admits(row) {
            merge(row, &transition.before, &transition.after);
        } else if !transition.is_mine(row) {
            return Ok(Written::Conflict(Box::new(row.clone())));
        }
        Ok(Written::Done)
    }

    async fn read(&self, ids: &[DeliveryId]) -> Result<Vec<Delivery>, PortError> {
        let tables = locked(&self.tables);
        let distinct: std::collections::BTreeSet<&DeliveryId> = ids.iter().collect();
        Ok(distinct.into_iter().filter_map(|id| tables.rows.get(id).cloned()).collect())
    }

    async fn payload(&self, id: &DeliveryId, content: &Content) -> Result<Option<Payload>, PortError> {
        Ok(locked(&self.tables).payloads.get(&(id.clone(), content.clone())).cloned())
    }

    async fn wake(&self, query: &WakeQuery) -> Result<WakePage, PortError> {
        Ok(locked(&self.tables).wake(query))
    }

    async fn partition(&self, id: &DeliveryId) -> Result<Option<Partition>, PortError> {
        let tables = locked(&self.tables);
        let id = tables.aliases.get(id).unwrap_or(id);
        Ok(tables
            .rows
            .get(id)
            .map(|row| Partition { row: row.clone(), payload: tables.payloads.get(&(id.clone(), row.content.clone())).cloned() }))
    }

    async fn by_reference(&self, reference: &Reference) -> Result<Vec<DeliveryId>, PortError> {
        let tables = locked(&self.tables);
        Ok(tables.rows.values().filter(|row| row.reference == *reference).map(|row| row.id.clone()).collect())
    }

    async fn count_ended(&self, destination: &DestinationId, from: Timestamp) -> Result<u64, PortError> {
        let tables = locked(&self.tables);
        let ended = |row: &&Delivery| row.state.needs_operator() && row.destination == *destination && row.deliver_by >= from;
        Ok(u64::try_from(tables.rows.values().filter(ended).count()).unwrap_or(u64::MAX))
    }

    async fn count_reachable_dead(&self, after: Timestamp) -> Result<u64, PortError> {
        let tables = locked(&self.tables);
        let reachable = tables.rows.values().filter(|row| row.state == State::Dead && row.deliver_by > after);
        Ok(u64::try_from(reachable.count()).unwrap_or(u64::MAX))
    }

    async fn ended(&self, query: &EndedQuery) -> Result<EndedPage, PortError> {
        Ok(locked(&self.tables).ended(query))
    }

    async fn of_run(&self, run: &RunId, start: Option<&DeliveryId>) -> Result<RunPage, PortError> {
        Ok(locked(&self.tables).of_run(run, start))
    }
}

impl Rows for MemoryLedger {
    async fn rows(&self, query: &RowsQuery) -> Result<RowsPage, PortError> {
        let tables = locked(&self.tables);
        let limit = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX).max(1);
        let after = |id: &DeliveryId| query.start.as_ref().is_none_or(|start| id.as_str() > start.partition.as_str());
        let mut rest = tables.rows.values().filter(|row| after(&row.id));
        let page: Vec<&Delivery> = rest.by_ref().take(limit).collect();
        let next = page.last().filter(|_| rest.next().is_some());
        let next = next.map(|last| RowsPlace { partition: last.id.to_string(), item: "delivery".into() });
        let wanted = |row: &&&Delivery| {
            row.destination == query.destination
                && row.deliver_by >= query.from
                && row.history.first().is_some_and(|created| created.at < query.until)
        };
        let rows = page.iter().filter(wanted).map(|row| (*row).clone()).collect();
        Ok(RowsPage { rows, unreadable: Vec::new(), next, read_units: 0.0 })
    }

    async fn rows_named(&self, ids: &[DeliveryId]) -> Result<RowsNamed, PortError> {
        Ok(RowsNamed { rows: self.read(ids).await?, unreadable: Vec::new() })
    }
}

/// Copies what differs between two rows, and names every field: a new one does not compile until it is listed.
macro_rules! copy_changed {
    ($into:ident, $before:ident, $after:ident: $($field:ident),+) => {{
        let Delivery { id: _, attempts: _, history: _, $($field: _),+ } = $after;
        $(if $before.$field != $after.$field { $into.$field.clone_from(&$after.$field); })+
    }};
}

/// Writes the difference only: what a write in between changed without a version stays.
fn merge(row: &mut Delivery, before: &Delivery, after: &Delivery) {
    copy_changed!(row, before, after:
        idempotency_key, reference, destination, shard, content, state, version, deliver_after, deliver_by,
        rule, next_attempt_at, floor, wake_at, held_until, lease_owner, lease_until, message, reason, shadow, granted, rescues,
        late_success, hold, cancel, death, dlq_sent, redrives, moves);
    row.history.extend_from_slice(after.history.get(before.history.len()..).unwrap_or_default());
    for (i, attempt) in after.attempts.iter().enumerate().filter(|(i, attempt)| before.attempts.get(*i) != Some(attempt)) {
        match row.attempts.get_mut(i) {
            Some(entry) => entry.clone_from(attempt),
            None => row.attempts.push(attempt.clone()),
        }
    }
}
