//! I am the control table's port: destinations, calendars, the stage's switches, places in lanes.
//!
//! A person reads and, in an emergency, edits these rows in the console: a specification is its JSON text.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use punctual_core::breaker::Reach;
use punctual_core::calendar::StoredCalendar;
use punctual_core::delivery::Lane;
use punctual_core::destination::{Change, Destination, Pause, Spec};
use punctual_core::figures::{Calls, Heartbeat};
use punctual_core::id::{CalendarId, DeliveryId, DestinationId, RunId};
use punctual_core::limiter::{Key, Micros, Move, Moved};
use punctual_core::ports::{Control, Cursor, Limits, Overview, PortError, ShadowPage, ShadowQuery, Stored, Watched};
use punctual_core::redrive::Run;
use punctual_core::rejections::Rejections;
use punctual_core::settings::{RetryMode, Settings};
use punctual_core::shadow::ShadowEntry;
use punctual_core::time::Timestamp;

use super::batch::{Batch, distinct};
use super::error::port_error;
use super::expression::Placeholders;
use super::item::{Item, Reader, number, text};
use super::meter::{Kind, Meter, Metered};
use super::{calendar, heartbeat, limiter, names, query, reach, rejections, run, shadow};

/// The control table on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoControl {
    pub(super) client: Client,
    pub(super) table: String,
    pub(super) meter: Metered,
}

impl DynamoControl {
    /// The control port on this table. Every call goes through this very client.
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into(), meter: Metered::default() }
    }

    /// The same, with every call's consumed capacity asked for and counted.
    #[must_use]
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.meter = Metered(Some(meter));
        self
    }

    async fn all_of(&self, kind: &str, consistent: bool, what: &'static str) -> Result<Vec<Item>, PortError> {
        let mut p = Placeholders::default();
        let condition = p.compare(names::KIND, "=", text(kind));
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression(condition)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .consistent_read(consistent);
        Ok(query::all(query, &self.meter, what).await?.items)
    }

    /// These items and the stage's switches, as of now.
    async fn items(&self, mut keys: Vec<Item>, what: &'static str) -> Result<Vec<Item>, PortError> {
        keys.push(key(names::KIND_SETTINGS, names::ID_STAGE));
        Batch { client: &self.client, meter: &self.meter, table: &self.table, consistent: true, what }.get(keys).await
    }

    /// One row as of now.
    async fn one(&self, key: Item, what: &'static str) -> Result<Option<Item>, PortError> {
        let request = self.client.get_item().table_name(&self.table).set_key(Some(key)).consistent_read(true);
        let answer = request.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
        self.meter.count(what, Kind::Read, answer.consumed_capacity());
        Ok(answer.item)
    }

    /// Writes a row if the stored one has this version (0: if there is none).
    async fn put(&self, item: Item, expected: u64, what: &'static str) -> Result<Stored, PortError> {
        let mut p = Placeholders::default();
        let condition = match expected {
            0 => p.call("attribute_not_exists", names::KIND),
            version => p.compare(names::VERSION, "=", number(version)),
        };
        let answer = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item.clone()))
            .condition_expression(condition)
            .set_expression_attribute_names(p.names())
            .set_expression_attribute_values(p.values())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(self.meter.wanted())
            .send()
            .await;
        match answer {
            Ok(answer) => {
                self.meter.count(what, Kind::Write, answer.consumed_capacity());
                Ok(Stored::Done)
            }
            Err(error) => match error.as_service_error() {
                // The same row: this very write, whose answer was lost on the wire.
                Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(if refused.item() == Some(&item) { Stored::Done } else { Stored::Conflict })
                }
                _ => Err(port_error(what, error)),
            },
        }
    }
}

pub(super) fn key(kind: &str, id: impl ToString) -> Item {
    Item::from([(names::KIND.to_owned(), text(kind)), (names::ID.to_owned(), text(id.to_string()))])
}

pub(super) fn reader(item: &Item) -> Reader<'_> {
    let part = |name| item.get(name).and_then(|value| value.as_s().ok()).map_or("?", String::as_str);
    Reader::new(item, format!("{} {}", part(names::KIND), part(names::ID)))
}

fn encode(destination: &Destination) -> Result<Item, serde_json::Error> {
    let Destination { spec, version, paused, changed } = destination;
    let mut item = key(names::KIND_DESTINATION, &spec.id);
    item.insert(names::SPEC.to_owned(), text(serde_json::to_string(spec)?));
    item.insert(names::VERSION.to_owned(), number(*version));
    item.insert(names::CHANGED.to_owned(), text(serde_json::to_string(changed)?));
    if let Some(pause) = paused {
        item.insert(names::PAUSED.to_owned(), text(serde_json::to_string(pause)?));
    }
    Ok(item)
}

fn decode(item: &Item) -> Result<Destination, PortError> {
    let read = reader(item);
    let destination = Destination {
        spec: read.required(names::SPEC, serde_json::from_str::<Spec>)?,
        version: read.required_number(names::VERSION)?,
        paused: read.optional(names::PAUSED, serde_json::from_str::<Pause>)?,
        changed: read.required(names::CHANGED, serde_json::from_str::<Change>)?,
    };
    if destination.spec.id != read.required(names::ID, DestinationId::new)? {
        return Err(read.corrupt("the specification is another destination's"));
    }
    Ok(destination)
}

fn settings(item: &Item) -> Result<Settings, PortError> {
    let mode = |text: &str| serde_json::from_value::<RetryMode>(text.into());
    Ok(Settings {
        retry_mode: reader(item).optional(names::RETRY_MODE, mode)?.unwrap_or_default(),
        dispatch_paused: reader(item).optional(names::DISPATCH_PAUSED, str::parse::<Timestamp>)?,
    })
}

fn place(item: &Item) -> Result<(Lane, Cursor), PortError> {
    let read = reader(item);
    let cursor = Cursor {
        wake_at: read.required(names::WAKE_AT, str::parse::<Timestamp>)?,
        id: read.required(names::DELIVERY_ID, DeliveryId::new)?,
    };
    Ok((read.required(names::ID, str::parse::<Lane>)?, cursor))
}

/// Items of several kinds, each where it belongs.
fn sorted(items: &[Item]) -> Result<Watched, PortError> {
    let mut watched = Watched::default();
    let (mut noted, mut reached) = (Vec::new(), Vec::new());
    for item in items {
        match item.get(names::KIND).and_then(|kind| kind.as_s().ok()).map(String::as_str) {
            Some(names::KIND_SETTINGS) => watched.settings = settings(item)?,
            Some(names::KIND_REJECTIONS) => noted.push(item.clone()),
            Some(names::KIND_REACH) => reached.push(item.clone()),
            _ => watched.destinations.push(decode(item)?),
        }
    }
    watched.rejections = readable(&noted, rejections::decode);
    watched.reach = readable(&reached, reach::decode);
    Ok(watched)
}

/// What can be read; the rest is reported to the log and must not take it along.
pub(super) fn readable<T>(items: &[Item], decode: impl Fn(&Item) -> Result<T, PortError>) -> Vec<T> {
    let report = |problem: PortError| tracing::error!(%problem, "a control row is left out");
    items.iter().filter_map(|item| decode(item).map_err(report).ok()).collect()
}

impl Limits for DynamoControl {
    async fn limit(&self, row: &Key) -> Result<Option<Micros>, PortError> {
        let keys = vec![key(names::KIND_LIMITER, row)];
        let batch = Batch { client: &self.client, meter: &self.meter, table: &self.table, consistent: true, what: "limit" };
        limiter::tat(batch.get(keys).await?.first())
    }
}

impl Control for DynamoControl {
    /// Leaves out, and reports to the log, a destination that cannot be read: the others go on.
    async fn destinations(&self) -> Result<Vec<Destination>, PortError> {
        Ok(readable(&self.all_of(names::KIND_DESTINATION, true, "destinations").await?, decode))
    }

    /// A destination that cannot be read is an error here: left out, it would pass for one that is not registered.
    async fn lookup(&self, ids: &[DestinationId]) -> Result<(Vec<Destination>, Settings), PortError> {
        let keys = distinct(ids, |id| key(names::KIND_DESTINATION, id));
        let Watched { destinations, settings, .. } = sorted(&self.items(keys, "lookup").await?)?;
        Ok((destinations, settings))
    }

    /// As [`Control::lookup`].
    async fn watch(&self, ids: &[DestinationId]) -> Result<Watched, PortError> {
        let keys = |kind| distinct(ids, |id| key(kind, id));
        let keys = [keys(names::KIND_DESTINATION), keys(names::KIND_REJECTIONS), keys(names::KIND_REACH)].concat();
        sorted(&self.items(keys, "watch").await?)
    }

    async fn note_rejections(&self, id: &DestinationId, rejections: &Rejections) -> Result<Stored, PortError> {
        let item = rejections::encode(id, rejections);
        self.put(item, rejections.version.saturating_sub(1), "note_rejections").await
    }

    async fn move_limit(&self, key: &Key, write: Move) -> Result<Moved, PortError> {
        self.move_limit_counting(key, write, Calls::default()).await
    }

    async fn move_limit_counting(&self, key: &Key, write: Move, calls: Calls) -> Result<Moved, PortError> {
        limiter::moved(self.client.update_item().table_name(&self.table), &self.meter, key, write, calls).await
    }

    async fn reaches(&self) -> Result<Vec<(DestinationId, Reach)>, PortError> {
        Ok(readable(&self.all_of(names::KIND_REACH, true, "reaches").await?, reach::decode))
    }

    async fn note_reach(&self, id: &DestinationId, reach: &Reach) -> Result<Stored, PortError> {
        let what = "note_reach";
        let item = reach::encode(id, reach).map_err(|e| PortError::Refused { what, source: Box::new(e) })?;
        self.put(item, reach.version.saturating_sub(1), what).await
    }

    async fn put_destination(&self, destination: &Destination, expected: u64) -> Result<Stored, PortError> {
        let what = "put_destination";
        let item = encode(destination).map_err(|e| PortError::Refused { what, source: Box::new(e) })?;
        self.put(item, expected, what).await
    }

    async fn calendars(&self) -> Result<Vec<StoredCalendar>, PortError> {
        Ok(readable(&self.all_of(names::KIND_CALENDAR, true, "calendars").await?, calendar::decode))
    }

    async fn lookup_calendars(&self, ids: &[CalendarId]) -> Result<Vec<StoredCalendar>, PortError> {
        let (what, keys) = ("lookup_calendars", distinct(ids, |id| key(names::KIND_CALENDAR, id)));
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let batch = Batch { client: &self.client, meter: &self.meter, table: &self.table, consistent: true, what };
        batch.get(keys).await?.iter().map(calendar::decode).collect()
    }

    async fn put_calendar(&self, calendar: &StoredCalendar, expected: u64) -> Result<Stored, PortError> {
        let what = "put_calendar";
        let item = calendar::encode(calendar).map_err(|e| PortError::Refused { what, source: Box::new(e) })?;
        self.put(item, expected, what).await
    }

    async fn run(&self, id: &RunId) -> Result<Option<Run>, PortError> {
        self.one(key(names::KIND_RUN, id), "run").await?.map(|item| run::decode(&item)).transpose()
    }

    async fn runs(&self) -> Result<Vec<Run>, PortError> {
        self.all_of(names::KIND_RUN, true, "runs").await?.iter().map(run::decode).collect()
    }

    async fn put_run(&self, run: &Run, expected: u64) -> Result<Stored, PortError> {
        let what = "put_run";
        let item = run::encode(run).map_err(|e| PortError::Refused { what, source: Box::new(e) })?;
        self.put(item, expected, what).await
    }

    async fn freeze(&self) -> Result<Option<Change>, PortError> {
        let item = self.one(key(names::KIND_SETTINGS, names::ID_REDRIVE), "freeze").await?;
        item.map_or(Ok(None), |item| run::decode_freeze(&item))
    }

    async fn put_freeze(&self, freeze: Option<&Change>) -> Result<(), PortError> {
        let what = "put_freeze";
        match freeze {
            Some(freeze) => {
                let item = run::encode_freeze(freeze).map_err(|e| PortError::Refused { what, source: Box::new(e) })?;
                let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
                let answer = put.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
                self.meter.count(what, Kind::Write, answer.consumed_capacity());
            }
            None => {
                let key = key(names::KIND_SETTINGS, names::ID_REDRIVE);
                let delete = self.client.delete_item().table_name(&self.table).set_key(Some(key));
                let answer =
                    delete.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
                self.meter.count(what, Kind::Write, answer.consumed_capacity());
            }
        }
        Ok(())
    }

    async fn cursors(&self) -> Result<Vec<(Lane, Cursor)>, PortError> {
        Ok(readable(&self.all_of(names::KIND_CURSOR, true, "cursors").await?, place))
    }

    async fn keep_cursor(&self, lane: &Lane, cursor: Option<&Cursor>) -> Result<(), PortError> {
        let what = "keep_cursor";
        let mut item = key(names::KIND_CURSOR, lane);
        if let Some(cursor) = cursor {
            item.insert(names::WAKE_AT.to_owned(), text(cursor.wake_at));
            item.insert(names::DELIVERY_ID.to_owned(), text(&cursor.id));
            let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
            let answer = put.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
            self.meter.count(what, Kind::Write, answer.consumed_capacity());
        } else {
            let delete = self.client.delete_item().table_name(&self.table).set_key(Some(item));
            let answer = delete.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
            self.meter.count(what, Kind::Write, answer.consumed_capacity());
        }
        Ok(())
    }

    async fn note_heartbeat(&self, function: &str, heartbeat: &Heartbeat) -> Result<(), PortError> {
        let what = "note_heartbeat";
        let put = self.client.put_item().table_name(&self.table).set_item(Some(heartbeat::encode(function, heartbeat)));
        let answer = put.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
        self.meter.count(what, Kind::Write, answer.consumed_capacity());
        Ok(())
    }

    async fn post_shadow(&self, entry: &ShadowEntry) -> Result<(), PortError> {
        let what = "post_shadow";
        let put = self.client.put_item().table_name(&self.table).set_item(Some(shadow::encode(entry)));
        let answer = put.return_consumed_capacity(self.meter.wanted()).send().await.map_err(|e| port_error(what, e))?;
        self.meter.count(what, Kind::Write, answer.consumed_capacity());
        Ok(())
    }

    async fn shadow_entries(&self, query: &ShadowQuery) -> Result<ShadowPage, PortError> {
        shadow::page(self.client.query().table_name(&self.table), &self.meter, query).await
    }
}

impl Overview for DynamoControl {
    async fn rejections(&self) -> Result<Vec<(DestinationId, Rejections)>, PortError> {
        Ok(readable(&self.all_of(names::KIND_REJECTIONS, false, "rejections").await?, rejections::decode))
    }

    async fn calls(&self) -> Result<Vec<(DestinationId, Calls)>, PortError> {
        let rows = readable(&self.all_of(names::KIND_LIMITER, false, "calls").await?, limiter::calls);
        Ok(rows.into_iter().flatten().collect())
    }

    async fn heartbeat(&self, function: &str) -> Result<Option<Heartbeat>, PortError> {
        let rows = readable(&self.all_of(names::KIND_HEARTBEAT, false, "heartbeat").await?, heartbeat::decode);
        Ok(rows.into_iter().find(|(of, _)| of == function).map(|(_, heartbeat)| heartbeat))
    }
}
