//! I read what an operator, or a slice's schedule, sends: strict, and a change never without who, why and evidence.

use punctual_core::destination::FieldError;
use punctual_core::id::RunId;
use punctual_core::redrive::run::{ATTEMPTS, CANARY_SECONDS};
use punctual_core::redrive::{Order, Selection};
use punctual_core::time::Timestamp;
use punctual_flows::input::{action, signed, strict};
use punctual_flows::record::Signed;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::record::REDRIVING;

/// Every action.
pub const ACTIONS: [&str; 8] = ["plan", "start", "status", "abort", "resume", "freeze", "unfreeze", "slice"];

/// Where the selection stands in the input.
const SELECTION: &str = "selection";

/// The `plan` action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanInput {
    /// Which rows.
    pub selection: Selection,
    /// Calls per second for each destination; each destination's own redrive cap unless given.
    pub rate_per_second: Option<u32>,
    /// Attempts granted to each row; 1 to 20.
    pub attempts: u32,
    /// A new deadline for rows whose own cannot be kept.
    pub deliver_by: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    #[serde(rename = "action")]
    _action: String,
    selection: Box<RawValue>,
    #[serde(default)]
    rate_per_second: Option<u32>,
    #[serde(default = "attempts")]
    attempts: u32,
    #[serde(default)]
    deliver_by: Option<Timestamp>,
}

/// The `start` action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOrder {
    #[serde(rename = "action")]
    _action: String,
    owner: String,
    why: String,
    evidence: String,
    selection: Box<RawValue>,
    max_count: u32,
    rate_per_second: u32,
    canary_size: u32,
    abort_threshold_percent: u32,
    #[serde(default = "canary_seconds")]
    canary_seconds: u32,
    #[serde(default = "attempts")]
    attempts: u32,
    #[serde(default)]
    deliver_by: Option<Timestamp>,
}

fn canary_seconds() -> u32 {
    CANARY_SECONDS
}

fn attempts() -> u32 {
    ATTEMPTS
}

fn not_given() -> String {
    "not given".to_owned()
}

/// The `status` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusInput {
    /// Always `status`.
    pub action: String,
    /// Which run; all of them, briefly, unless given.
    #[serde(default)]
    pub run_id: Option<RunId>,
}

/// The `abort` and `resume` actions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnRun {
    /// `abort` or `resume`.
    pub action: String,
    /// Which run.
    pub run_id: RunId,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on, a ticket or a log line for example; 1 to 256 characters.
    #[serde(default = "not_given")]
    pub evidence: String,
}

/// The `freeze` and `unfreeze` actions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnAll {
    /// `freeze` or `unfreeze`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on, a ticket or a log line for example; 1 to 256 characters.
    #[serde(default = "not_given")]
    pub evidence: String,
}

/// The `slice` action: what a one-time schedule sends. From the console it makes up for a schedule that never came.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceInput {
    /// Always `slice`.
    pub action: String,
    /// Which run.
    pub run_id: RunId,
    /// Which of its slices, from 1.
    pub slice: u32,
}

impl OnRun {
    pub(crate) fn signed(&self) -> Signed {
        let Self { action, run_id, by, why, evidence } = self;
        signed_by(action, (by, why, evidence), format!("run {run_id}"))
    }
}

impl OnAll {
    pub(crate) fn signed(&self) -> Signed {
        let Self { action, by, why, evidence } = self;
        signed_by(action, (by, why, evidence), REDRIVING.to_owned())
    }
}

/// Who starts a run.
pub(crate) fn signed_order(order: &Order) -> Signed {
    signed_by("start", (&order.owner, &order.why, &order.evidence), REDRIVING.to_owned())
}

fn signed_by(action: &str, (by, why, evidence): (&str, &str, &str), target: String) -> Signed {
    Signed { action: action.to_owned(), by: by.to_owned(), why: why.to_owned(), evidence: evidence.to_owned(), target }
}

/// What is asked for.
#[derive(Debug)]
pub enum Action {
    /// Say what a run would do.
    Plan(Box<PlanInput>),
    /// Start a run.
    Start(Box<Order>),
    /// Say how a run, or every run, stands.
    Status(StatusInput),
    /// End a run.
    Abort(OnRun),
    /// Let a stopped run go on.
    Resume(OnRun),
    /// Freeze all redriving.
    Freeze(OnAll),
    /// Let it go on.
    Unfreeze(OnAll),
    /// Take a run one slice further.
    Slice(SliceInput),
}

/// Reads an event.
///
/// # Errors
/// Every [`FieldError`] that can be told from the input alone, except for what an [`Order`] says of itself.
pub fn read(event: &RawValue) -> Result<Action, Vec<FieldError>> {
    let one = |e| vec![e];
    match action(event, &ACTIONS).map_err(one)? {
        "plan" => plan(strict(event, "").map_err(one)?).map(|input| Action::Plan(Box::new(input))),
        "start" => order(strict(event, "").map_err(one)?).map(|order| Action::Start(Box::new(order))).map_err(one),
        "status" => Ok(Action::Status(strict(event, "").map_err(one)?)),
        name @ ("abort" | "resume") => {
            let input: OnRun = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            Ok(if name == "abort" { Action::Abort(input) } else { Action::Resume(input) })
        }
        name @ ("freeze" | "unfreeze") => {
            let input: OnAll = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            Ok(if name == "freeze" { Action::Freeze(input) } else { Action::Unfreeze(input) })
        }
        _ => Ok(Action::Slice(strict(event, "").map_err(one)?)),
    }
}

fn plan(input: RawPlan) -> Result<PlanInput, Vec<FieldError>> {
    let RawPlan { _action, selection, rate_per_second, attempts, deliver_by } = input;
    let selection: Selection = strict(&selection, SELECTION).map_err(|e| vec![e])?;
    let mut problems = selection.problems(SELECTION);
    problems.extend(bounds("rate_per_second", rate_per_second.unwrap_or(1), 1_000));
    problems.extend(bounds("attempts", attempts, 20));
    if problems.is_empty() { Ok(PlanInput { selection, rate_per_second, attempts, deliver_by }) } else { Err(problems) }
}

fn order(input: RawOrder) -> Result<Order, FieldError> {
    let selection = strict(&input.selection, SELECTION)?;
    Ok(Order {
        owner: input.owner,
        why: input.why,
        evidence: input.evidence,
        selection,
        max_count: input.max_count,
        rate_per_second: input.rate_per_second,
        canary_size: input.canary_size,
        abort_threshold_percent: input.abort_threshold_percent,
        canary_seconds: input.canary_seconds,
        attempts: input.attempts,
        deliver_by: input.deliver_by,
    })
}

fn bounds(field: &str, value: u32, max: u32) -> Option<FieldError> {
    (!(1..=max).contains(&value)).then(|| FieldError::new("out_of_bounds", field, format!("1 to {max}; got {value}")))
}
