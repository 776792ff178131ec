//! I make one attempt for a row that is ours, and record its outcome and release the row in one write.
//!
//! An outcome that lost its fence is never dropped: it fills its attempt's entry, and a 2xx moves the row.

use std::time::Duration;

use punctual_adapters::webhook::{HeaderInput, headers};
use punctual_core::acquire::can_start;
use punctual_core::breaker::Heard;
use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, Payload};
use punctual_core::destination::Destination;
use punctual_core::id::Correlation;
use punctual_core::outcome::{CallResult, Called, Class, classify};
use punctual_core::ports::{Control, DeadLetters, Ledger, Queue, Request, Secrets, Time, Webhook, Written};
use punctual_core::reason::Reason;
use punctual_core::rejections::Seen;
use punctual_core::shadow::ShadowEntry;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::{self, Stamp, Terms};
use punctual_flows::bury::bury;
use punctual_flows::fault::{self, Point};
use punctual_flows::guarded::{read_until, write_until};
use punctual_flows::{FlowError, chain};

use crate::batch::Known;
use crate::pause::Outcome;
use crate::tally::Tally;
use crate::{Deliver, Disposition};

/// Outcome writes are tried until this little of the invocation is left.
const WRITE_RESERVE: Duration = Duration::from_millis(500);

/// Late evidence loses at most so many races; time is no bound, because a write that lost one was quick.
const MOST_LATE_TRIES: usize = 10;

/// When an attempt's row was claimed.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// The database's time.
    pub now: Now,
    /// How much of the invocation was left.
    pub left: Duration,
}

impl Begun {
    /// The database's time; if it has become unsure since the claim, what the claim and the time that passed make of it.
    /// An unsure clock claims nothing and starts no call, but what a call brought is recorded all the same.
    fn stamp<T: Time>(&self, time: &T, by: &Correlation) -> Stamp {
        let passed = self.left.saturating_sub(time.time_left());
        let counted = Now { lo: self.now.lo.plus(passed), hi: self.now.hi.plus(passed) };
        Stamp { now: time.now().unwrap_or(counted), by: by.clone() }
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: DeadLetters, S: Secrets, W: Webhook, T: Time> Deliver<'_, L, C, Q, D, S, W, T> {
    /// Makes the attempt that a claimed row opened.
    ///
    /// # Errors
    /// [`FlowError`] if the outcome could not be recorded: the attempt is closed as unknown when its lease has ended.
    pub async fn attempt(
        &self,
        row: Delivery,
        destination: &Destination,
        terms: &Terms<'_>,
        begun: Begun,
        known: &Known,
        tally: &mut Tally,
    ) -> Result<Disposition, FlowError> {
        fault::point(Point::Delivering, &row.id);
        let called = self.call(&row, destination, begun, tally).await;
        known.lines.heard(&row.destination, Heard::of(&called.result));
        fault::point(Point::Called, &row.id);
        let now = begun.stamp(self.time, &self.by).now;
        let class = classify(&called.result, &destination.spec.classes, now);
        let outcome = |seen| Outcome { destination: destination.spec.id.clone(), version: destination.version, seen };
        tally.outcomes.extend(Seen::of(&called.result, class).map(outcome));
        let number = row.next_attempt();
        let was_called = !matches!(called.result, CallResult::NotCalled(_) | CallResult::Shadowed);
        if was_called {
            self.measure.call_latency(&row.destination, called.took, now.lo);
            tally.note_call(&row, &called, class);
        }
        let terms = &Terms { measured: self.measure.expected(&row.destination, now.lo), ..*terms };
        tracing::info!(by = %self.by, delivery_id = %row.id, destination_id = %row.destination, attempt = number,
            reason = %class.reason(), took_ms = u64::try_from(called.took.as_millis()).unwrap_or(u64::MAX),
            measured_ms = u64::try_from(terms.measured.as_millis()).unwrap_or(u64::MAX), "attempted");
        let Ok(outcome) =
            transition::finished(&row, &called, class, terms, self.time.random(), &begun.stamp(self.time, &self.by))
        else {
            // Only a row that is `delivering` comes here, and every outcome is allowed for it.
            return Ok(Disposition::Acknowledge);
        };
        let written = write_until(self.ledger, self.time, &outcome, WRITE_RESERVE).await.inspect_err(|error| {
            tracing::error!(by = %self.by, delivery_id = %row.id, attempt = number, reason = %class.reason(), error = %chain(error),
                "an outcome could not be recorded");
        })?;
        let after = match written {
            Written::Done => outcome.after,
            Written::Absent => return Ok(Disposition::Acknowledge),
            Written::Conflict(current) => {
                let again =
                    transition::finished(&current, &called, class, terms, self.time.random(), &begun.stamp(self.time, &self.by));
                match again {
                    // Only a late success was noted meanwhile, under this very lease: the outcome write honours it.
                    Ok(again) if current.version == row.version => {
                        match write_until(self.ledger, self.time, &again, WRITE_RESERVE).await? {
                            Written::Done => again.after,
                            Written::Conflict(_) | Written::Absent => {
                                return self.late(&row, &called, class, destination, begun, tally).await;
                            }
                        }
                    }
                    _ => return self.late(&row, &called, class, destination, begun, tally).await,
                }
            }
        };
        count(&after, tally);
        if was_called {
            self.measure.ended(&row.destination, matches!(after.state, State::Deferred | State::Scheduled));
        }
        if matches!(class, Class::Dead { pause: true, .. }) {
            self.pause(destination, class.reason().meaning(), tally).await;
        }
        self.dispose(after, destination, tally).await
    }

    /// What the row's new state means for its message.
    async fn dispose(&self, after: Delivery, destination: &Destination, tally: &mut Tally) -> Result<Disposition, FlowError> {
        fault::point(Point::Recorded, &after.id);
        match after.state {
            State::Deferred => match self.time.now() {
                // No consumer is to wait for a message that comes a moment early while others wait for a consumer.
                Ok(now) if self.is_crowded(destination, now.lo) => {
                    let wait = after.next_attempt_at.since(now.lo);
                    Ok(Disposition::HideFor(Duration::from_secs(wait.as_secs().saturating_add(1))))
                }
                _ => Ok(Disposition::HideUntil(after.next_attempt_at)),
            },
            State::Dead | State::Expired => {
                bury(self.ledger, self.dead_letters, self.time, after, &self.by).await?;
                tally.buried += 1;
                Ok(Disposition::Acknowledge)
            }
            _ => Ok(Disposition::Acknowledge),
        }
    }

    /// Makes the call, or says why it was not made.
    async fn call(&self, row: &Delivery, destination: &Destination, begun: Begun, tally: &mut Tally) -> Called {
        let start = begun.stamp(self.time, &self.by).now;
        let not_called = |reason| Called {
            result: CallResult::NotCalled(reason),
            started_at: start.lo,
            took: Duration::ZERO,
            key_ids: "-".to_owned(),
        };
        let body = match self.ledger.payload(&row.id, &row.content).await {
            Ok(Some(Payload { body, .. })) => body,
            Ok(None) => return not_called(Reason::PayloadMissing),
            Err(error) => {
                tracing::warn!(by = %self.by, delivery_id = %row.id, error = %chain(&error), "the payload cannot be read");
                return not_called(Reason::NotCalled);
            }
        };
        let secrets = match self.secrets.active(&destination.spec.secrets).await {
            Ok(secrets) if !secrets.is_empty() => secrets,
            Ok(_) => return not_called(Reason::SecretUnavailable),
            Err(error) => {
                tally.secret_unavailable += 1;
                tracing::error!(by = %self.by, destination_id = %destination.spec.id, error = %error, "nothing is sent unsigned");
                return not_called(Reason::SecretUnavailable);
            }
        };
        let start = begun.stamp(self.time, &self.by).now;
        let request = Request {
            url: destination.spec.url.clone(),
            headers: headers(&HeaderInput {
                delivery_id: &row.id,
                idempotency_key: &row.idempotency_key,
                key_form: destination.spec.key_form,
                attempt: row.next_attempt(),
                timestamp_seconds: start.lo.as_seconds(),
                secrets: &secrets,
                body: &body,
            }),
            body,
            connect_timeout: destination.connect_timeout(),
            total_timeout: destination.total_timeout(),
        };
        let total = destination.total_timeout();
        let margin = destination.margin(self.margin);
        let may_start = || {
            self.time.now().is_ok_and(|now| {
                now.reached(row.next_attempt_at)
                    && now.reached(row.deliver_after)
                    && can_start(row.deliver_by, margin, now)
                    && row.lease_until.is_some_and(|until| now.hi.plus(total) <= until)
                    && self.time.time_left() >= total
            })
        };
        let key_ids = secrets.iter().map(punctual_core::signature::Secret::id).collect::<Vec<_>>().join(",");
        let before = self.time.time_left();
        // The stamp of the claim decides, whatever the destination's mode is by now.
        let result = if row.shadow {
            self.shadow(row, destination, start.lo, (request.body.len() as u64, &key_ids), &may_start).await
        } else {
            self.webhook.call(&request, &may_start).await
        };
        let took = before.saturating_sub(self.time.time_left());
        if !matches!(result, CallResult::NotCalled(_) | CallResult::Shadowed) {
            tally.called += 1;
        }
        Called { result, started_at: start.lo, took, key_ids }
    }

    /// Posts what would have been sent to the shadow sink.
    async fn shadow(
        &self,
        row: &Delivery,
        destination: &Destination,
        posted_at: Timestamp,
        (body_bytes, key_ids): (u64, &str),
        may_start: &(dyn Fn() -> bool + Send + Sync),
    ) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        let entry = ShadowEntry {
            destination: row.destination.clone(),
            delivery_id: row.id.clone(),
            deliver_after: row.deliver_after,
            deliver_by: row.deliver_by,
            posted_at,
            attempt: row.next_attempt(),
            destination_version: destination.version,
            content: row.content.clone(),
            body_bytes,
            key_ids: key_ids.to_owned(),
        };
        match self.control.post_shadow(&entry).await {
            Ok(()) => CallResult::Shadowed,
            Err(error) => {
                tracing::warn!(by = %self.by, delivery_id = %row.id, error = %chain(&error), "the shadow sink cannot be written");
                CallResult::NotCalled(Reason::SinkUnavailable)
            }
        }
    }

    /// Records an outcome whose fence was lost.
    async fn late(
        &self,
        row: &Delivery,
        called: &Called,
        class: Class,
        destination: &Destination,
        begun: Begun,
        tally: &mut Tally,
    ) -> Result<Disposition, FlowError> {
        tally.late += 1;
        if matches!(class, Class::Dead { pause: true, .. }) {
            self.pause(destination, class.reason().meaning(), tally).await;
        }
        let evidence = transition::evidence(row.next_attempt(), called, class, destination.version);
        tracing::warn!(by = %self.by, delivery_id = %row.id, attempt = evidence.number, reason = %evidence.reason, "late evidence");
        // Whoever holds the row now has its own message, or rescue sends one: this one has served.
        let mut current = read_until(self.ledger, self.time, &row.id, WRITE_RESERVE).await?;
        for _ in 0..MOST_LATE_TRIES {
            let stamp = begun.stamp(self.time, &self.by);
            let late = current.and_then(|row| transition::late(&row, &evidence, class == Class::Delivered, &stamp));
            let Some(late) = late else { return Ok(Disposition::Acknowledge) };
            match write_until(self.ledger, self.time, &late, WRITE_RESERVE).await? {
                Written::Done | Written::Absent => return Ok(Disposition::Acknowledge),
                Written::Conflict(row) => current = Some(*row),
            }
        }
        tracing::error!(by = %self.by, delivery_id = %row.id, attempt = evidence.number, reason = %evidence.reason,
            "late evidence could not be recorded: too many lost races");
        Ok(Disposition::Acknowledge)
    }
}

fn count(after: &Delivery, tally: &mut Tally) {
    match after.state {
        State::Delivered => tally.delivered += 1,
        State::Shadowed => tally.shadowed += 1,
        State::Deferred => tally.deferred += 1,
        State::Scheduled => {
            tally.deferred += 1;
            tally.returned += 1;
        }
        State::Dead => tally.dead += 1,
        State::Expired => tally.expired += 1,
        _ => {}
    }
}
