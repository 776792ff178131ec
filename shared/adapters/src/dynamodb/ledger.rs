//! I am the ledger's port on its table: each call is one request, or as few as there can be.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure, Select};
use punctual_core::acquire::Acquire;
use punctual_core::admission::Candidate;
use punctual_core::delivery::{Delivery, Payload};
use punctual_core::id::{Content, DeliveryId, DestinationId, IdempotencyKey, Reference, RunId};
use punctual_core::ports::{
    Acquired, Created, EndedPage, EndedQuery, Ledger, Partition, PortError, RowsNamed, RunPage, WakePage, WakeQuery, Written,
};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::Transition;

use super::batch::{Batch, distinct};
use super::create::Creation;
use super::error::port_error;
use super::expression::{Placeholders, Update};
use super::item::{Item, Reader, text};
use super::meter::{Kind, Meter, Metered};
use super::row::Stored;
use super::{diff, ended, guard, names, payload, query, row, wake};

/// The ledger on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoLedger {
    pub(super) client: Client,
    pub(super) table: String,
    pub(super) meter: Metered,
}

/// What became of a conditional update.
enum Updated {
    /// It applied; the row as it is now, where that was asked for.
    Applied(Option<Item>),
    /// The condition failed; what is there.
    Refused(Option<Item>),
}

impl DynamoLedger {
    /// A ledger on this table. Every call goes through this very client.
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into(), meter: Metered::default() }
    }

    /// The same ledger, with every call's consumed capacity asked for and counted.
    #[must_use]
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.meter = Metered(Some(meter));
        self
    }

    async fn update(
        &self,
        id: &DeliveryId,
        update: Update,
        wanted: ReturnValue,
        what: &'static str,
    ) -> Result<Updated, PortError> {
        let Update { condition, update, placeholders } = update;
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(row::key(id, names::ITEM_DELIVERY)))
            .condition_expression(condition)
            .set_update_expression(update)
            .set_expression_attribute_names(placeholders.names())
            .set_expression_attribute_values(placeholders.values())
            .return_values(wanted)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(self.meter.wanted())
            .send()
            .await;
        match answer {
            Ok(answer) => {
                self.meter.count(what, Kind::Write, answer.consumed_capacity());
                Ok(Updated::Applied(answer.attributes))
            }
            Err(SdkError::ServiceError(refused))
                if matches!(refused.err(), UpdateItemError::ConditionalCheckFailedException(_)) =>
            {
                match refused.into_err() {
                    UpdateItemError::ConditionalCheckFailedException(refused) => Ok(Updated::Refused(refused.item)),
                    _ => Ok(Updated::Refused(None)),
                }
            }
            Err(error) => Err(port_error(what, error)),
        }
    }

    fn query(&self) -> QueryFluentBuilder {
        self.client.query().table_name(&self.table)
    }
}

/// The row that is there, if a row is.
fn present(item: Option<Item>) -> Result<Option<Box<Delivery>>, PortError> {
    // A service that does not say what is there answers with an empty item.
    match item.filter(|item| !item.is_empty()).map(|item| row::decode(&item)).transpose()? {
        Some(Stored::Row(row)) => Ok(Some(row)),
        Some(Stored::Alias(_)) | None => Ok(None),
    }
}

/// What stands under an id.
enum Lookup {
    Found(Box<Partition>),
    Alias(DeliveryId),
    Absent,
}

impl DynamoLedger {
    /// Everything of one partition, in one read.
    async fn one_partition(&self, id: &DeliveryId) -> Result<Lookup, PortError> {
        let mut p = Placeholders::default();
        let condition = p.compare(names::DELIVERY_ID, "=", text(id));
        let query = self
            .query()
            .key_condition_expression(condition)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .consistent_read(true);
        let items = query::all(query, &self.meter, "partition").await?.items;
        let at = |sort_key: &str| {
            items.iter().find(|item| item.get(names::ITEM).is_some_and(|v| v.as_s().is_ok_and(|s| s == sort_key)))
        };
        let row = match at(names::ITEM_DELIVERY).map(row::decode).transpose()? {
            Some(Stored::Row(row)) => row,
            Some(Stored::Alias(to)) => return Ok(Lookup::Alias(to)),
            None => return Ok(Lookup::Absent),
        };
        let payload = at(&payload::sort_key(&row.content)).map(|item| payload::decode(item, id)).transpose()?;
        Ok(Lookup::Found(Box::new(Partition { row: *row, payload })))
    }
}

impl DynamoLedger {
    /// Rows by their ids. One that cannot be read is named, logged, and takes no other along.
    pub(super) async fn read_named(&self, ids: &[DeliveryId]) -> Result<RowsNamed, PortError> {
        let keys = distinct(ids, |id| row::key(id, names::ITEM_DELIVERY));
        let batch = Batch { client: &self.client, meter: &self.meter, table: &self.table, consistent: true, what: "read" };
        let mut found = RowsNamed { rows: Vec::with_capacity(keys.len()), unreadable: Vec::new() };
        for item in batch.get(keys).await? {
            match row::decode(&item) {
                Ok(Stored::Row(row)) => found.rows.push(*row),
                Ok(Stored::Alias(_)) => {}
                Err(problem) => {
                    tracing::error!(%problem, "a row is left out");
                    found.unreadable.push(row::name(&item));
                }
            }
        }
        Ok(found)
    }
}

impl Ledger for DynamoLedger {
    async fn create(&self, row: &Delivery, payload: &Payload) -> Result<Created, PortError> {
        let creation = Creation { ledger: self, row, payload };
        creation.store_payload().await?;
        if row.id.is_derived() && row.idempotency_key == IdempotencyKey::from(&row.id) {
            creation.store_row().await
        } else {
            creation.store_migrated_row().await
        }
    }

    async fn acquire(&self, acquire: &Acquire) -> Result<Acquired, PortError> {
        match self.update(&acquire.id, guard::update(acquire), ReturnValue::AllNew, "acquire").await? {
            Updated::Applied(item) => match present(item)? {
                Some(row) => Ok(Acquired::Won(row)),
                None => Err(PortError::Corrupt {
                    item: format!("delivery {}", acquire.id),
                    problem: "a claim succeeded without showing the row".into(),
                }),
            },
            Updated::Refused(item) => Ok(match present(item)? {
                Some(row) if acquire.is_mine(&row) => Acquired::Won(row),
                Some(row) => Acquired::Refused(row),
                None => Acquired::Absent,
            }),
        }
    }

    async fn write(&self, transition: &Transition) -> Result<Written, PortError> {
        match self.update(&transition.before.id, diff::update(transition), ReturnValue::None, "write").await? {
            Updated::Applied(_) => Ok(Written::Done),
            Updated::Refused(item) => Ok(match present(item)? {
                Some(row) if transition.is_mine(&row) => Written::Done,
                Some(row) => Written::Conflict(row),
                None => Written::Absent,
            }),
        }
    }

    /// Leaves out, and reports to the log, a row that cannot be read: it must not take the others along. Read it alone
    /// ([`Ledger::partition`]) to get the error.
    async fn read(&self, ids: &[DeliveryId]) -> Result<Vec<Delivery>, PortError> {
        Ok(self.read_named(ids).await?.rows)
    }

    async fn read_one(&self, id: &DeliveryId) -> Result<Option<Delivery>, PortError> {
        let request = self.client.get_item().table_name(&self.table).set_key(Some(row::key(id, names::ITEM_DELIVERY)));
        let request = request.consistent_read(true).return_consumed_capacity(self.meter.wanted());
        let answer = request.send().await.map_err(|e| port_error("read_one", e))?;
        self.meter.count("read_one", Kind::Read, answer.consumed_capacity());
        Ok(present(answer.item)?.map(|row| *row))
    }

    async fn payload(&self, id: &DeliveryId, content: &Content) -> Result<Option<Payload>, PortError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(row::key(id, payload::sort_key(content))))
            .consistent_read(true)
            .return_consumed_capacity(self.meter.wanted())
            .send()
            .await
            .map_err(|e| port_error("payload", e))?;
        self.meter.count("payload", Kind::Read, answer.consumed_capacity());
        answer.item.map(|item| payload::decode(&item, id)).transpose()
    }

    async fn wake(&self, query: &WakeQuery) -> Result<WakePage, PortError> {
        let mut p = Placeholders::default();
        let lane = p.compare(names::LANE, "=", text(&query.lane));
        let until = p.compare(names::WAKE_AT, "<=", text(query.until));
        let filter = query.deadline_by.map(|by| p.compare(names::DELIVER_BY, "<=", text(by)));
        let capacity = match self.meter.wanted() {
            ReturnConsumedCapacity::None => ReturnConsumedCapacity::Total,
            wanted => wanted,
        };
        let page = self
            .query()
            .index_name(names::INDEX_WAKE)
            .key_condition_expression(format!("{lane} AND {until}"))
            .set_filter_expression(filter)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .set_exclusive_start_key(query.start.as_ref().map(|cursor| wake::start_key(&query.lane, cursor)))
            .limit(i32::try_from(query.limit).unwrap_or(i32::MAX).max(1))
            .return_consumed_capacity(capacity)
            .send()
            .await
            .map_err(|e| port_error("wake", e))?;
        self.meter.count("wake", Kind::Read, page.consumed_capacity());
        let mut candidates: Vec<Candidate> = Vec::new();
        for item in page.items() {
            match wake::candidate(item) {
                Ok(candidate) => candidates.push(candidate),
                // What stands behind it in the lane must not starve.
                Err(problem) => tracing::error!(%problem, "an entry of the wake index is left out"),
            }
        }
        Ok(WakePage {
            candidates,
            next: page.last_evaluated_key().map(wake::cursor).transpose()?,
            read_units: page.consumed_capacity().and_then(|c| c.capacity_units()).unwrap_or_default(),
        })
    }

    async fn partition(&self, id: &DeliveryId) -> Result<Option<Partition>, PortError> {
        match self.one_partition(id).await? {
            // An alias leads to a row, never to another alias.
            Lookup::Alias(to) => Ok(match self.one_partition(&to).await? {
                Lookup::Found(partition) => Some(*partition),
                Lookup::Alias(_) | Lookup::Absent => None,
            }),
            Lookup::Found(partition) => Ok(Some(*partition)),
            Lookup::Absent => Ok(None),
        }
    }

    async fn by_reference(&self, reference: &Reference) -> Result<Vec<DeliveryId>, PortError> {
        let mut p = Placeholders::default();
        let condition = p.compare(names::REFERENCE, "=", text(reference));
        let query = self
            .query()
            .index_name(names::INDEX_REFERENCE)
            .key_condition_expression(condition)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values());
        let found = query::all(query, &self.meter, "by_reference").await?;
        found
            .items
            .iter()
            .map(|item| Reader::new(item, "entry of the reference index".into()).required(names::DELIVERY_ID, DeliveryId::new))
            .collect()
    }

    async fn count_ended(&self, destination: &DestinationId, from: Timestamp) -> Result<u64, PortError> {
        let mut count = 0;
        for state in [State::Dead, State::Expired] {
            let mut p = Placeholders::default();
            let ended = p.compare(names::ATTENTION, "=", text(state));
            let from = p.compare(names::DELIVER_BY, ">=", text(from));
            let mine = p.compare(names::DESTINATION_ID, "=", text(destination));
            let query = self
                .query()
                .index_name(names::INDEX_ATTENTION)
                .key_condition_expression(format!("{ended} AND {from}"))
                .filter_expression(mine)
                .set_expression_attribute_names(p.names())
                .set_expression_attribute_values(p.values())
                .select(Select::Count);
            count += query::all(query, &self.meter, "count_ended").await?.count;
        }
        Ok(count)
    }

    async fn count_reachable_dead(&self, after: Timestamp) -> Result<u64, PortError> {
        let mut p = Placeholders::default();
        let dead = p.compare(names::ATTENTION, "=", text(State::Dead));
        let after = p.compare(names::DELIVER_BY, ">", text(after));
        let query = self
            .query()
            .index_name(names::INDEX_ATTENTION)
            .key_condition_expression(format!("{dead} AND {after}"))
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .select(Select::Count);
        Ok(query::one(query, &self.meter, "count_reachable_dead").await?.count)
    }

    async fn ended(&self, query: &EndedQuery) -> Result<EndedPage, PortError> {
        let mut p = Placeholders::default();
        let mut condition = p.compare(names::ATTENTION, "=", text(query.state));
        if let Some(from) = query.from {
            condition += &format!(" AND {}", p.compare(names::DELIVER_BY, ">=", text(from)));
        }
        let page = self
            .query()
            .index_name(names::INDEX_ATTENTION)
            .key_condition_expression(condition)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .set_exclusive_start_key(query.start.as_ref().map(|place| ended::start_key(query.state, place)))
            .limit(i32::try_from(query.limit).unwrap_or(i32::MAX).max(1))
            .return_consumed_capacity(self.meter.wanted())
            .send()
            .await
            .map_err(|e| port_error("ended", e))?;
        self.meter.count("ended", Kind::Read, page.consumed_capacity());
        let next = page.last_evaluated_key().map(ended::place).transpose()?;
        Ok(EndedPage { entries: ended::readable(page.items(), ended::entry), next })
    }

    async fn of_run(&self, run: &RunId, start: Option<&DeliveryId>) -> Result<RunPage, PortError> {
        let mut p = Placeholders::default();
        let condition = p.compare(names::RUN_ID, "=", text(run));
        let page = self
            .query()
            .index_name(names::INDEX_RUN)
            .key_condition_expression(condition)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .set_exclusive_start_key(start.map(|id| ended::start_of_run(run, id)))
            .return_consumed_capacity(self.meter.wanted())
            .send()
            .await
            .map_err(|e| port_error("of_run", e))?;
        self.meter.count("of_run", Kind::Read, page.consumed_capacity());
        let next = page.last_evaluated_key().map(ended::id).transpose()?;
        Ok(RunPage { rows: ended::readable(page.items(), ended::row_of_run), next })
    }
}
