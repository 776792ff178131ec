//! I read the whole table, and keep the rows of one destination: what compares all of them has no index to go by.
//!
//! A page costs what it looks at, other items included, and not what it gives. Reads are eventually consistent: half the
//! cost, and half the load on the partitions that live traffic needs.

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use punctual_core::id::DeliveryId;
use punctual_core::ports::{PortError, Rows, RowsNamed, RowsPage, RowsPlace, RowsQuery};

use super::error::port_error;
use super::expression::Placeholders;
use super::item::{Item, Reader, as_is, text};
use super::ledger::DynamoLedger;
use super::meter::Kind;
use super::row::Stored;
use super::{names, row};

fn place(key: &Item) -> Result<RowsPlace, PortError> {
    let read = Reader::new(key, "place in the ledger".into());
    Ok(RowsPlace { partition: read.required(names::DELIVERY_ID, as_is)?, item: read.required(names::ITEM, as_is)? })
}

/// A line of history begins with its instant, and all instants are equally long: text order is time order.
fn filter(p: &mut Placeholders, query: &RowsQuery) -> String {
    let row = p.compare(names::ITEM, "=", text(names::ITEM_DELIVERY));
    let own = p.compare(names::DESTINATION_ID, "=", text(&query.destination));
    let deadline = p.compare(names::DELIVER_BY, ">=", text(query.from));
    let (history, until) = (p.name(names::HISTORY), p.value(text(query.until)));
    format!("{row} AND {own} AND {deadline} AND {history}[0] < {until}")
}

impl Rows for DynamoLedger {
    async fn rows(&self, query: &RowsQuery) -> Result<RowsPage, PortError> {
        let what = "rows";
        let mut p = Placeholders::default();
        let filter = filter(&mut p, query);
        let capacity = match self.meter.wanted() {
            ReturnConsumedCapacity::None => ReturnConsumedCapacity::Total,
            wanted => wanted,
        };
        let page = self
            .client
            .scan()
            .table_name(&self.table)
            .filter_expression(filter)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .set_exclusive_start_key(query.start.as_ref().map(|start| row::key(&start.partition, &start.item)))
            .set_limit(query.limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX).max(1)))
            .return_consumed_capacity(capacity)
            .send()
            .await
            .map_err(|e| port_error(what, e))?;
        self.meter.count(what, Kind::Read, page.consumed_capacity());
        let mut found = RowsPage {
            next: page.last_evaluated_key().map(place).transpose()?,
            read_units: page.consumed_capacity().and_then(|c| c.capacity_units()).unwrap_or_default(),
            ..RowsPage::default()
        };
        for item in page.items() {
            match row::decode(item) {
                Ok(Stored::Row(row)) => found.rows.push(*row),
                Ok(Stored::Alias(_)) => {}
                Err(problem) => {
                    tracing::error!(%problem, "a row cannot be read");
                    found.unreadable.push(row::name(item));
                }
            }
        }
        Ok(found)
    }

    async fn rows_named(&self, ids: &[DeliveryId]) -> Result<RowsNamed, PortError> {
        self.read_named(ids).await
    }
}
