//! I store what is new: the payload, then the row; for a migrated reminder the row together with the lock of its key
//! and an alias under the id that would have been derived.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::{PutItemError, PutItemOutput};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem};
use punctual_core::delivery::{Delivery, Payload};
use punctual_core::id::DeliveryId;
use punctual_core::ports::{Created, PortError, key_lock};

use super::error::{cancelled, port_error};
use super::item::{Item, Reader, text};
use super::ledger::DynamoLedger;
use super::meter::Kind;
use super::row::Stored;
use super::{names, payload, row};

/// The code of a cancelled transaction's item whose condition failed.
const CONDITION_FAILED: &str = "ConditionalCheckFailed";

/// One creation.
pub(crate) struct Creation<'a> {
    pub(crate) ledger: &'a DynamoLedger,
    pub(crate) row: &'a Delivery,
    pub(crate) payload: &'a Payload,
}

/// What was put before.
enum Old {
    Nothing,
    There(Item),
}

impl Creation<'_> {
    /// Stores the payload. One that is there already is the same: its key carries the content's hash.
    pub(crate) async fn store_payload(&self) -> Result<(), PortError> {
        let item = payload::encode(&self.row.id, &self.row.content, self.payload);
        self.put(item, "create payload", false).await.map(drop)
    }

    /// Stores the row alone: its id is its key, so that there is nothing to lock.
    pub(crate) async fn store_row(&self) -> Result<Created, PortError> {
        match self.put(row::encode(self.row), "create", true).await? {
            Old::Nothing => Ok(Created::New),
            Old::There(item) => existing(&item),
        }
    }

    /// Stores row, lock and alias, all or none.
    pub(crate) async fn store_migrated_row(&self) -> Result<Created, PortError> {
        let what = "create";
        let id = &self.row.id;
        let mut lock = row::key(key_lock(&self.row.idempotency_key), names::ITEM_LOCK);
        lock.insert(names::HOLDER.to_owned(), text(id));
        let derived = DeliveryId::derive(&self.payload.parts);
        let alias = (derived != *id).then(|| {
            let mut alias = row::key(&derived, names::ITEM_DELIVERY);
            alias.insert(names::MIGRATED_TO.to_owned(), text(id));
            alias
        });
        let items = [Some(row::encode(self.row)), Some(lock), alias].into_iter().flatten();
        let puts: Result<Vec<_>, _> = items.map(|item| self.part(item)).collect();
        let answer = self
            .ledger
            .client
            .transact_write_items()
            .set_transact_items(Some(puts.map_err(|e| PortError::Refused { what, source: Box::new(e) })?))
            .return_consumed_capacity(self.ledger.meter.wanted())
            .send()
            .await;
        match answer {
            Ok(answer) => {
                self.ledger.meter.count(what, Kind::Write, answer.consumed_capacity());
                Ok(Created::New)
            }
            Err(error) => self.refusal(&error)?.map_or_else(|| Err(cancelled(what, error)), Ok),
        }
    }

    fn part(&self, item: Item) -> Result<TransactWriteItem, aws_sdk_dynamodb::error::BuildError> {
        let put = Put::builder()
            .table_name(&self.ledger.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(#id)")
            .expression_attribute_names("#id", names::DELIVERY_ID)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// Which of the three was in the way, in the order in which they were put; none if none was.
    fn refusal(&self, error: &SdkError<TransactWriteItemsError>) -> Result<Option<Created>, PortError> {
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
            return Ok(None);
        };
        for (i, reason) in cancelled.cancellation_reasons().iter().enumerate() {
            if reason.code() != Some(CONDITION_FAILED) {
                continue;
            }
            let nothing = Item::new();
            let item = reason.item().unwrap_or(&nothing);
            return match i {
                0 => existing(item),
                1 => {
                    let lock = Reader::new(item, format!("lock of the key of delivery {}", self.row.id));
                    lock.required(names::HOLDER, DeliveryId::new).map(Created::Taken)
                }
                _ => Ok(match row::decode(item)? {
                    Stored::Row(row) => Created::Taken(row.id),
                    Stored::Alias(id) => Created::Taken(id),
                }),
            }
            .map(Some);
        }
        Ok(None)
    }

    async fn put(&self, item: Item, what: &'static str, show: bool) -> Result<Old, PortError> {
        let old = if show { ReturnValuesOnConditionCheckFailure::AllOld } else { ReturnValuesOnConditionCheckFailure::None };
        let request: PutItemFluentBuilder = self
            .ledger
            .client
            .put_item()
            .table_name(&self.ledger.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(#id)")
            .expression_attribute_names("#id", names::DELIVERY_ID)
            .return_values_on_condition_check_failure(old)
            .return_consumed_capacity(self.ledger.meter.wanted());
        let answer: Result<PutItemOutput, SdkError<PutItemError>> = request.send().await;
        match answer {
            Ok(answer) => {
                self.ledger.meter.count(what, Kind::Write, answer.consumed_capacity());
                Ok(Old::Nothing)
            }
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Old::There(refused.item().cloned().unwrap_or_default()))
                }
                _ => Err(port_error(what, error)),
            },
        }
    }
}

/// What stands at the place of the row.
fn existing(item: &Item) -> Result<Created, PortError> {
    Ok(match row::decode(item)? {
        Stored::Row(row) => Created::Exists(row),
        Stored::Alias(id) => Created::Taken(id),
    })
}
