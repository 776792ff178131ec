//! I read what an operator sends: strict, and never without who, why and evidence.

use punctual_core::calendar::CalendarInput;
use punctual_core::destination::{FieldError, Spec};
use punctual_core::id::{CalendarId, DeliveryId, DestinationId};
use punctual_core::settings::RetryMode;
use punctual_core::time::Timestamp;
use punctual_flows::input::{action, signed, strict};
use punctual_flows::record::Signed;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most attempts that one requeue grants.
const MOST_GRANTED: u32 = 100;

/// The `put_destination` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutDestination {
    /// Always `put_destination`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on, a ticket or a log line for example; 1 to 256 characters.
    pub evidence: String,
    /// The whole destination; it replaces the stored one, but keeps its pause.
    pub destination: Box<RawValue>,
    /// Only if this is the stored version; 0 for a new one. Without it the newest version is replaced.
    #[serde(default)]
    pub expected_version: Option<u64>,
    /// The destination, read.
    #[serde(skip)]
    pub spec: Option<Spec>,
}

/// The `put_calendar` action.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutCalendar {
    /// Always `put_calendar`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["put_calendar"])))]
    pub action: String,
    /// Who; 1 to 64 characters.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub by: String,
    /// Why; 1 to 256 characters.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 256)))]
    pub why: String,
    /// What that rests on, a ticket or the publication for example; 1 to 256 characters.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 256)))]
    pub evidence: String,
    /// Its name.
    pub calendar_id: CalendarId,
    /// The whole calendar; it replaces the stored one, imported holidays too. The answer names the days that go and come.
    #[cfg_attr(feature = "schema", schemars(with = "CalendarInput"))]
    pub calendar: Box<RawValue>,
    /// Only if this is the stored version; 0 for a new one. It must be given to replace a stored calendar by another one.
    #[serde(default)]
    pub expected_version: Option<u64>,
    /// The calendar, read.
    #[serde(skip)]
    pub spec: Option<CalendarInput>,
}

/// The `import_holidays` action.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ImportHolidays {
    /// Always `import_holidays`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["import_holidays"])))]
    pub action: String,
    /// Who; 1 to 64 characters.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub by: String,
    /// Why; 1 to 256 characters.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 256)))]
    pub why: String,
    /// What that rests on, a ticket or the publication for example; 1 to 256 characters.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 256)))]
    pub evidence: String,
    /// Which calendar; it must be registered.
    pub calendar_id: CalendarId,
    /// The text of a plain iCalendar file; at most 1 MiB. Its all-day events become holidays; none is taken away.
    pub ics: String,
    /// Only if this is the stored version.
    #[serde(default)]
    pub expected_version: Option<u64>,
}

/// The `pause`, `resume` and `promote` actions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnDestination {
    /// `pause`, `resume` or `promote`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on, a ticket or a log line for example; 1 to 256 characters.
    pub evidence: String,
    /// Which destination.
    pub destination_id: DestinationId,
}

/// The `hold`, `release`, `cancel` and `release_lease` actions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnDelivery {
    /// `hold`, `release`, `cancel` or `release_lease`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on, a ticket or a log line for example; 1 to 256 characters.
    pub evidence: String,
    /// Which delivery.
    pub delivery_id: DeliveryId,
}

/// The `requeue` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requeue {
    /// Always `requeue`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on, a ticket or a log line for example; 1 to 256 characters.
    pub evidence: String,
    /// Which delivery; dead or expired.
    pub delivery_id: DeliveryId,
    /// How many further attempts it is granted; 1 to 100.
    pub attempts: u32,
    /// A new deadline; used only where its own cannot be kept.
    #[serde(default)]
    pub deliver_by: Option<Timestamp>,
}

/// The `retry_mode` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRetryMode {
    /// Always `retry_mode`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on, a ticket or a log line for example; 1 to 256 characters.
    pub evidence: String,
    /// `retry`, or `dead_letter`: the kill switch.
    pub mode: RetryMode,
}

/// The `pause_dispatch` and `resume_dispatch` actions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnStage {
    /// `pause_dispatch` or `resume_dispatch`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on, a ticket or a log line for example; 1 to 256 characters.
    pub evidence: String,
}

/// What is asked for.
#[derive(Debug)]
pub enum Action {
    /// Register or replace a destination.
    PutDestination(Box<PutDestination>),
    /// Register or replace a calendar.
    PutCalendar(Box<PutCalendar>),
    /// Add holidays to a calendar.
    ImportHolidays(ImportHolidays),
    /// Pause a destination.
    Pause(OnDestination),
    /// Resume a destination.
    Resume(OnDestination),
    /// Make a destination live.
    Promote(OnDestination),
    /// Freeze a delivery.
    Hold(OnDelivery),
    /// Release a frozen delivery.
    Release(OnDelivery),
    /// Take a delivery back.
    Cancel(OnDelivery),
    /// Take back a lease whose holder is gone.
    ReleaseLease(OnDelivery),
    /// Bring a dead or expired delivery back.
    Requeue(Requeue),
    /// Move the kill switch.
    RetryMode(SetRetryMode),
    /// Switch dispatch's schedule off.
    PauseDispatch(OnStage),
    /// Switch dispatch's schedule on.
    ResumeDispatch(OnStage),
}

/// Every action by its word.
pub const ACTIONS: [&str; 14] = [
    "put_destination",
    "put_calendar",
    "import_holidays",
    "pause",
    "resume",
    "promote",
    "hold",
    "release",
    "cancel",
    "release_lease",
    "requeue",
    "retry_mode",
    "pause_dispatch",
    "resume_dispatch",
];

impl Action {
    /// Who asks for what, and of what.
    #[must_use]
    pub fn signed(&self) -> Signed {
        macro_rules! signed {
            ($input:expr, $target:expr) => {
                Signed {
                    action: $input.action.clone(),
                    by: $input.by.clone(),
                    why: $input.why.clone(),
                    evidence: $input.evidence.clone(),
                    target: $target,
                }
            };
        }
        match self {
            Self::PutDestination(input) => {
                let id = input.spec.as_ref().map_or_else(String::new, |spec| spec.id.to_string());
                signed!(input, format!("destination {id}"))
            }
            Self::PutCalendar(input) => signed!(input, format!("calendar {}", input.calendar_id)),
            Self::ImportHolidays(input) => signed!(input, format!("calendar {}", input.calendar_id)),
            Self::Pause(input) | Self::Resume(input) | Self::Promote(input) => {
                signed!(input, format!("destination {}", input.destination_id))
            }
            Self::Hold(input) | Self::Release(input) | Self::Cancel(input) | Self::ReleaseLease(input) => {
                signed!(input, format!("delivery {}", input.delivery_id))
            }
            Self::Requeue(input) => signed!(input, format!("delivery {}", input.delivery_id)),
            Self::RetryMode(input) => signed!(input, "stage".to_owned()),
            Self::PauseDispatch(input) | Self::ResumeDispatch(input) => signed!(input, "stage".to_owned()),
        }
    }
}

/// Reads an event.
///
/// # Errors
/// Every [`FieldError`] that can be told from the input alone.
pub fn read(event: &RawValue) -> Result<Action, Vec<FieldError>> {
    let one = |e| vec![e];
    match action(event, &ACTIONS).map_err(one)? {
        "put_destination" => {
            let mut input: PutDestination = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            input.spec = Some(strict(&input.destination, "destination").map_err(one)?);
            Ok(Action::PutDestination(Box::new(input)))
        }
        "put_calendar" => {
            let mut input: PutCalendar = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            input.spec = Some(strict(&input.calendar, "calendar").map_err(one)?);
            Ok(Action::PutCalendar(Box::new(input)))
        }
        "import_holidays" => {
            let input: ImportHolidays = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            Ok(Action::ImportHolidays(input))
        }
        name @ ("pause" | "resume" | "promote") => {
            let input: OnDestination = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            Ok(match name {
                "pause" => Action::Pause(input),
                "resume" => Action::Resume(input),
                _ => Action::Promote(input),
            })
        }
        "requeue" => {
            let input: Requeue = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            if !(1..=MOST_GRANTED).contains(&input.attempts) {
                let message = format!("1 to {MOST_GRANTED}; got {}", input.attempts);
                return Err(one(FieldError::new("out_of_bounds", "attempts", message)));
            }
            Ok(Action::Requeue(input))
        }
        "retry_mode" => {
            let input: SetRetryMode = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            Ok(Action::RetryMode(input))
        }
        name @ ("pause_dispatch" | "resume_dispatch") => {
            let input: OnStage = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            Ok(if name == "pause_dispatch" { Action::PauseDispatch(input) } else { Action::ResumeDispatch(input) })
        }
        name => {
            let input: OnDelivery = strict(event, "").map_err(one)?;
            signed(&input.by, &input.why, &input.evidence)?;
            Ok(match name {
                "hold" => Action::Hold(input),
                "release" => Action::Release(input),
                "release_lease" => Action::ReleaseLease(input),
                _ => Action::Cancel(input),
            })
        }
    }
}
