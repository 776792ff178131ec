//! I check a reminder: what its form alone can't say. Every error has a code, its field's path and what is right.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::clock::Now;
use punctual_core::delivery::Instants;
use punctual_core::delivery::{Delivery, MAX_BODY_BYTES, NewDelivery, Payload};
use punctual_core::destination::{Destination, FieldError};
use punctual_core::id::{
    Content, Correlation, DERIVED_PREFIX, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference,
};

use crate::input::Reminder;
use crate::when::{Calendars, Due, When};

/// What is known of the world when a reminder is checked.
#[derive(Debug)]
pub struct Known<'a> {
    /// The registered destinations that are named.
    pub destinations: &'a BTreeMap<DestinationId, Destination>,
    /// The registered calendars that are named.
    pub calendars: &'a Calendars,
    /// The stage's safety margin.
    pub margin: Duration,
    /// The database's time.
    pub now: Now,
    /// Joins history and logs.
    pub by: &'a Correlation,
}

/// What is wrong with a reminder: every error, and the steps of its rule.
pub type Wrong = (Vec<FieldError>, Vec<String>);

/// A reminder whose input is right.
#[derive(Debug)]
pub struct Checked {
    /// Its row, as new, if it may be stored now: its instants are those of now. Else nothing but what identifies it counts.
    pub row: Delivery,
    /// What it sends.
    pub payload: Payload,
    /// What it comes to now.
    pub due: Due,
    /// When it is due, as it is written.
    pub when: When,
}

impl Checked {
    /// Whether it may not be stored now. The same reminder that was stored before is answered all the same.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.due.instants.is_none() || !self.due.blocked.is_empty()
    }
}

impl Reminder {
    /// Checks it, and makes the row.
    ///
    /// # Errors
    /// Every [`FieldError`] of this reminder, and the steps of its rule.
    pub fn check(self, index: usize, known: &Known<'_>) -> Result<Checked, Wrong> {
        let field = format!("reminders[{index}]");
        let mut errors = Vec::new();
        let mut wrong = |code, name: &str, message: String| {
            errors.push(FieldError::new(code, format!("{field}.{name}"), message));
        };
        for (name, value, max) in [
            ("tenant", &self.tenant, 32),
            ("subscriber", &self.subscriber, 64),
            ("renewal_period", &self.renewal_period, 32),
            ("reminder_kind", &self.reminder_kind, 32),
        ] {
            if value.is_empty() || value.len() > max {
                wrong("out_of_bounds", name, format!("1 to {max} bytes; got {}", value.len()));
            }
        }
        let margin = match known.destinations.get(&self.destination_id) {
            Some(destination) => destination.margin(known.margin),
            None => {
                wrong("unknown_destination", "destination_id", "a destination that operate has registered".into());
                known.margin
            }
        };
        if self.payload.get().len() > MAX_BODY_BYTES {
            wrong("too_large", "payload", format!("at most {MAX_BODY_BYTES} bytes; got {}", self.payload.get().len()));
        }
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
        let when = match When::read(self.deliver_after, self.deliver_by, self.rule.as_ref(), &field) {
            Ok(when) => when,
            Err(form) => {
                errors.extend(form);
                return Err((errors, Vec::new()));
            }
        };
        let due = when.due(&field, known.calendars, margin, known.now);
        if errors.is_empty() {
            return Ok(self.checked(when, due, known));
        }
        errors.extend(due.blocked);
        Err((errors, due.steps))
    }

    fn parts(&self) -> IdentityParts {
        IdentityParts {
            tenant: self.tenant.clone(),
            subscriber: self.subscriber.clone(),
            renewal_period: self.renewal_period.clone(),
            reminder_kind: self.reminder_kind.clone(),
        }
    }

    fn checked(self, when: When, due: Due, known: &Known<'_>) -> Checked {
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
        let content = content(&body, &self.destination_id, &self.reference, &when);
        let shards = known.destinations.get(&self.destination_id).map_or(1, |d| d.spec.shards);
        let nothing = Instants { deliver_after: known.now.lo, deliver_by: known.now.lo };
        let Instants { deliver_after, deliver_by } = due.instants.unwrap_or(nothing);
        let mut row = Delivery::new(
            NewDelivery {
                idempotency_key: key,
                reference: self.reference,
                destination: self.destination_id,
                shard: id.shard(shards),
                content,
                deliver_after,
                deliver_by,
                id,
            },
            known.now.lo,
            known.by.clone(),
        );
        row.rule.clone_from(&due.rule);
        let payload = Payload { body, parts, deliver_after, deliver_by };
        Checked { row, payload, due, when }
    }
}

/// The hash of all that a reminder asks for.
#[must_use]
pub fn content(body: &[u8], destination: &DestinationId, reference: &Reference, when: &When) -> Content {
    let texts = when.content();
    let mut parts = vec![body, destination.as_str().as_bytes(), reference.as_str().as_bytes()];
    parts.extend(texts.iter().map(String::as_bytes));
    Content::of(&parts)
}
