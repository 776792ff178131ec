//! I read and check what the application sends: strict, every error with a code, its field's path and what is right.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, MAX_BODY_BYTES, NewDelivery, Payload};
use punctual_core::destination::{Destination, FieldError};
use punctual_core::id::{
    Content, Correlation, DERIVED_PREFIX, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference,
};
use punctual_core::retry::last_safe_start;
use punctual_core::time::Timestamp;
use punctual_flows::input::{action, strict};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::MAX_BATCH;

/// The `schedule` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleInput {
    /// Always `schedule`.
    pub action: String,
    /// 1 to 1,000 reminders; each is answered on its own.
    pub reminders: Vec<Box<RawValue>>,
}

/// One reminder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reminder {
    /// Whose product; 1 to 32 bytes.
    pub tenant: String,
    /// Who is reminded; 1 to 64 bytes.
    pub subscriber: String,
    /// Which period of the contract; 1 to 32 bytes.
    pub renewal_period: String,
    /// Which of the period's reminders; 1 to 32 bytes.
    pub reminder_kind: String,
    /// A registered destination.
    pub destination_id: DestinationId,
    /// What the auditor asks by.
    pub reference: Reference,
    /// Not called before this instant; RFC 3339 with an offset.
    pub deliver_after: Timestamp,
    /// The deadline; RFC 3339 with an offset.
    pub deliver_by: Timestamp,
    /// The request's body: any JSON value; its exact text is sent; at most 256 KiB.
    pub payload: Box<RawValue>,
    /// For a reminder that another system already knows.
    #[serde(default)]
    pub migrated: Option<Migrated>,
}

/// The identity that a migrated reminder keeps.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migrated {
    /// Its id; must not start with `dlv_`.
    pub delivery_id: DeliveryId,
    /// Its key; the id if not given.
    #[serde(default)]
    pub idempotency_key: Option<IdempotencyKey>,
}

/// A reminder that may be stored.
#[derive(Debug)]
pub struct Checked {
    /// Its row, as new.
    pub row: Delivery,
    /// What it sends.
    pub payload: Payload,
    /// Its deadline can no longer be met: only a reminder that was stored before is answered, none is stored.
    pub late: Option<FieldError>,
}

/// Reads an event into reminders, each good or not.
///
/// # Errors
/// [`FieldError`] if the event as a whole is none of ours.
pub fn read(event: &RawValue) -> Result<Vec<Result<Reminder, FieldError>>, FieldError> {
    action(event, &["schedule"])?;
    let input: ScheduleInput = strict(event, "")?;
    if input.reminders.is_empty() || input.reminders.len() > MAX_BATCH {
        let message = format!("1 to {MAX_BATCH} reminders; got {}", input.reminders.len());
        return Err(FieldError::new("out_of_bounds", "reminders", message));
    }
    Ok(input.reminders.iter().enumerate().map(|(i, raw)| strict(raw, &format!("reminders[{i}]"))).collect())
}

impl Reminder {
    /// Checks what the form alone can't say, and makes the row.
    ///
    /// # Errors
    /// Every [`FieldError`] of this reminder.
    pub fn check(
        self,
        index: usize,
        destinations: &BTreeMap<DestinationId, Destination>,
        margin: Duration,
        now: Now,
        by: &Correlation,
    ) -> Result<Checked, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut wrong = |code, field: &str, message: String| {
            errors.push(FieldError::new(code, format!("reminders[{index}].{field}"), message));
        };
        for (field, value, max) in [
            ("tenant", &self.tenant, 32),
            ("subscriber", &self.subscriber, 64),
            ("renewal_period", &self.renewal_period, 32),
            ("reminder_kind", &self.reminder_kind, 32),
        ] {
            if value.is_empty() || value.len() > max {
                wrong("out_of_bounds", field, format!("1 to {max} bytes; got {}", value.len()));
            }
        }
        let margin = match destinations.get(&self.destination_id) {
            Some(destination) => destination.margin(margin),
            None => {
                wrong("unknown_destination", "destination_id", "a destination that operate has registered".into());
                margin
            }
        };
        if self.payload.get().len() > MAX_BODY_BYTES {
            wrong("too_large", "payload", format!("at most {MAX_BODY_BYTES} bytes; got {}", self.payload.get().len()));
        }
        let last = last_safe_start(self.deliver_by, margin);
        if self.deliver_by <= self.deliver_after {
            wrong("not_after", "deliver_by", format!("later than deliver_after {}", self.deliver_after));
        } else if last < self.deliver_after {
            wrong(
                "too_narrow",
                "deliver_by",
                format!("at least {} s after deliver_after {}", margin.as_secs(), self.deliver_after),
            );
        }
        let late = now.may_have_reached(last).then(|| {
            let message = format!("more than {} s after now; it is {}", margin.as_secs(), now.hi);
            FieldError::new("in_the_past", format!("reminders[{index}].deliver_by"), message)
        });
        if self.migrated.as_ref().is_some_and(|m| m.delivery_id.is_derived()) {
            wrong("reserved", "migrated.delivery_id", format!("an id that does not start with {DERIVED_PREFIX}"));
        }
        let own = self.parts();
        let key = self.migrated.as_ref().and_then(|m| m.idempotency_key.as_ref());
        if key.is_some_and(|key| key.as_str().starts_with(DERIVED_PREFIX) && key.as_str() != DeliveryId::derive(&own).as_str()) {
            wrong(
                "reserved",
                "migrated.idempotency_key",
                format!("a key that does not start with {DERIVED_PREFIX}: it is another delivery's"),
            );
        }
        if errors.is_empty() {
            return Ok(Checked { late, ..self.row(destinations, now, by) });
        }
        errors.extend(late.filter(|late| errors.iter().all(|e| e.field != late.field)));
        Err(errors)
    }

    fn parts(&self) -> IdentityParts {
        IdentityParts {
            tenant: self.tenant.clone(),
            subscriber: self.subscriber.clone(),
            renewal_period: self.renewal_period.clone(),
            reminder_kind: self.reminder_kind.clone(),
        }
    }

    fn row(self, destinations: &BTreeMap<DestinationId, Destination>, now: Now, by: &Correlation) -> Checked {
        let parts = self.parts();
        let (id, key) = match self.migrated {
            Some(migrated) => {
                let key = migrated.idempotency_key.unwrap_or_else(|| IdempotencyKey::from(&migrated.delivery_id));
                (migrated.delivery_id, key)
            }
            None => {
                let id = DeliveryId::derive(&parts);
                let key = IdempotencyKey::from(&id);
                (id, key)
            }
        };
        let body = self.payload.get().as_bytes().to_vec();
        let (after, by_text) = (self.deliver_after.to_string(), self.deliver_by.to_string());
        let content = Content::of(&[
            &body,
            self.destination_id.as_str().as_bytes(),
            self.reference.as_str().as_bytes(),
            after.as_bytes(),
            by_text.as_bytes(),
        ]);
        let shards = destinations.get(&self.destination_id).map_or(1, |d| d.spec.shards);
        let row = Delivery::new(
            NewDelivery {
                idempotency_key: key,
                reference: self.reference,
                destination: self.destination_id,
                shard: id.shard(shards),
                content,
                deliver_after: self.deliver_after,
                deliver_by: self.deliver_by,
                id,
            },
            now.lo,
            by.clone(),
        );
        let payload = Payload { body, parts, deliver_after: row.deliver_after, deliver_by: row.deliver_by };
        Checked { row, payload, late: None }
    }
}
