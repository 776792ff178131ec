//! I show what operators did, newest first.

use punctual_core::destination::FieldError;
use punctual_core::operation::{Operation, OperationPlace};
use punctual_core::ports::{Control, Ledger, Operations, Time};
use punctual_flows::FlowError;
use punctual_flows::input::strict;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Inspect, Response, cursor};

/// The most operations in one answer.
const MOST: u32 = 100;
/// What a cursor of mine is good for.
const QUESTION: &str = "operations";

/// The `operations` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationsInput {
    /// Always `operations`.
    pub action: String,
    /// How many; 1 to 100. Default 20.
    #[serde(default = "twenty")]
    pub limit: u32,
    /// Where to go on, from the answer before.
    #[serde(default)]
    pub cursor: Option<String>,
}

fn twenty() -> u32 {
    20
}

/// Reads and checks an event.
///
/// # Errors
/// [`FieldError`] that names the field.
pub fn read(event: &RawValue) -> Result<OperationsInput, FieldError> {
    let input: OperationsInput = strict(event, "")?;
    if !(1..=MOST).contains(&input.limit) {
        return Err(FieldError::new("out_of_bounds", "limit", format!("1 to {MOST}; got {}", input.limit)));
    }
    Ok(input)
}

impl<L: Ledger, C: Control + Operations, D, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn operations(&self, event: &RawValue) -> Result<Response, FlowError> {
        let input = match read(event) {
            Ok(input) => input,
            Err(error) => return Ok(Response::refused(error)),
        };
        let start = match input.cursor.as_deref().map(|text| cursor::read::<OperationPlace>(QUESTION, text)).transpose() {
            Ok(start) => start,
            Err(error) => return Ok(Response::refused(error)),
        };
        let page = self.control.operations(start.as_ref(), input.limit).await?;
        let text = page.operations.iter().map(line).collect();
        let cursor = page.next.and_then(|place| cursor::written(QUESTION, place).ok());
        Ok(Response { operations: page.operations, cursor, ..Response::answered(text) })
    }
}

fn line(o: &Operation) -> String {
    let outcome = serde_json::to_value(o.outcome).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    format!("{} {} {} of {} by {}: {}. Evidence: {}. {}", o.at, outcome, o.action, o.target, o.by, o.why, o.evidence, o.did)
}
