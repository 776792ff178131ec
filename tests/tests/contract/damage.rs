//! Items that nobody here wrote: they are named, and take nothing else along.

use std::collections::HashMap;

use punctual_core::ports::{Control as _, Ledger as _, PortError, WakeQuery};

use crate::control::destination;
use crate::rows::{at, payload, row};
use crate::worlds::{self, World as _, s};

fn corrupt<T: std::fmt::Debug>(result: Result<T, PortError>) -> String {
    match result {
        Err(error @ PortError::Corrupt { .. }) => error.to_string(),
        other => panic!("corrupt: {other:?}"),
    }
}

#[tokio::test]
async fn a_damaged_row_is_named_and_takes_no_other_along() {
    let world = worlds::dynoxide("damaged_row").await;
    let (good, bad) = (row(1), row(2));
    for row in [&good, &bad] {
        world.ledger().create(row, &payload(0, "{}")).await.unwrap();
    }
    let update = world.client.update_item().table_name(&world.ledger_table);
    let update = update.key("delivery_id", s(&bad.id)).key("item", s("delivery"));
    let update = update.update_expression("SET deliver_by = :x").expression_attribute_values(":x", s("secret"));
    update.send().await.expect("an update");

    let error = corrupt(world.ledger().partition(&bad.id).await);
    assert_eq!(error, format!("delivery {} is corrupt: attribute deliver_by is not readable", bad.id));
    assert_eq!(world.ledger().read(&[bad.id.clone(), good.id.clone()]).await.unwrap(), std::slice::from_ref(&good));
    let query = WakeQuery { lane: good.lane(), until: at(9_000), deadline_by: None, start: None, limit: 10 };
    let page = world.ledger().wake(&query).await.unwrap();
    assert_eq!(page.candidates.len(), 1);
    assert_eq!(page.candidates[0].id, good.id);
}

#[tokio::test]
async fn a_payload_without_its_parts_is_corrupt() {
    let world = worlds::dynoxide("damaged_payload").await;
    let item = [("delivery_id", s(row(1).id)), ("item", s(format!("payload#{}", row(1).content)))];
    world.put(item.map(|(name, value)| (name.to_owned(), value)).into()).await;
    let error = corrupt(world.ledger().payload(&row(1).id, &row(1).content).await);
    assert_eq!(error, format!("payload of {} is corrupt: attribute body is missing", row(1).id));
}

#[tokio::test]
async fn a_damaged_destination_is_named_and_takes_no_other_along() {
    let world = worlds::dynoxide("damaged_destination").await;
    let good = destination("acme", 1);
    world.control().put_destination(&good, 0).await.unwrap();
    let item = HashMap::from([("kind", s("destination")), ("id", s("beta")), ("spec", s("{}"))]);
    let item = item.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    world.client.put_item().table_name(&world.control_table).set_item(Some(item)).send().await.expect("an item");
    assert_eq!(world.control().destinations().await.unwrap(), std::slice::from_ref(&good));
    let beta = punctual_core::id::DestinationId::new("beta").expect("an id");
    let error = corrupt(world.control().lookup(&[beta]).await);
    assert_eq!(error, "destination beta is corrupt: attribute spec is not readable");
    // Whoever does not ask for it is not concerned.
    assert_eq!(world.control().lookup(std::slice::from_ref(&good.spec.id)).await.unwrap().0, [good]);
}

#[tokio::test]
async fn damaged_rejections_are_left_out_and_take_no_destination_along() {
    let world = worlds::dynoxide("damaged_rejections").await;
    let acme = destination("acme", 1);
    world.control().put_destination(&acme, 0).await.unwrap();
    let item = [("kind", "rejections"), ("id", "acme"), ("results", "xx?")].map(|(name, value)| (name.to_owned(), s(value)));
    world.client.put_item().table_name(&world.control_table).set_item(Some(item.into())).send().await.expect("an item");
    let watched = world.control().watch(std::slice::from_ref(&acme.spec.id)).await.unwrap();
    assert_eq!((watched.destinations, watched.rejections), (vec![acme], Vec::new()));
}

#[tokio::test]
async fn a_missing_table_is_refused_and_a_dead_server_is_unavailable() {
    let world = worlds::dynoxide("missing_table").await;
    let missing = punctual_adapters::dynamodb::DynamoLedger::new(world.client.clone(), "no-such-table");
    let refused = missing.read(&[row(1).id]).await;
    assert!(matches!(refused, Err(PortError::Refused { what: "read", .. })), "{refused:?}");
    let config = world.client.config().to_builder().endpoint_url("http://127.0.0.1:1");
    let nobody = aws_sdk_dynamodb::Client::from_conf(
        config.retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled()).build(),
    );
    let unavailable = punctual_adapters::dynamodb::DynamoLedger::new(nobody, &world.ledger_table).read(&[row(1).id]).await;
    assert!(matches!(unavailable, Err(PortError::Unavailable { what: "read", .. })), "{unavailable:?}");
}
