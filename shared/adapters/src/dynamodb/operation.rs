//! I read and write operators' switches and the record of what they do.

use aws_sdk_dynamodb::types::AttributeValue;
use punctual_core::operation::{Operation, OperationPage, OperationPlace};
use punctual_core::ports::{Operations, PortError};
use punctual_core::settings::{RetryMode, Switch};

use super::control::{DynamoControl, key, readable, reader};
use super::error::port_error;
use super::expression::Placeholders;
use super::item::{Item, text};
use super::meter::Kind;
use super::names;

fn encode(operation: &Operation) -> Result<Item, serde_json::Error> {
    let mut item = key(names::KIND_OPERATION, operation.place());
    item.insert(names::OPERATION.to_owned(), text(serde_json::to_string(operation)?));
    Ok(item)
}

fn decode(item: &Item) -> Result<Operation, PortError> {
    let read = reader(item);
    let operation = read.required(names::OPERATION, serde_json::from_str::<Operation>)?;
    if operation.place() != read.required(names::ID, str::parse::<OperationPlace>)? {
        return Err(read.corrupt("the operation is another one's"));
    }
    Ok(operation)
}

impl Operations for DynamoControl {
    async fn switch(&self, switch: Switch) -> Result<(), PortError> {
        let what = "switch";
        let (name, value): (&str, Option<AttributeValue>) = match switch {
            Switch::RetryMode(RetryMode::Retry) => (names::RETRY_MODE, Some(text("retry"))),
            Switch::RetryMode(RetryMode::DeadLetter) => (names::RETRY_MODE, Some(text("dead_letter"))),
            Switch::DispatchPaused(since) => (names::DISPATCH_PAUSED, since.map(text)),
        };
        let update = self.client.update_item().table_name(&self.table);
        let update = update.set_key(Some(key(names::KIND_SETTINGS, names::ID_STAGE))).expression_attribute_names("#switch", name);
        let update = match value {
            Some(value) => update.update_expression("SET #switch = :value").expression_attribute_values(":value", value),
            None => update.update_expression("REMOVE #switch"),
        };
        let answer = update.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
        self.meter.count(what, Kind::Write, answer.consumed_capacity());
        Ok(())
    }

    async fn record(&self, operation: &Operation) -> Result<(), PortError> {
        let what = "record";
        let item = encode(operation).map_err(|e| PortError::Refused { what, source: Box::new(e) })?;
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        let answer = put.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
        self.meter.count(what, Kind::Write, answer.consumed_capacity());
        Ok(())
    }

    async fn operations(&self, start: Option<&OperationPlace>, limit: u32) -> Result<OperationPage, PortError> {
        let what = "operations";
        let mut p = Placeholders::default();
        let condition = p.compare(names::KIND, "=", text(names::KIND_OPERATION));
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression(condition)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .consistent_read(true)
            .scan_index_forward(false)
            .set_exclusive_start_key(start.map(|place| key(names::KIND_OPERATION, place)))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX).max(1))
            .return_consumed_capacity(self.meter.wanted());
        let page = query.send().await.map_err(|e| port_error(what, e))?;
        self.meter.count(what, Kind::Read, page.consumed_capacity());
        let next = page.last_evaluated_key().map(|key| reader(key).required(names::ID, str::parse::<OperationPlace>));
        Ok(OperationPage { operations: readable(page.items(), decode), next: next.transpose()? })
    }
}
