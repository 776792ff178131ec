//! Tables: keys, indexes, protection.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::reading::{document, list, resource, resources_of};

#[test]
fn tables_are_on_demand_recoverable_encrypted_and_protected() {
    let document = document();
    let tables = resources_of(&document, "AWS::DynamoDB::Table");
    assert_eq!(tables.keys().map(String::as_str).collect::<Vec<_>>(), ["ControlTable", "LedgerTable"]);
    for (name, table) in tables {
        assert_eq!(table["DeletionPolicy"], "Retain", "{name}");
        assert_eq!(table["UpdateReplacePolicy"], "Retain", "{name}");
        let properties = &table["Properties"];
        assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST", "{name}");
        assert_eq!(properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true, "{name}");
        assert_eq!(properties["SSESpecification"]["SSEEnabled"], true, "{name}");
        assert_eq!(properties["DeletionProtectionEnabled"], true, "{name}");
    }
}

#[test]
fn the_ledger_has_the_keys_and_indexes_of_the_contract() {
    let document = document();
    let ledger = &resource(&document, "LedgerTable")["Properties"];
    assert_eq!(keys(ledger), ["delivery_id", "item"]);
    assert_eq!(keys(&resource(&document, "ControlTable")["Properties"]), ["kind", "id"]);
    let indexes: BTreeMap<String, Value> = list(&ledger["GlobalSecondaryIndexes"])
        .into_iter()
        .map(|index| (index["IndexName"].as_str().unwrap().to_owned(), index))
        .collect();
    assert_eq!(indexes.keys().map(String::as_str).collect::<Vec<_>>(), ["attention", "reference", "run", "wake"]);
    assert_eq!(keys(&indexes["wake"]), ["lane", "wake_at"]);
    assert_eq!(keys(&indexes["attention"]), ["attention", "deliver_by"]);
    assert_eq!(keys(&indexes["reference"]), ["reference"]);
    assert_eq!(keys(&indexes["run"]), ["run_id", "delivery_id"]);
    let projection = |index: &str, names: Value| assert_eq!(indexes[index]["Projection"]["NonKeyAttributes"], names, "{index}");
    // Anything else here that changes with a step costs a write unit at each step.
    projection("wake", json!(["held_until", "deliver_by"]));
    projection("attention", json!(["reason", "death", "dlq_sent", "destination_id"]));
    projection("reference", Value::Null);
    projection("run", json!(["state", "reason", "deliver_by"]));
    for index in ["wake", "attention", "run"] {
        assert_eq!(indexes[index]["Projection"]["ProjectionType"], "INCLUDE");
    }
    assert_eq!(indexes["reference"]["Projection"]["ProjectionType"], "KEYS_ONLY");
}

pub(crate) fn keys(of: &Value) -> Vec<String> {
    let schema = list(&of["KeySchema"]);
    let kinds: Vec<_> = schema.iter().map(|key| key["KeyType"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["HASH", "RANGE"][..kinds.len()]);
    schema.iter().map(|key| key["AttributeName"].as_str().unwrap().to_owned()).collect()
}
