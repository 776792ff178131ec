//! I am a calendar as the control table has it: what was written, which version, and who wrote it.

use super::CalendarInput;
use crate::destination::Change;
use crate::id::CalendarId;

/// A calendar with its name and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCalendar {
    /// Its name.
    pub id: CalendarId,
    /// What was written; checked before it was stored.
    pub spec: CalendarInput,
    /// Counts the writes, from 1.
    pub version: u64,
    /// The last write: when, who, why.
    pub changed: Change,
}
