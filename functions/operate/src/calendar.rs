//! I write business calendars: the whole calendar, or holidays from an iCalendar file on top of it. Each write is versioned
//! and says who and why. Whoever replaces a calendar names the version that they have seen, and is told which days went.
//!
//! A calendar that changes moves no reminder that is stored: its instants were worked out when it was scheduled.

use punctual_core::calendar::{Added, CalendarInput, Replaced, StoredCalendar, ics, zone_data};
use punctual_core::destination::{Change, FieldError};
use punctual_core::id::CalendarId;
use punctual_core::ports::{Control, Ledger, Stored, Time};
use punctual_flows::FlowError;

use crate::input::{ImportHolidays, PutCalendar};
use crate::{Operate, Response};

/// What stays as it is, said to whoever changes a calendar.
const STORED_STAY: &str = "reminders that are stored keep their instants: reschedule moves them";

impl<L: Ledger, C: Control, K, T: Time> Operate<'_, L, C, K, T> {
    pub(crate) async fn put_calendar(&self, input: PutCalendar) -> Result<Response, FlowError> {
        let Some(spec) = input.spec else { return Ok(Response::wrong("missing_field", "calendar", "a calendar")) };
        if let Err(errors) = spec.check("calendar") {
            return Ok(Response::refused(errors));
        }
        let stored = self.stored_calendar(&input.calendar_id).await?;
        let version = stored.as_ref().map_or(0, |stored| stored.version);
        if stored.as_ref().is_some_and(|stored| stored.spec == spec) {
            // The same again, whatever version it expects: its first answer may have been lost.
            return Ok(Response::done(format!("nothing: {} is so already", input.calendar_id), version));
        }
        if let Some(problem) = outdated(input.expected_version, version) {
            return Ok(Response::refused(vec![problem]));
        }
        let Some(stored) = stored else {
            let did = format!("registered calendar {}; zone data {}", input.calendar_id, zone_data());
            return self.store_calendar((input.calendar_id, spec, version), (input.by, input.why), did, Vec::new()).await;
        };
        if input.expected_version.is_none() {
            let right =
                format!("the stored version, {version}; its days that this calendar leaves out go, imported holidays too");
            return Ok(Response::wrong("missing_field", "expected_version", right));
        }
        let replaced = stored.spec.replaced_by(&spec);
        let counts: String = replaced.iter().map(|one| format!("; {}", one.counts())).collect();
        let did = format!("replaced calendar {}{counts}; zone data {}; {STORED_STAY}", input.calendar_id, zone_data());
        let report = replaced.iter().flat_map(Replaced::lines).collect();
        self.store_calendar((input.calendar_id, spec, version), (input.by, input.why), did, report).await
    }

    pub(crate) async fn import_holidays(&self, input: ImportHolidays) -> Result<Response, FlowError> {
        let Some(stored) = self.stored_calendar(&input.calendar_id).await? else {
            return Ok(Response::wrong("unknown_calendar", "calendar_id", "a calendar that put_calendar has registered"));
        };
        if let Some(problem) = outdated(input.expected_version, stored.version) {
            return Ok(Response::refused(vec![problem]));
        }
        let import = match ics::read(input.ics.as_bytes()) {
            Ok(import) => import,
            Err(error) => return Ok(Response::refused(vec![error.field_error("ics")])),
        };
        let mut report = import.lines();
        if import.holidays.is_empty() {
            let nothing = Response::wrong("nothing_read", "ics", "a file with at least one all-day event; see the report");
            return Ok(Response { report, ..nothing });
        }
        let mut spec = stored.spec.clone();
        let added = spec.add_holidays(&import.holidays);
        report.extend(changes(&added));
        if let Err(errors) = spec.check("calendar") {
            return Ok(Response { report, ..Response::refused(errors) });
        }
        let Added { new, renamed, known } = added;
        if spec == stored.spec {
            let did = format!("nothing: calendar {} has all {known} of them already", input.calendar_id);
            return Ok(Response { report, ..Response::done(did, stored.version) });
        }
        let did = format!(
            "imported holidays into calendar {}: {} new, {} renamed, {known} known, {} ignored; {STORED_STAY}",
            input.calendar_id,
            new.len(),
            renamed.len(),
            import.ignored_count
        );
        self.store_calendar((input.calendar_id, spec, stored.version), (input.by, input.why), did, report).await
    }

    async fn stored_calendar(&self, id: &CalendarId) -> Result<Option<StoredCalendar>, FlowError> {
        Ok(self.control.lookup_calendars(std::slice::from_ref(id)).await?.into_iter().next())
    }

    async fn store_calendar(
        &self,
        (id, spec, version): (CalendarId, CalendarInput, u64),
        (by, why): (String, String),
        did: String,
        report: Vec<String>,
    ) -> Result<Response, FlowError> {
        let changed = Change { at: self.time.now()?.lo, by, why };
        let next = StoredCalendar { id, spec, version: version.saturating_add(1), changed };
        Ok(match self.control.put_calendar(&next, version).await? {
            Stored::Done => Response { report, ..Response::done(did, next.version) },
            Stored::Conflict => {
                Response::wrong("conflict", "calendar_id", "somebody wrote it just now; look at it and send this again")
            }
        })
    }
}

fn outdated(expected: Option<u64>, version: u64) -> Option<FieldError> {
    let expected = expected.filter(|expected| *expected != version)?;
    Some(FieldError::new("conflict", "expected_version", format!("the stored version, {version}; got {expected}")))
}

fn changes(added: &Added) -> Vec<String> {
    let line = |what: &str, date: &str, name: &str| format!("{what}: {date} {name}").trim_end().to_owned();
    let new = added.new.iter().map(|one| line("new", &one.date, &one.name));
    new.chain(added.renamed.iter().map(|one| line("renamed", &one.date, &one.name))).collect()
}
