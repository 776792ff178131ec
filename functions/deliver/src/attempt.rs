//! I make one attempt for a row that is ours, and record its outcome and release the row in one write.
//!
//! An outcome that lost its fence is never dropped: it fills its attempt's entry, and a 2xx moves the row.

use punctual_adapters::webhook::{HeaderInput, headers};
use punctual_core::acquire::can_start;
use punctual_core::delivery::{Delivery, Payload};
use punctual_core::destination::{Change, Destination, Pause};
use punctual_core::outcome::{CallResult, Called, Class, classify};
use punctual_core::ports::{Control, DeadLetters, Ledger, Queue, Request, Secrets, Stored, Time, Webhook, Written};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::transition::{self, Terms};
use punctual_flows::bury::bury;
use punctual_flows::fault::{self, Point};
use punctual_flows::guarded::write_until;
use punctual_flows::{FlowError, chain, stamp};

use crate::tally::Tally;
use crate::{Deliver, Disposition};

/// Outcome writes are tried until this little of the invocation is left.
const WRITE_RESERVE: std::time::Duration = std::time::Duration::from_millis(500);

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
        tally: &mut Tally,
    ) -> Result<Disposition, FlowError> {
        fault::point(Point::Delivering, &row.id);
        let called = self.call(&row, destination, tally).await?;
        fault::point(Point::Called, &row.id);
        let now = self.time.now()?;
        let class = classify(&called.result, &destination.spec.classes, now);
        let number = row.next_attempt();
        tracing::info!(by = %self.by, delivery_id = %row.id, destination_id = %row.destination, attempt = number,
            reason = %class.reason(), took_ms = u64::try_from(called.took.as_millis()).unwrap_or(u64::MAX), "attempted");
        let Ok(outcome) = transition::finished(&row, &called, class, terms, self.time.random(), &stamp(self.time, &self.by)?)
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
                    transition::finished(&current, &called, class, terms, self.time.random(), &stamp(self.time, &self.by)?);
                match again {
                    // Only a late success was noted meanwhile, under this very lease: the outcome write honours it.
                    Ok(again) if current.version == row.version => {
                        match write_until(self.ledger, self.time, &again, WRITE_RESERVE).await? {
                            Written::Done => again.after,
                            Written::Conflict(_) | Written::Absent => {
                                return self.late(&row, &called, class, destination, tally).await;
                            }
                        }
                    }
                    _ => return self.late(&row, &called, class, destination, tally).await,
                }
            }
        };
        count(&after, tally);
        if matches!(class, Class::Dead { pause: true, .. }) {
            self.pause(destination, class.reason()).await;
        }
        self.dispose(after).await
    }

    /// What the row's new state means for its message.
    async fn dispose(&self, after: Delivery) -> Result<Disposition, FlowError> {
        fault::point(Point::Recorded, &after.id);
        match after.state {
            State::Deferred => Ok(Disposition::HideUntil(after.next_attempt_at)),
            State::Dead | State::Expired => {
                bury(self.ledger, self.dead_letters, self.time, after, &self.by).await?;
                Ok(Disposition::Acknowledge)
            }
            _ => Ok(Disposition::Acknowledge),
        }
    }

    /// Makes the call, or says why it was not made.
    async fn call(&self, row: &Delivery, destination: &Destination, tally: &mut Tally) -> Result<Called, FlowError> {
        let start = self.time.now()?;
        let not_called = |reason| Called {
            result: CallResult::NotCalled(reason),
            started_at: start.lo,
            took: std::time::Duration::ZERO,
            key_ids: "-".to_owned(),
        };
        let body = match self.ledger.payload(&row.id, &row.content).await {
            Ok(Some(Payload { body, .. })) => body,
            Ok(None) => return Ok(not_called(Reason::PayloadMissing)),
            Err(error) => {
                tracing::warn!(by = %self.by, delivery_id = %row.id, error = %chain(&error), "the payload cannot be read");
                return Ok(not_called(Reason::NotCalled));
            }
        };
        let secrets = match self.secrets.active(&destination.spec.secrets).await {
            Ok(secrets) if !secrets.is_empty() => secrets,
            Ok(_) => return Ok(not_called(Reason::SecretUnavailable)),
            Err(error) => {
                tally.secret_unavailable += 1;
                tracing::error!(by = %self.by, destination_id = %destination.spec.id, error = %error, "nothing is sent unsigned");
                return Ok(not_called(Reason::SecretUnavailable));
            }
        };
        let start = self.time.now()?;
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
        let before = self.time.time_left();
        let result = self.webhook.call(&request, &may_start).await;
        let took = before.saturating_sub(self.time.time_left());
        if !matches!(result, CallResult::NotCalled(_)) {
            tally.called += 1;
        }
        let key_ids = secrets.iter().map(punctual_core::signature::Secret::id).collect::<Vec<_>>().join(",");
        Ok(Called { result, started_at: start.lo, took, key_ids })
    }

    /// Records an outcome whose fence was lost.
    async fn late(
        &self,
        row: &Delivery,
        called: &Called,
        class: Class,
        destination: &Destination,
        tally: &mut Tally,
    ) -> Result<Disposition, FlowError> {
        tally.late += 1;
        let evidence = transition::evidence(row.next_attempt(), called, class, destination.version);
        while let Some(current) = self.ledger.read(std::slice::from_ref(&row.id)).await?.into_iter().next() {
            let late = transition::late(&current, &evidence, class == Class::Delivered, &stamp(self.time, &self.by)?);
            let Some(late) = late else { break };
            tracing::warn!(by = %self.by, delivery_id = %row.id, attempt = evidence.number, reason = %evidence.reason, "late evidence");
            if write_until(self.ledger, self.time, &late, WRITE_RESERVE).await? == Written::Done {
                break;
            }
            if self.time.time_left() < WRITE_RESERVE {
                tracing::error!(by = %self.by, delivery_id = %row.id, attempt = evidence.number, reason = %evidence.reason,
                    "late evidence could not be recorded");
                break;
            }
        }
        // Whoever holds the row now has its own message, or rescue sends one.
        Ok(Disposition::Acknowledge)
    }

    /// Pauses a destination for review. A lost race is fine: somebody wrote it meanwhile, and the next 410 tries again.
    async fn pause(&self, destination: &Destination, reason: Reason) {
        let Ok(now) = self.time.now() else { return };
        let (by, why) = (format!("deliver {}", self.by), reason.meaning().to_owned());
        let paused = Destination {
            paused: Some(Pause { since: now.lo, by: by.clone(), why: why.clone() }),
            changed: Change { at: now.lo, by, why },
            version: destination.version.saturating_add(1),
            ..destination.clone()
        };
        match self.control.put_destination(&paused, destination.version).await {
            Ok(Stored::Done) => {
                tracing::error!(by = %self.by, destination_id = %destination.spec.id, %reason, "a destination is paused")
            }
            Ok(Stored::Conflict) => {}
            Err(error) => {
                tracing::error!(by = %self.by, destination_id = %destination.spec.id, error = %chain(&error), "a destination could not be paused");
            }
        }
    }
}

fn count(after: &Delivery, tally: &mut Tally) {
    match after.state {
        State::Delivered => tally.delivered += 1,
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
