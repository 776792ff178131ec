//! I follow a query from page to page until its end.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use punctual_core::ports::PortError;

use super::error::port_error;
use super::item::Item;
use super::meter::{Kind, Metered};

/// All that a query finds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The items; none if only their number was asked for.
    pub(crate) items: Vec<Item>,
    /// How many there are.
    pub(crate) count: u64,
}

/// Reads the first page that holds anything.
///
/// # Errors
/// The first page's that fails.
pub(crate) async fn one(query: QueryFluentBuilder, meter: &Metered, what: &'static str) -> Result<Found, PortError> {
    pages(query, meter, what, |found| found.count > 0).await
}

/// Reads all pages.
///
/// # Errors
/// The first page's that fails.
pub(crate) async fn all(query: QueryFluentBuilder, meter: &Metered, what: &'static str) -> Result<Found, PortError> {
    pages(query, meter, what, |_| false).await
}

async fn pages(
    query: QueryFluentBuilder,
    meter: &Metered,
    what: &'static str,
    enough: impl Fn(&Found) -> bool,
) -> Result<Found, PortError> {
    let mut found = Found::default();
    let mut start = None;
    loop {
        let page = query
            .clone()
            .return_consumed_capacity(meter.wanted())
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|e| port_error(what, e))?;
        meter.count(what, Kind::Read, page.consumed_capacity());
        found.count += u64::try_from(page.count()).unwrap_or_default();
        start = page.last_evaluated_key;
        found.items.extend(page.items.unwrap_or_default());
        if start.is_none() || enough(&found) {
            return Ok(found);
        }
    }
}
