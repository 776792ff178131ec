//! I read many items by key: in chunks, each key once, and again where the service left some out.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use punctual_core::ports::PortError;

use super::error::{port_error, unfinished};
use super::item::Item;
use super::meter::{Kind, Metered};

/// The most keys in one call.
const CHUNK: usize = 100;
/// So often a chunk's left-over keys are asked for again.
const ROUNDS: u32 = 6;
/// The wait before the second round; doubled for each further one.
const PAUSE: Duration = Duration::from_millis(20);

/// Where from, and how.
pub(crate) struct Batch<'a> {
    pub(crate) client: &'a Client,
    pub(crate) meter: &'a Metered,
    pub(crate) table: &'a str,
    pub(crate) consistent: bool,
    pub(crate) what: &'static str,
}

impl Batch<'_> {
    /// The items that exist, in no particular order. The keys are distinct.
    ///
    /// # Errors
    /// [`PortError::Unavailable`] also if keys are still left out after a bounded number of rounds.
    pub(crate) async fn get(&self, keys: Vec<Item>) -> Result<Vec<Item>, PortError> {
        let mut items = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(CHUNK) {
            items.extend(self.chunk(chunk.to_vec()).await?);
        }
        Ok(items)
    }

    async fn chunk(&self, mut keys: Vec<Item>) -> Result<Vec<Item>, PortError> {
        let mut items = Vec::with_capacity(keys.len());
        for round in 0..ROUNDS {
            if round > 0 {
                tokio::time::sleep(PAUSE * 2_u32.pow(round - 1)).await;
            }
            let request = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(self.consistent).build();
            let request = request.map_err(|e| PortError::Refused { what: self.what, source: Box::new(e) })?;
            let answer = self
                .client
                .batch_get_item()
                .request_items(self.table, request)
                .return_consumed_capacity(self.meter.wanted())
                .send()
                .await
                .map_err(|e| port_error(self.what, e))?;
            self.meter.count(self.what, Kind::Read, answer.consumed_capacity());
            items.extend(answer.responses.unwrap_or_default().into_values().flatten());
            keys = answer.unprocessed_keys.unwrap_or_default().into_values().flat_map(|left| left.keys).collect();
            if keys.is_empty() {
                return Ok(items);
            }
        }
        Err(unfinished(self.what))
    }
}

/// Each key once, by what it is made from.
pub(crate) fn distinct<T: Ord>(ids: impl IntoIterator<Item = T>, key: impl Fn(&T) -> Item) -> Vec<Item> {
    let keys: BTreeMap<T, Item> = ids
        .into_iter()
        .map(|id| {
            let key = key(&id);
            (id, key)
        })
        .collect();
    keys.into_values().collect()
}
