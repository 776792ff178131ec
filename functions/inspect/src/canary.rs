//! I tell how far a canary has come, and which stage it does not come through.

use std::time::Duration;

use punctual_core::canary::{Patience, Sighting, absent, parts, report, text};
use punctual_core::destination::FieldError;
use punctual_core::explain::Whither;
use punctual_core::id::{CanaryRun, DeliveryId, DestinationId};
use punctual_core::limiter::Key;
use punctual_core::ports::{Control, Ledger, Letters, Limits, Time};
use punctual_flows::FlowError;
use punctual_flows::input::strict;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Inspect, Response};

/// The longest patience, in seconds.
const MOST: u32 = 3_600;

/// The `canary` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryInput {
    /// Always `canary`.
    pub action: String,
    /// Where it goes.
    pub destination_id: DestinationId,
    /// Its run, as schedule has told it.
    pub run: CanaryRun,
    /// How long each stage may take until it counts as broken, in seconds; 1 to 3,600. Without it, what is usual for each.
    #[serde(default)]
    pub patience_seconds: Option<u32>,
}

/// Reads and checks an event.
///
/// # Errors
/// The first [`FieldError`] that can be told from the input alone.
pub fn read(event: &RawValue) -> Result<CanaryInput, FieldError> {
    let input: CanaryInput = strict(event, "")?;
    match input.patience_seconds {
        Some(patience) if !(1..=MOST).contains(&patience) => {
            Err(FieldError::new("out_of_bounds", "patience_seconds", format!("1 to {MOST}; got {patience}")))
        }
        _ => Ok(input),
    }
}

impl<L: Ledger, C: Control + Limits, D: Letters, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn canary(&self, event: &RawValue) -> Result<Response, FlowError> {
        let CanaryInput { destination_id, run, patience_seconds, .. } = match read(event) {
            Ok(input) => input,
            Err(error) => return Ok(Response::refused(error)),
        };
        let id = DeliveryId::derive(&parts(&destination_id, &run));
        let watched = self.control.watch(std::slice::from_ref(&destination_id)).await?;
        let told = match self.ledger.partition(&id).await? {
            None => absent(&destination_id, &run),
            Some(found) => {
                let whither = Whither {
                    destination: watched.destinations.first(),
                    reach: watched.reach.first().map(|(_, reach)| reach),
                    settings: watched.settings,
                    ..Whither::default()
                };
                let booked = self.control.limit(&Key::of(&destination_id)).await?;
                let each = patience_seconds.map(|seconds| Duration::from_secs(u64::from(seconds)));
                let patience = Patience { tick: self.tick, each };
                report(&Sighting { row: &found.row, whither, booked }, &run, patience, self.time.now()?)
            }
        };
        Ok(Response { canary: Some(told.clone()), ..Response::answered(text(&told)) })
    }
}
