//! I am the report: fit to be kept with an audit, as JSON, with what was asked, of whom, and what was compared.

use std::collections::BTreeMap;

use punctual_core::reconcile::{Counts, Deviation, Kind, Place, Reckoning, Why};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use serde::Serialize;

use super::Request;
use super::export::Problems;

pub use super::export::{BadLine, Format, Input};

/// The report's form; another one has another number.
pub const FORM: u32 = 1;

/// Who asked, when and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) by: String,
    pub(super) at: Timestamp,
    pub(super) ledger: String,
}

/// What was read of the ledger.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Scanned {
    /// Rows of the destination that may have been called within the period.
    pub rows: u64,
    /// The read units that it cost.
    pub read_units: f64,
    /// The ids of rows that are there and cannot be read, of the scan or named by the export: they are not judged.
    pub unreadable: Vec<String>,
}

/// The whole report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    /// The report's form: [`FORM`].
    pub form: u32,
    /// What made it, with its version.
    pub made_by: String,
    /// Who asked, as declared.
    pub by: String,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// Which ledger was asked.
    pub ledger: String,
    /// Whose deliveries.
    pub destination_id: String,
    /// From this instant, inclusive.
    pub from: Timestamp,
    /// Up to this one, exclusive.
    pub until: Timestamp,
    /// By so much clocks may be off, in seconds.
    pub tolerance_seconds: u64,
    /// Whether both sides agree and all of both could be read.
    pub clean: bool,
    /// How many deliveries of each.
    pub counts: Counts,
    /// The export.
    pub inputs: Vec<Input>,
    /// The ledger.
    pub scanned: Scanned,
    /// The deviations, kind by kind in the order of their ids.
    pub deviations: Vec<Listed>,
    /// Deviations that are counted and not listed.
    pub deviations_not_listed: u64,
    /// Records of the export that cannot be read.
    pub unreadable_lines: Vec<BadLine>,
    /// Further ones.
    pub unreadable_lines_not_listed: u64,
}

/// A deviation as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Which kind.
    pub kind: Kind,
    /// Which delivery.
    pub delivery_id: String,
    /// Why it is unexpected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Where it stands in the ledger, if that has it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "word")]
    pub state: Option<State>,
    /// How many calls of the ledger may have reached the receiver.
    pub calls: u32,
    /// The number of the attempt that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_attempt: Option<u32>,
    /// When its call started, by the database's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
    /// How many records the export has of it.
    pub records: u64,
    /// The first four of them, as `file:line`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found_at: Vec<String>,
    /// The earliest time in the export.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_time: Option<Timestamp>,
    /// The latest one, if there are several records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_time: Option<Timestamp>,
}

fn word<S: serde::Serializer>(state: &Option<State>, serializer: S) -> Result<S::Ok, S::Error> {
    match state {
        Some(state) => serializer.serialize_some(state.as_str()),
        None => serializer.serialize_none(),
    }
}

impl Audit {
    pub(super) fn new(
        asked: Asked,
        request: &Request,
        inputs: Vec<Input>,
        problems: Problems,
        scanned: Scanned,
        reckoning: &Reckoning,
    ) -> Self {
        let names: BTreeMap<usize, &str> = inputs.iter().map(|input| input.file.as_str()).enumerate().collect();
        let deviations = reckoning.deviations().map(|deviation| listed(deviation, &names)).collect();
        let listed_problems = u64::try_from(problems.listed.len()).unwrap_or(u64::MAX);
        Self {
            form: FORM,
            made_by: concat!("punctual reconcile ", env!("CARGO_PKG_VERSION")).to_owned(),
            by: asked.by,
            at: asked.at,
            ledger: asked.ledger,
            destination_id: request.destination.to_string(),
            from: request.period.from,
            until: request.period.until,
            tolerance_seconds: request.period.tolerance.as_secs(),
            clean: reckoning.is_clean() && problems.count == 0 && scanned.unreadable.is_empty(),
            counts: reckoning.counts().clone(),
            deviations,
            deviations_not_listed: reckoning.not_listed(),
            unreadable_lines_not_listed: problems.count.saturating_sub(listed_problems),
            unreadable_lines: problems.listed,
            inputs,
            scanned,
        }
    }
}

fn listed(deviation: &Deviation, names: &BTreeMap<usize, &str>) -> Listed {
    let place = |Place { file, line }: &Place| format!("{}:{line}", names.get(&usize::from(*file)).copied().unwrap_or("?"));
    Listed {
        kind: deviation.kind,
        delivery_id: deviation.delivery_id.clone(),
        why: deviation.why,
        state: deviation.state,
        calls: deviation.calls,
        accepted_attempt: deviation.accepted.map(|accepted| accepted.attempt),
        accepted_at: deviation.accepted.map(|accepted| accepted.at),
        records: deviation.lines,
        found_at: deviation.places.iter().map(place).collect(),
        first_time: deviation.times.map(|(first, _)| first),
        last_time: deviation.times.map(|(_, last)| last).filter(|_| deviation.lines > 1),
    }
}
