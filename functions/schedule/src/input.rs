//! I am what the application sends, as it is written: strict, and read item by item, so that one bad item leaves the others
//! alone.

use punctual_core::calendar::due::DueInput;
use punctual_core::destination::FieldError;
use punctual_core::id::{DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference};
use punctual_core::time::Timestamp;
use punctual_flows::input::{action, strict};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::MAX_BATCH;
use crate::canary::{self, CanaryInput};

/// The `schedule` and `preview` actions.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScheduleInput {
    /// `schedule` stores; `preview` says what `schedule` would do, and changes nothing.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["schedule", "preview"])))]
    pub action: String,
    /// 1 to 1,000 reminders, each once: a second one is refused, the same content or not. Each is answered on its own.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Reminder>", length(min = 1, max = 1000)))]
    pub reminders: Vec<Box<RawValue>>,
}

/// The `reschedule` action.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RescheduleInput {
    /// Always `reschedule`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["reschedule"])))]
    pub action: String,
    /// 1 to 1,000 deliveries, each once, with their new instants; each is answered on its own.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Move>", length(min = 1, max = 1000)))]
    pub deliveries: Vec<Box<RawValue>>,
}

/// The `cancel` action.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CancelInput {
    /// Always `cancel`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["cancel"])))]
    pub action: String,
    /// Who takes them back; 1 to 64 characters. It stays on the rows.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub by: String,
    /// Why; 1 to 256 characters. It stays on the rows.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 256)))]
    pub why: String,
    /// 1 to 1,000 deliveries, each once; each is answered on its own.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Named>", length(min = 1, max = 1000)))]
    pub deliveries: Vec<Box<RawValue>>,
}

/// The `get` action.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GetInput {
    /// Always `get`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["get"])))]
    pub action: String,
    /// 1 to 1,000 deliveries, each once; each is answered on its own.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Named>", length(min = 1, max = 1000)))]
    pub deliveries: Vec<Box<RawValue>>,
}

/// One reminder. It is due either at given instants or by a rule.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reminder {
    /// Whose product; 1 to 32 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 32)))]
    pub tenant: String,
    /// Who is reminded; 1 to 64 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub subscriber: String,
    /// Which period of the contract; 1 to 32 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 32)))]
    pub renewal_period: String,
    /// Which of the period's reminders; 1 to 32 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 32)))]
    pub reminder_kind: String,
    /// A registered destination.
    pub destination_id: DestinationId,
    /// What the auditor asks by.
    pub reference: Reference,
    /// Not called before this instant; RFC 3339 with an offset. Without it there is a rule.
    #[serde(default)]
    pub deliver_after: Option<Timestamp>,
    /// The deadline; RFC 3339 with an offset. Without it the rule has one.
    #[serde(default)]
    pub deliver_by: Option<Timestamp>,
    /// When it is due, by a business calendar.
    #[serde(default)]
    pub rule: Option<DueInput>,
    /// The request's body: any JSON value; its exact text is sent; at most 256 KiB.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub payload: Box<RawValue>,
    /// For a reminder that another system already knows.
    #[serde(default)]
    pub migrated: Option<Migrated>,
}

/// The identity that a migrated reminder keeps.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Migrated {
    /// Its id; must not start with `dlv_`.
    pub delivery_id: DeliveryId,
    /// Its key; the id if not given.
    #[serde(default)]
    pub idempotency_key: Option<IdempotencyKey>,
}

/// What a reminder is; its id is derived from it.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Whose product.
    pub tenant: String,
    /// Who is reminded.
    pub subscriber: String,
    /// Which period of the contract.
    pub renewal_period: String,
    /// Which of the period's reminders.
    pub reminder_kind: String,
}

/// A delivery that is named: by exactly one of the two.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// By its id.
    #[serde(default)]
    pub delivery_id: Option<DeliveryId>,
    /// By what the reminder is; leads to a migrated one too.
    #[serde(default)]
    pub identity: Option<Identity>,
}

/// A delivery and its new instants: given, or by a rule.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// By its id.
    #[serde(default)]
    pub delivery_id: Option<DeliveryId>,
    /// By what the reminder is; leads to a migrated one too.
    #[serde(default)]
    pub identity: Option<Identity>,
    /// Not called before this instant; RFC 3339 with an offset. Without it there is a rule.
    #[serde(default)]
    pub deliver_after: Option<Timestamp>,
    /// The deadline; RFC 3339 with an offset. Without it the rule has one.
    #[serde(default)]
    pub deliver_by: Option<Timestamp>,
    /// When it is due, by a business calendar.
    #[serde(default)]
    pub rule: Option<DueInput>,
    /// Whether it may be called again although the answer of a call before was lost, at a destination with `on_unknown: review`.
    /// Without it such a delivery is refused: `needs_review`.
    #[serde(default)]
    pub may_repeat: bool,
}

/// Items, each good or not.
pub type Items<T> = Vec<Result<T, FieldError>>;

/// What is asked for.
#[derive(Debug)]
pub enum Action {
    /// Store reminders.
    Schedule(Items<Reminder>),
    /// Say what storing them would do.
    Preview(Items<Reminder>),
    /// Move deliveries to other instants.
    Reschedule(Items<Move>),
    /// Take deliveries back.
    Cancel {
        /// Who.
        by: String,
        /// Why.
        why: String,
        /// Which.
        deliveries: Items<Named>,
    },
    /// Say where deliveries stand.
    Get(Items<Named>),
    /// Send a canary.
    Canary(CanaryInput),
}

/// Reads an event.
///
/// # Errors
/// Every [`FieldError`] of the event as a whole.
pub fn read(event: &RawValue) -> Result<Action, Vec<FieldError>> {
    let one = |error| vec![error];
    let name = action(event, &["schedule", "preview", "reschedule", "cancel", "get", "canary"]).map_err(one)?;
    match name {
        "schedule" | "preview" => {
            let input: ScheduleInput = strict(event, "").map_err(one)?;
            let reminders = items(&input.reminders, "reminders").map_err(one)?;
            Ok(if name == "preview" { Action::Preview(reminders) } else { Action::Schedule(reminders) })
        }
        "reschedule" => {
            let input: RescheduleInput = strict(event, "").map_err(one)?;
            Ok(Action::Reschedule(items(&input.deliveries, "deliveries").map_err(one)?))
        }
        "cancel" => {
            let CancelInput { by, why, deliveries, .. } = strict(event, "").map_err(one)?;
            let mut errors = Vec::new();
            for (field, value, max) in [("by", &by, 64), ("why", &why, 256)] {
                if value.trim().is_empty() || value.chars().count() > max {
                    errors.push(FieldError::new("out_of_bounds", field, format!("1 to {max} characters")));
                }
            }
            let deliveries = match items(&deliveries, "deliveries") {
                Ok(deliveries) if errors.is_empty() => deliveries,
                Ok(_) => return Err(errors),
                Err(error) => {
                    errors.push(error);
                    return Err(errors);
                }
            };
            Ok(Action::Cancel { by, why, deliveries })
        }
        "canary" => canary::read(event).map(Action::Canary).map_err(one),
        _ => {
            let input: GetInput = strict(event, "").map_err(one)?;
            Ok(Action::Get(items(&input.deliveries, "deliveries").map_err(one)?))
        }
    }
}

fn items<T: serde::de::DeserializeOwned>(raw: &[Box<RawValue>], field: &str) -> Result<Items<T>, FieldError> {
    if raw.is_empty() || raw.len() > MAX_BATCH {
        return Err(FieldError::new("out_of_bounds", field, format!("1 to {MAX_BATCH} {field}; got {}", raw.len())));
    }
    Ok(raw.iter().enumerate().map(|(i, item)| strict(item, &format!("{field}[{i}]"))).collect())
}

impl Identity {
    /// The id of the reminder that it describes.
    #[must_use]
    pub fn derive(self) -> DeliveryId {
        let Self { tenant, subscriber, renewal_period, reminder_kind } = self;
        DeliveryId::derive(&IdentityParts { tenant, subscriber, renewal_period, reminder_kind })
    }
}
