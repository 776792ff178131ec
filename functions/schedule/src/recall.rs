//! I find deliveries by name, and move them, take them back, or show them: each item on its own.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use punctual_core::calendar::due::DueInput;
use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, Instants};
use punctual_core::destination::{FieldError, OnUnknown};
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::ports::{Control, Ledger, PortError, Queue, Time};
use punctual_flows::recall::{Bounds, Recalled, Recaller, Why};
use punctual_flows::{FlowError, chain};

use crate::input::{Items, Move, Named};
use crate::once::twice;
use crate::release::Places;
use crate::result::{Answer, ItemResult, Response};
use crate::when::{Calendars, When};
use crate::{CONCURRENCY, RESERVE, Schedule};

/// What is known of one item: a row, or its answer.
type Looked<T> = Result<(T, Delivery), Box<ItemResult>>;
/// When a delivery is to be due, and whether it may be called again after a lost answer.
type Moves = (Result<When, Vec<FieldError>>, bool);

impl Named {
    fn id(self, field: &str) -> Result<(DeliveryId, bool), FieldError> {
        match (self.delivery_id, self.identity) {
            (Some(id), None) => Ok((id, false)),
            (None, Some(identity)) => Ok((identity.derive(), true)),
            _ => Err(FieldError::new("one_of", format!("{field}.delivery_id"), "exactly one of delivery_id, identity")),
        }
    }
}

impl<L: Ledger, C: Control, Q: Queue, T: Time> Schedule<'_, L, C, Q, T> {
    pub(crate) async fn get(&self, items: Items<Named>) -> Response {
        let looked = self.look_up(items.into_iter().map(|item| item.map(|named| ((), named))).collect()).await;
        let results = looked.into_iter().map(|one| one.map_or_else(|answer| *answer, |((), row)| ItemResult::found(row)));
        Response::of(results.collect(), punctual_flows::release::Tally::default())
    }

    pub(crate) async fn cancel(&self, items: Items<Named>, by: &str, why: &str) -> Response {
        let looked = self.look_up(items.into_iter().map(|item| item.map(|named| ((), named))).collect()).await;
        let recaller = self.recaller();
        let results = each(looked, |i, ((), row)| {
            let recaller = &recaller;
            async move {
                if self.time.time_left() < RESERVE {
                    return ItemResult::not_attempted();
                }
                let id = row.id.clone();
                self.answer(&id, i, Answer::Cancelled, recaller.cancel(row, by, why).await)
            }
        })
        .await;
        Response::of(results, punctual_flows::release::Tally::default())
    }

    /// Errors: the control table or the database's time cannot be had; nothing was changed.
    pub(crate) async fn reschedule(&self, items: Items<Move>) -> Result<Response, FlowError> {
        let rules: Vec<&DueInput> = items.iter().flatten().filter_map(|one| one.rule.as_ref()).collect();
        let (calendars, by_rule) = (self.calendars(&rules).await?, !rules.is_empty());
        let read = items.into_iter().enumerate().map(|(i, item)| item.and_then(|one| read(i, one)));
        let looked = self.look_up(read.collect()).await;
        let destinations: BTreeSet<DestinationId> = looked.iter().flatten().map(|(_, row)| row.destination.clone()).collect();
        let places = self.places(destinations).await?;
        let now = self.time.now()?;
        let results = each(looked, |i, ((when, may_repeat), row)| {
            let (places, calendars) = (&places, &calendars);
            async move { self.reschedule_one(i, (&when, may_repeat), row, (places, calendars, now)).await }
        })
        .await;
        let released = self.release(&results, &places).await;
        Ok(Response { zone_data: zone_data(by_rule), ..Response::of(results, released) })
    }

    async fn reschedule_one(
        &self,
        i: usize,
        (when, may_repeat): (&Result<When, Vec<FieldError>>, bool),
        row: Delivery,
        (places, calendars, now): (&Places, &Calendars, Now),
    ) -> ItemResult {
        let when = match when {
            Ok(when) => when,
            Err(errors) => return ItemResult::invalid(errors.clone()),
        };
        let Some(destination) = places.destinations.get(&row.destination) else {
            tracing::error!(by = %self.by, delivery_id = %row.id, "a row's destination is not registered");
            return ItemResult::failed(&row.id);
        };
        let bounds = Bounds {
            attempts: destination.spec.retry.attempts,
            margin: destination.margin(self.margin),
            review_unknown: destination.spec.on_unknown == OnUnknown::Review && !may_repeat,
        };
        let field = format!("deliveries[{i}]");
        let due = when.due(&field, calendars, bounds.margin, now);
        let so_already = |to: &Instants| (row.deliver_after, row.deliver_by) == (to.deliver_after, to.deliver_by);
        match due.instants {
            Some(to) if so_already(&to) => ItemResult::unchanged(row).with_steps(&due),
            Some(_) | None if !due.blocked.is_empty() => ItemResult::invalid(due.blocked.clone()).with_steps(&due),
            None => ItemResult::failed(&row.id),
            Some(_) if self.time.time_left() < RESERVE => ItemResult::not_attempted(),
            Some(to) => {
                let id = row.id.clone();
                let recalled = self.recaller().reschedule(row, (to, due.rule.clone()), bounds).await;
                if let Ok(Recalled::Refused(row, why @ (Why::TooLate { .. } | Why::Waits { .. }))) = recalled {
                    return ItemResult::refused(*row, &why, &format!("{field}.{}", when.deadline_field())).with_steps(&due);
                }
                self.answer(&id, i, Answer::Rescheduled, recalled).with_steps(&due)
            }
        }
    }

    fn recaller(&self) -> Recaller<'_, L, T> {
        Recaller { ledger: self.ledger, time: self.time, by: self.by.clone() }
    }

    fn answer(&self, id: &DeliveryId, i: usize, done: Answer, recalled: Result<Recalled, FlowError>) -> ItemResult {
        let field = format!("deliveries[{i}].delivery_id");
        match recalled {
            Ok(Recalled::Done { row, .. }) => ItemResult::recalled(done, *row),
            Ok(Recalled::Unchanged(row)) => ItemResult::recalled(Answer::Unchanged, *row),
            Ok(Recalled::Refused(row, why)) => ItemResult::refused(*row, &why, &field),
            Ok(Recalled::Absent) => ItemResult::not_found(&field),
            Ok(Recalled::Busy(row)) => ItemResult::busy(*row, &field),
            Err(error) => {
                tracing::error!(by = %self.by, delivery_id = %id, error = %chain(&error), "a delivery could not be recalled");
                ItemResult::failed(id)
            }
        }
    }

    /// The rows of named deliveries, each with what belongs to its item. A delivery that is named twice is refused the second
    /// time: which of the two would win is nobody's guess.
    async fn look_up<X>(&self, items: Vec<Result<(X, Named), FieldError>>) -> Vec<Looked<X>> {
        let mut named: BTreeMap<DeliveryId, usize> = BTreeMap::new();
        let distinct: Vec<Result<(X, DeliveryId, bool), FieldError>> = items
            .into_iter()
            .enumerate()
            .map(|(i, item)| {
                let (extra, name) = item?;
                let (id, derived) = name.id(&format!("deliveries[{i}]"))?;
                if let Some(first) = named.get(&id) {
                    return Err(twice("deliveries", i, *first));
                }
                named.insert(id.clone(), i);
                Ok((extra, id, derived))
            })
            .collect();
        let mut looked: Vec<(usize, Looked<X>)> = futures::stream::iter(distinct.into_iter().enumerate())
            .map(|(i, one)| async move { (i, self.look_up_one(i, one).await) })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        looked.sort_by_key(|(i, _)| *i);
        // A migrated row has two names.
        let mut rows: BTreeMap<DeliveryId, usize> = BTreeMap::new();
        let once = |(i, one): (usize, Looked<X>)| {
            let (extra, row) = one?;
            if let Some(first) = rows.get(&row.id) {
                return Err(Box::new(ItemResult::invalid(vec![twice("deliveries", i, *first)])));
            }
            rows.insert(row.id.clone(), i);
            Ok((extra, row))
        };
        looked.into_iter().map(once).collect()
    }

    async fn look_up_one<X>(&self, i: usize, one: Result<(X, DeliveryId, bool), FieldError>) -> Looked<X> {
        let (extra, id, derived) = one.map_err(|error| Box::new(ItemResult::invalid(vec![error])))?;
        if self.time.time_left() < RESERVE {
            return Err(Box::new(ItemResult::not_attempted()));
        }
        match self.find(&id, derived).await {
            Ok(Some(row)) => Ok((extra, row)),
            Ok(None) => {
                let field = if derived { "identity" } else { "delivery_id" };
                Err(Box::new(ItemResult::not_found(&format!("deliveries[{i}].{field}"))))
            }
            Err(error) => {
                tracing::error!(by = %self.by, delivery_id = %id, error = %chain(&error), "a delivery could not be read");
                Err(Box::new(ItemResult::failed(&id)))
            }
        }
    }

    /// A delivery by its id; by what it is, a migrated one too, which has another.
    async fn find(&self, id: &DeliveryId, derived: bool) -> Result<Option<Delivery>, PortError> {
        match self.ledger.read_one(id).await? {
            None if derived => Ok(self.ledger.partition(id).await?.map(|found| found.row)),
            found => Ok(found),
        }
    }
}

/// What an item of a reschedule says. When it is due is judged once its row is known.
fn read(i: usize, one: Move) -> Result<(Moves, Named), FieldError> {
    let Move { delivery_id, identity, deliver_after, deliver_by, rule, may_repeat } = one;
    let when = When::read(deliver_after, deliver_by, rule.as_ref(), &format!("deliveries[{i}]"));
    Ok(((when, may_repeat), Named { delivery_id, identity }))
}

/// The zone data's version, where a rule was worked out.
pub(crate) fn zone_data(by_rule: bool) -> Option<&'static str> {
    by_rule.then(punctual_core::calendar::zone_data)
}

/// Does something with each row, some at once; the answers in order.
async fn each<X, F: Future<Output = ItemResult>>(
    looked: Vec<Looked<X>>,
    act: impl Fn(usize, (X, Delivery)) -> F,
) -> Vec<ItemResult> {
    let act = &act;
    let mut results: Vec<(usize, ItemResult)> = futures::stream::iter(looked.into_iter().enumerate())
        .map(|(i, one)| async move {
            match one {
                Ok(found) => (i, act(i, found).await),
                Err(answer) => (i, *answer),
            }
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}
