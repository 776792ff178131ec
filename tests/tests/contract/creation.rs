//! What is stored once, and what stands in the way of it.

use punctual_core::id::{DeliveryId, IdempotencyKey};
use punctual_core::ports::{Acquired, Created, Ledger as _, PortError, Written};
use punctual_core::transition;

use crate::rows::{at, content, parts, payload, row, stamp};
use crate::worlds::{Difference, World};

fn migrated(n: u32, id: &str, key: &str) -> punctual_core::delivery::Delivery {
    let mut row = row(n);
    row.id = DeliveryId::new(id).expect("an id");
    row.idempotency_key = IdempotencyKey::new(key).expect("a key");
    row
}

pub(crate) async fn creates_once(world: &impl World) {
    let (ledger, row, payload) = (world.ledger(), row(1), payload(1, "{}"));
    assert_eq!(ledger.create(&row, &payload).await.unwrap(), Created::New);
    assert_eq!(ledger.create(&row, &payload).await.unwrap(), Created::Exists(Box::new(row.clone())));
    let stored = ledger.partition(&row.id).await.unwrap().expect("a partition");
    assert_eq!(stored.row, row);
    assert_eq!(stored.payload, Some(payload.clone()));
    assert_eq!(ledger.payload(&row.id, &row.content).await.unwrap(), Some(payload));
}

pub(crate) async fn other_content_alters_nothing(world: &impl World) {
    let (ledger, first, body) = (world.ledger(), row(1), payload(1, "{}"));
    ledger.create(&first, &body).await.unwrap();
    let mut other = first.clone();
    other.content = content("other");
    other.deliver_by = at(9_000);
    assert_eq!(ledger.create(&other, &payload(1, "other")).await.unwrap(), Created::Exists(Box::new(first.clone())));
    let stored = ledger.partition(&first.id).await.unwrap().expect("a partition");
    assert_eq!((stored.row, stored.payload), (first, Some(body)));
}

pub(crate) async fn an_orphan_payload_does_not_block(world: &impl World) {
    let (ledger, row, body) = (world.ledger(), row(1), payload(1, "{}"));
    // Two requests that stopped between payload and row: one with the same content, one with another.
    let mut other = row.clone();
    other.content = content("never finished");
    world.orphan(&other, &payload(1, "never finished")).await;
    assert_eq!(ledger.partition(&row.id).await.unwrap(), None);
    assert_eq!(ledger.create(&row, &body).await.unwrap(), Created::New);
    let stored = ledger.partition(&row.id).await.unwrap().expect("a partition");
    assert_eq!((stored.row, stored.payload), (row, Some(body)));
}

pub(crate) async fn a_migrated_key_is_locked(world: &impl World) {
    let ledger = world.ledger();
    let first = migrated(1, "old-1", "old-key");
    assert_eq!(ledger.create(&first, &payload(1, "{}")).await.unwrap(), Created::New);
    let second = migrated(2, "old-2", "old-key");
    assert_eq!(ledger.create(&second, &payload(2, "{}")).await.unwrap(), Created::Taken(first.id.clone()));
    assert_eq!(ledger.read(&[first.id.clone(), second.id.clone()]).await.unwrap(), [first]);
    // All or none: the refused one left no alias behind.
    assert_eq!(ledger.create(&row(2), &payload(2, "{}")).await.unwrap(), Created::New);
}

pub(crate) async fn a_migrated_reminder_blocks_its_derived_id(world: &impl World) {
    let ledger = world.ledger();
    let old = migrated(1, "old-1", "old-key");
    ledger.create(&old, &payload(1, "{}")).await.unwrap();
    assert_eq!(ledger.create(&row(1), &payload(1, "{}")).await.unwrap(), Created::Taken(old.id.clone()));
    // The same reminder, migrated under yet another id and key.
    let again = migrated(1, "old-1b", "old-key-b");
    assert_eq!(ledger.create(&again, &payload(1, "{}")).await.unwrap(), Created::Taken(old.id));
}

pub(crate) async fn a_derived_reminder_blocks_its_migration(world: &impl World) {
    let ledger = world.ledger();
    let derived = row(1);
    ledger.create(&derived, &payload(1, "{}")).await.unwrap();
    let old = migrated(1, "old-1", "old-key");
    assert_eq!(ledger.create(&old, &payload(1, "{}")).await.unwrap(), Created::Taken(derived.id.clone()));
    assert_eq!(ledger.partition(&old.id).await.unwrap(), None);
    // A key of its own under the derived id is locked, but needs no alias.
    let keyed = migrated(2, DeliveryId::derive(&parts(2)).as_str(), "old-key");
    assert_eq!(ledger.create(&keyed, &payload(2, "{}")).await.unwrap(), Created::New);
    assert_eq!(ledger.read(std::slice::from_ref(&keyed.id)).await.unwrap(), [keyed]);
}

pub(crate) async fn a_migrated_id_with_its_own_key_is_locked_too(world: &impl World) {
    let ledger = world.ledger();
    let first = migrated(1, "old-1", "old-1");
    assert_eq!(ledger.create(&first, &payload(1, "{}")).await.unwrap(), Created::New);
    let second = migrated(2, "old-2", "old-1");
    assert_eq!(ledger.create(&second, &payload(2, "{}")).await.unwrap(), Created::Taken(first.id.clone()));
    assert_eq!(ledger.create(&row(1), &payload(1, "{}")).await.unwrap(), Created::Taken(first.id));
}

pub(crate) async fn an_alias_is_no_row(world: &impl World) {
    let ledger = world.ledger();
    let old = migrated(1, "old-1", "old-key");
    ledger.create(&old, &payload(1, "{}")).await.unwrap();
    let derived = row(1);
    assert_eq!(ledger.read(&[derived.id.clone(), old.id.clone()]).await.unwrap(), [old]);
    let led = ledger.partition(&derived.id).await.unwrap().expect("the alias leads to the delivery");
    assert_eq!(led.row.id.as_str(), "old-1");
    let acquire = crate::claims::for_dispatch(&derived, "owner");
    assert_eq!(ledger.acquire(&acquire).await.unwrap(), Acquired::Absent);
    let write = transition::expired(&derived, &stamp(1, "me")).expect("a transition");
    assert_eq!(ledger.write(&write).await.unwrap(), Written::Absent);
}

pub(crate) async fn a_repeated_migration_exists(world: &impl World) {
    let ledger = world.ledger();
    let old = migrated(1, "old-1", "old-key");
    assert_eq!(ledger.create(&old, &payload(1, "{}")).await.unwrap(), Created::New);
    assert_eq!(ledger.create(&old, &payload(1, "{}")).await.unwrap(), Created::Exists(Box::new(old.clone())));
    let mut other = old.clone();
    other.content = content("other");
    assert_eq!(ledger.create(&other, &payload(1, "other")).await.unwrap(), Created::Exists(Box::new(old)));
}

pub(crate) async fn one_of_two_concurrent_migrations_has_the_key(world: &impl World) {
    let ledger = world.ledger();
    for n in (0..20).step_by(2) {
        let key = format!("old-key-{n}");
        let (a, b) = (migrated(n, &format!("old-{n}a"), &key), migrated(n + 1, &format!("old-{n}b"), &key));
        let (body_a, body_b) = (payload(n, "{}"), payload(n + 1, "{}"));
        let (one, other) = futures::future::join(ledger.create(&a, &body_a), ledger.create(&b, &body_b)).await;
        let (winner, loser) = if matches!(one, Ok(Created::New)) { (a, other) } else { (b, one) };
        match loser {
            Ok(Created::Taken(holder)) => assert_eq!(holder, winner.id),
            Err(PortError::Unavailable { .. }) if !world.differs(Difference::TransactionsNeverConflict) => {}
            other => panic!("the other one is refused: {other:?}"),
        }
        assert_eq!(ledger.read(std::slice::from_ref(&winner.id)).await.unwrap(), [winner]);
    }
}
