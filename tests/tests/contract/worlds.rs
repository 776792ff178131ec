//! The adapters under test, each with fresh tables, and the few things that a test does past the ports.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use punctual_adapters::dynamodb::{DynamoControl, DynamoLedger};
use punctual_adapters::memory::{MemoryControl, MemoryLedger};
use punctual_core::delivery::{Delivery, Payload};
use punctual_core::ports::{Control, Ledger, Limits, Operations, Overview, Rows};
use punctual_core::settings::{RetryMode, Settings};
use punctual_tests::stack::REGION;

use crate::servers;

/// A way in which an adapter under test is not like AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Reads report no units.
    ReadsAreFree,
    /// Two transactions at once are made one after the other: none is cancelled with `TransactionConflict`.
    TransactionsNeverConflict,
}

/// All that is known; an assertion that depends on one asks [`World::differs`].
pub(crate) const DIFFERENCES: [(&str, Difference); 4] = [
    ("memory", Difference::ReadsAreFree),
    ("memory", Difference::TransactionsNeverConflict),
    ("dynoxide", Difference::TransactionsNeverConflict),
    ("ministack", Difference::TransactionsNeverConflict),
];

/// One adapter pair.
pub(crate) trait World {
    /// The ledger.
    type Ledger: Ledger + Rows;
    /// The control table.
    type Control: Control + Limits + Operations + Overview;

    /// The adapter's name in [`DIFFERENCES`].
    fn name(&self) -> &'static str;
    fn ledger(&self) -> &Self::Ledger;
    fn control(&self) -> &Self::Control;
    /// Every n-th of the generated rows is tried: all of them only where that is quick.
    fn stride(&self) -> usize;
    /// Stores a payload without its row, as a creation does that is stopped half-way.
    async fn orphan(&self, row: &Delivery, payload: &Payload);
    /// Erases the payload of a row.
    async fn erase(&self, row: &Delivery);
    /// Sets the stage's switch.
    async fn set_retry_mode(&self, mode: RetryMode);

    /// Whether it is known to be unlike AWS in this way.
    fn differs(&self, how: Difference) -> bool {
        DIFFERENCES.contains(&(self.name(), how))
    }
}

/// In memory.
#[derive(Default)]
pub(crate) struct Memory {
    ledger: MemoryLedger,
    control: MemoryControl,
}

impl World for Memory {
    type Ledger = MemoryLedger;
    type Control = MemoryControl;

    fn name(&self) -> &'static str {
        "memory"
    }

    fn ledger(&self) -> &MemoryLedger {
        &self.ledger
    }

    fn control(&self) -> &MemoryControl {
        &self.control
    }

    fn stride(&self) -> usize {
        1
    }

    async fn orphan(&self, row: &Delivery, payload: &Payload) {
        self.ledger.put_payload(&row.id, &row.content, payload.clone());
    }

    async fn erase(&self, row: &Delivery) {
        self.ledger.erase_payloads(&row.id);
    }

    async fn set_retry_mode(&self, retry_mode: RetryMode) {
        self.control.set_settings(Settings { retry_mode, ..Settings::default() });
    }
}

/// On a DynamoDB.
pub(crate) struct Dynamo {
    name: &'static str,
    pub(crate) client: Client,
    pub(crate) ledger_table: String,
    pub(crate) control_table: String,
    ledger: DynamoLedger,
    control: DynamoControl,
}

impl World for Dynamo {
    type Ledger = DynamoLedger;
    type Control = DynamoControl;

    fn name(&self) -> &'static str {
        self.name
    }

    fn ledger(&self) -> &DynamoLedger {
        &self.ledger
    }

    fn control(&self) -> &DynamoControl {
        &self.control
    }

    fn stride(&self) -> usize {
        19
    }

    async fn orphan(&self, row: &Delivery, payload: &Payload) {
        let put = self.client.put_item().table_name(&self.ledger_table);
        let put = put.item("delivery_id", s(&row.id)).item("item", s(format!("payload#{}", row.content)));
        let put = put.item("body", AttributeValue::B(payload.body.clone().into()));
        put.send().await.expect("an orphan payload");
    }

    async fn erase(&self, row: &Delivery) {
        let delete = self.client.delete_item().table_name(&self.ledger_table);
        let delete = delete.key("delivery_id", s(&row.id)).key("item", s(format!("payload#{}", row.content)));
        delete.send().await.expect("an erased payload");
    }

    async fn set_retry_mode(&self, mode: RetryMode) {
        let mode = serde_json::to_value(mode).expect("a word");
        let put = self.client.put_item().table_name(&self.control_table);
        let put = put.item("kind", s("settings")).item("id", s("stage")).item("retry_mode", s(mode.as_str().expect("a word")));
        put.send().await.expect("settings");
    }
}

impl Dynamo {
    /// Puts any item into the ledger table.
    pub(crate) async fn put(&self, item: HashMap<String, AttributeValue>) {
        self.client.put_item().table_name(&self.ledger_table).set_item(Some(item)).send().await.expect("an item");
    }
}

pub(crate) fn s(text: impl ToString) -> AttributeValue {
    AttributeValue::S(text.to_string())
}

pub(crate) async fn memory(_case: &str) -> Memory {
    Memory::default()
}

pub(crate) async fn dynoxide(case: &str) -> Dynamo {
    on("dynoxide", servers::dynoxide_endpoint(), case).await
}

pub(crate) async fn ministack(case: &str) -> Dynamo {
    on("ministack", servers::ministack_endpoint(), case).await
}

/// A client of this server. Retries as usual, but without the usual waits.
pub(crate) fn client(endpoint: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new("test", "test", None, None, "contract suite"))
        .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
        .endpoint_url(endpoint);
    Client::from_conf(config.build())
}

async fn on(name: &'static str, endpoint: String, case: &str) -> Dynamo {
    static TABLES: AtomicU32 = AtomicU32::new(0);
    let client = client(&endpoint);
    let number = TABLES.fetch_add(1, Ordering::Relaxed);
    let (ledger_table, control_table) = (format!("ledger-{case}-{number}"), format!("control-{case}-{number}"));
    create_ledger(&client, &ledger_table).await;
    create_control(&client, &control_table).await;
    let ledger = DynamoLedger::new(client.clone(), &ledger_table);
    let control = DynamoControl::new(client.clone(), &control_table);
    Dynamo { name, client, ledger_table, control_table, ledger, control }
}

async fn create_ledger(client: &Client, table: &str) {
    let include = |names: &[&str]| {
        let kind = if names.is_empty() { ProjectionType::KeysOnly } else { ProjectionType::Include };
        let names = (!names.is_empty()).then(|| names.iter().map(ToString::to_string).collect());
        Projection::builder().projection_type(kind).set_non_key_attributes(names).build()
    };
    let index = |name: &str, keys: &[&str], projected: &[&str]| {
        let index = GlobalSecondaryIndex::builder().index_name(name).set_key_schema(Some(schema(keys)));
        index.projection(include(projected)).build().expect("an index")
    };
    let names = ["delivery_id", "item", "lane", "wake_at", "attention", "deliver_by", "reference", "run_id"];
    client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(names.map(attribute).to_vec()))
        .set_key_schema(Some(schema(&["delivery_id", "item"])))
        .global_secondary_indexes(index("wake", &["lane", "wake_at"], &["held_until", "deliver_by"]))
        .global_secondary_indexes(index(
            "attention",
            &["attention", "deliver_by"],
            &["reason", "death", "dlq_sent", "destination_id"],
        ))
        .global_secondary_indexes(index("reference", &["reference"], &[]))
        .global_secondary_indexes(index("run", &["run_id", "delivery_id"], &["state", "reason", "deliver_by"]))
        .send()
        .await
        .expect("the ledger table");
}

async fn create_control(client: &Client, table: &str) {
    client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(["kind", "id"].map(attribute).to_vec()))
        .set_key_schema(Some(schema(&["kind", "id"])))
        .send()
        .await
        .expect("the control table");
}

fn attribute(name: &str) -> AttributeDefinition {
    AttributeDefinition::builder()
        .attribute_name(name)
        .attribute_type(ScalarAttributeType::S)
        .build()
        .expect("an attribute definition")
}

fn schema(keys: &[&str]) -> Vec<KeySchemaElement> {
    let kinds = [KeyType::Hash, KeyType::Range];
    let element = |(name, kind): (&&str, KeyType)| KeySchemaElement::builder().attribute_name(*name).key_type(kind).build();
    keys.iter().zip(kinds).map(|pair| element(pair).expect("a key")).collect()
}
