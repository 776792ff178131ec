//! I send a canary: one marked reminder, due at once, through the same checks and the same store as any other.
//!
//! Only I do not release it: dispatch must take it, because dispatch is a stage of its way.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::canary::{MARK, parts};
use punctual_core::destination::{Destination, FieldError};
use punctual_core::id::{CanaryRun, DestinationId, IdentityParts, Reference};
use punctual_core::ports::{Control, Ledger, Queue, Time};
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;
use punctual_flows::input::strict;
use punctual_flows::release::Tally;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::Schedule;
use crate::check::Known;
use crate::input::Reminder;
use crate::result::{ItemResult, Response};
use crate::when::Calendars;

/// How long it has, in seconds, unless the event says otherwise; and the bounds of that.
const WITHIN: u32 = 600;
const LEAST: u32 = 60;
const MOST: u32 = 3_600;

/// The `canary` action.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CanaryInput {
    /// Always `canary`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["canary"])))]
    pub action: String,
    /// A destination that is registered for it.
    pub destination_id: DestinationId,
    /// Its name, the same again is the same canary; 1 to 24 characters. Without it, the present instant.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<CanaryRun>,
    /// From now to its deadline, in seconds; 60 to 3,600. Default 600.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 60, max = 3600)))]
    pub within_seconds: Option<u32>,
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Its run.
    pub run: CanaryRun,
    /// What to send to inspect, to see how far it has come.
    pub ask_inspect: serde_json::Value,
}

/// Reads and checks an event.
///
/// # Errors
/// The first [`FieldError`] that can be told from the input alone.
pub fn read(event: &RawValue) -> Result<CanaryInput, FieldError> {
    let input: CanaryInput = strict(event, "")?;
    match input.within_seconds {
        Some(within) if !(LEAST..=MOST).contains(&within) => {
            Err(FieldError::new("out_of_bounds", "within_seconds", format!("{LEAST} to {MOST}; got {within}")))
        }
        _ => Ok(input),
    }
}

impl<L: Ledger, C: Control, Q: Queue, T: Time> Schedule<'_, L, C, Q, T> {
    pub(crate) async fn canary(&self, input: CanaryInput) -> Result<Response, FlowError> {
        let CanaryInput { destination_id, run, within_seconds, .. } = input;
        let (destinations, _) = self.control.lookup(std::slice::from_ref(&destination_id)).await?;
        let destinations: BTreeMap<DestinationId, Destination> =
            destinations.into_iter().map(|found| (found.spec.id.clone(), found)).collect();
        let now = self.time.now()?;
        let named = run.ok_or(()).or_else(|()| CanaryRun::new(now.lo.to_string()));
        let run = match named {
            Ok(run) => run,
            Err(error) => return Ok(Response::refused(vec![FieldError::new("invalid_field", "run", error.to_string())])),
        };
        let ask_inspect = json!({"action": "canary", "destination_id": destination_id, "run": run});
        let within = Duration::from_secs(u64::from(within_seconds.unwrap_or(WITHIN)));
        let calendars = Calendars::new();
        let known = Known { destinations: &destinations, calendars: &calendars, margin: self.margin, now, by: &self.by };
        let checked = reminder(&destination_id, &run, (now.lo, now.lo.plus(within)))
            .and_then(|reminder| reminder.check(0, &known).map_err(|(errors, _)| errors));
        let checked = match checked {
            Ok(checked) => checked,
            Err(errors) => return Ok(Response::refused(errors.into_iter().map(of_canary).collect())),
        };
        // The same run at another instant is the same canary, and no conflict.
        let item = match self.ledger.read_one(&checked.row.id).await? {
            Some(stored) => ItemResult::unchanged(stored),
            None => self.store_one(Ok(checked), false).await,
        };
        Ok(Response { canary: Some(Sent { run, ask_inspect }), ..Response::of(vec![item], Tally::default()) })
    }
}

fn reminder(destination: &DestinationId, run: &CanaryRun, window: (Timestamp, Timestamp)) -> Result<Reminder, Vec<FieldError>> {
    let IdentityParts { tenant, subscriber, renewal_period, reminder_kind } = parts(destination, run);
    let wrong = |error: &dyn std::fmt::Display| vec![FieldError::new("invalid_field", "run", error.to_string())];
    Ok(Reminder {
        tenant,
        subscriber,
        renewal_period,
        reminder_kind,
        destination_id: destination.clone(),
        reference: Reference::new(format!("{MARK}/{destination}/{run}")).map_err(|e| wrong(&e))?,
        deliver_after: Some(window.0),
        deliver_by: Some(window.1),
        rule: None,
        payload: to_raw_value(&json!({"canary": true, "run": run, "due": window.0})).map_err(|e| wrong(&e))?,
        migrated: None,
    })
}

/// The field of the canary's own event that a reminder's error is about.
fn of_canary(error: FieldError) -> FieldError {
    let field = match error.field.rsplit('.').next() {
        Some("deliver_by") => "within_seconds",
        Some("destination_id") => "destination_id",
        _ => "run",
    };
    FieldError { field: field.to_owned(), ..error }
}
