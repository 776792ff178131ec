//! I am the control table in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use punctual_core::breaker::Reach;
use punctual_core::calendar::StoredCalendar;
use punctual_core::delivery::Lane;
use punctual_core::destination::{Change, Destination};
use punctual_core::figures::{Calls, Heartbeat};
use punctual_core::id::{CalendarId, DestinationId, RunId};
use punctual_core::limiter::{Key, Micros, Move, Moved};
use punctual_core::operation::{Operation, OperationPage, OperationPlace};
use punctual_core::ports::{Control, Cursor, Limits, Operations, Overview, PortError, ShadowPage, ShadowQuery, Stored, Watched};
use punctual_core::redrive::Run;
use punctual_core::rejections::Rejections;
use punctual_core::settings::{Settings, Switch};
use punctual_core::shadow::{ShadowEntry, ShadowPlace};

use super::locked;

/// The control table in memory.
#[derive(Debug, Default)]
pub struct MemoryControl {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    destinations: BTreeMap<DestinationId, Destination>,
    calendars: BTreeMap<CalendarId, StoredCalendar>,
    rejections: BTreeMap<DestinationId, Rejections>,
    limits: BTreeMap<Key, Micros>,
    calls: BTreeMap<Key, Calls>,
    heartbeats: BTreeMap<String, Heartbeat>,
    reach: BTreeMap<DestinationId, Reach>,
    settings: Settings,
    cursors: BTreeMap<Lane, Cursor>,
    runs: BTreeMap<RunId, Run>,
    freeze: Option<Change>,
    operations: BTreeMap<OperationPlace, Operation>,
    shadow: BTreeMap<(DestinationId, ShadowPlace), ShadowEntry>,
}

impl MemoryControl {
    /// Sets the stage's switches, as an operator does in the console.
    pub fn set_settings(&self, settings: Settings) {
        locked(&self.tables).settings = settings;
    }
}

impl Limits for MemoryControl {
    async fn limit(&self, key: &Key) -> Result<Option<Micros>, PortError> {
        Ok(locked(&self.tables).limits.get(key).copied())
    }
}

impl Control for MemoryControl {
    async fn destinations(&self) -> Result<Vec<Destination>, PortError> {
        Ok(locked(&self.tables).destinations.values().cloned().collect())
    }

    async fn lookup(&self, ids: &[DestinationId]) -> Result<(Vec<Destination>, Settings), PortError> {
        let tables = locked(&self.tables);
        let distinct: BTreeSet<&DestinationId> = ids.iter().collect();
        Ok((distinct.into_iter().filter_map(|id| tables.destinations.get(id).cloned()).collect(), tables.settings))
    }

    async fn watch(&self, ids: &[DestinationId]) -> Result<Watched, PortError> {
        let (destinations, settings) = self.lookup(ids).await?;
        let tables = locked(&self.tables);
        let distinct: BTreeSet<&DestinationId> = ids.iter().collect();
        let rejections = distinct.iter().filter_map(|id| Some(((*id).clone(), tables.rejections.get(*id)?.clone())));
        let reach = distinct.iter().filter_map(|id| Some(((*id).clone(), tables.reach.get(*id)?.clone())));
        Ok(Watched { destinations, rejections: rejections.collect(), reach: reach.collect(), settings })
    }

    async fn note_rejections(&self, id: &DestinationId, rejections: &Rejections) -> Result<Stored, PortError> {
        let mut tables = locked(&self.tables);
        match tables.rejections.get(id) {
            // This very write again.
            Some(stored) if stored == rejections => return Ok(Stored::Done),
            stored if stored.map_or(0, |stored| stored.version).saturating_add(1) != rejections.version => {
                return Ok(Stored::Conflict);
            }
            _ => {}
        }
        tables.rejections.insert(id.clone(), rejections.clone());
        Ok(Stored::Done)
    }

    async fn move_limit(&self, key: &Key, write: Move) -> Result<Moved, PortError> {
        self.move_limit_counting(key, write, Calls::default()).await
    }

    async fn move_limit_counting(&self, key: &Key, write: Move, calls: Calls) -> Result<Moved, PortError> {
        let mut tables = locked(&self.tables);
        let is = tables.limits.get(key).copied();
        let Some(now) = write.apply(is) else { return Ok(Moved::Refused { is }) };
        tables.limits.insert(key.clone(), now);
        tables.calls.entry(key.clone()).or_default().add(calls);
        Ok(Moved::Done { now })
    }

    async fn reaches(&self) -> Result<Vec<(DestinationId, Reach)>, PortError> {
        Ok(locked(&self.tables).reach.iter().map(|(id, reach)| (id.clone(), reach.clone())).collect())
    }

    async fn note_reach(&self, id: &DestinationId, reach: &Reach) -> Result<Stored, PortError> {
        let mut tables = locked(&self.tables);
        match tables.reach.get(id) {
            // This very write again.
            Some(stored) if stored == reach => return Ok(Stored::Done),
            stored if stored.map_or(0, |stored| stored.version).saturating_add(1) != reach.version => {
                return Ok(Stored::Conflict);
            }
            _ => {}
        }
        tables.reach.insert(id.clone(), reach.clone());
        Ok(Stored::Done)
    }

    async fn put_destination(&self, destination: &Destination, expected: u64) -> Result<Stored, PortError> {
        let mut tables = locked(&self.tables);
        let id = &destination.spec.id;
        match tables.destinations.get(id) {
            // This very write again.
            Some(stored) if stored == destination => return Ok(Stored::Done),
            Some(stored) if expected == 0 || stored.version != expected => return Ok(Stored::Conflict),
            None if expected != 0 => return Ok(Stored::Conflict),
            _ => {}
        }
        tables.destinations.insert(id.clone(), destination.clone());
        Ok(Stored::Done)
    }

    async fn calendars(&self) -> Result<Vec<StoredCalendar>, PortError> {
        Ok(locked(&self.tables).calendars.values().cloned().collect())
    }

    async fn lookup_calendars(&self, ids: &[CalendarId]) -> Result<Vec<StoredCalendar>, PortError> {
        let tables = locked(&self.tables);
        let distinct: BTreeSet<&CalendarId> = ids.iter().collect();
        Ok(distinct.into_iter().filter_map(|id| tables.calendars.get(id).cloned()).collect())
    }

    async fn put_calendar(&self, calendar: &StoredCalendar, expected: u64) -> Result<Stored, PortError> {
        let mut tables = locked(&self.tables);
        match tables.calendars.get(&calendar.id) {
            // This very write again.
            Some(stored) if stored == calendar => return Ok(Stored::Done),
            Some(stored) if expected == 0 || stored.version != expected => return Ok(Stored::Conflict),
            None if expected != 0 => return Ok(Stored::Conflict),
            _ => {}
        }
        tables.calendars.insert(calendar.id.clone(), calendar.clone());
        Ok(Stored::Done)
    }

    async fn run(&self, id: &RunId) -> Result<Option<Run>, PortError> {
        Ok(locked(&self.tables).runs.get(id).cloned())
    }

    async fn runs(&self) -> Result<Vec<Run>, PortError> {
        Ok(locked(&self.tables).runs.values().cloned().collect())
    }

    async fn put_run(&self, run: &Run, expected: u64) -> Result<Stored, PortError> {
        let mut tables = locked(&self.tables);
        match tables.runs.get(&run.id) {
            // This very write again.
            Some(stored) if stored == run => return Ok(Stored::Done),
            Some(stored) if expected == 0 || stored.version != expected => return Ok(Stored::Conflict),
            None if expected != 0 => return Ok(Stored::Conflict),
            _ => {}
        }
        tables.runs.insert(run.id.clone(), run.clone());
        Ok(Stored::Done)
    }

    async fn freeze(&self) -> Result<Option<Change>, PortError> {
        Ok(locked(&self.tables).freeze.clone())
    }

    async fn put_freeze(&self, freeze: Option<&Change>) -> Result<(), PortError> {
        locked(&self.tables).freeze = freeze.cloned();
        Ok(())
    }

    async fn cursors(&self) -> Result<Vec<(Lane, Cursor)>, PortError> {
        Ok(locked(&self.tables).cursors.iter().map(|(lane, cursor)| (lane.clone(), cursor.clone())).collect())
    }

    async fn keep_cursor(&self, lane: &Lane, cursor: Option<&Cursor>) -> Result<(), PortError> {
        let mut tables = locked(&self.tables);
        match cursor {
            Some(cursor) => tables.cursors.insert(lane.clone(), cursor.clone()),
            None => tables.cursors.remove(lane),
        };
        Ok(())
    }

    async fn note_heartbeat(&self, function: &str, heartbeat: &Heartbeat) -> Result<(), PortError> {
        locked(&self.tables).heartbeats.insert(function.to_owned(), heartbeat.clone());
        Ok(())
    }

    async fn post_shadow(&self, entry: &ShadowEntry) -> Result<(), PortError> {
        locked(&self.tables).shadow.insert((entry.destination.clone(), entry.place()), entry.clone());
        Ok(())
    }

    async fn shadow_entries(&self, query: &ShadowQuery) -> Result<ShadowPage, PortError> {
        let tables = locked(&self.tables);
        let wanted = tables.shadow.iter().filter(|((destination, place), _)| {
            *destination == query.destination
                && (query.from..query.until).contains(&place.deliver_after)
                && query.start.as_ref().is_none_or(|start| place > start)
        });
        Ok(ShadowPage { entries: wanted.map(|(_, entry)| entry.clone()).collect(), next: None })
    }
}

impl Overview for MemoryControl {
    async fn rejections(&self) -> Result<Vec<(DestinationId, Rejections)>, PortError> {
        Ok(locked(&self.tables).rejections.iter().map(|(id, rejections)| (id.clone(), rejections.clone())).collect())
    }

    async fn calls(&self) -> Result<Vec<(DestinationId, Calls)>, PortError> {
        Ok(locked(&self.tables).calls.iter().filter_map(|(key, calls)| Some((key.destination()?, *calls))).collect())
    }

    async fn heartbeat(&self, function: &str) -> Result<Option<Heartbeat>, PortError> {
        Ok(locked(&self.tables).heartbeats.get(function).cloned())
    }
}

impl Operations for MemoryControl {
    async fn switch(&self, switch: Switch) -> Result<(), PortError> {
        let mut tables = locked(&self.tables);
        tables.settings = tables.settings.with(switch);
        Ok(())
    }

    async fn record(&self, operation: &Operation) -> Result<(), PortError> {
        locked(&self.tables).operations.insert(operation.place(), operation.clone());
        Ok(())
    }

    async fn operations(&self, start: Option<&OperationPlace>, limit: u32) -> Result<OperationPage, PortError> {
        let tables = locked(&self.tables);
        let behind = |place: &&OperationPlace| start.is_none_or(|start| *place < start);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(1);
        let places: Vec<&OperationPlace> = tables.operations.keys().rev().filter(behind).collect();
        let page: Vec<Operation> = places.iter().take(limit).filter_map(|place| tables.operations.get(*place).cloned()).collect();
        // Whoever has read as many as he asked for has not seen that there is no more.
        let next = if places.len() >= limit { page.last().map(Operation::place) } else { None };
        Ok(OperationPage { operations: page, next })
    }
}
