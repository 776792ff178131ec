use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use proptest::option::of;
use proptest::prelude::*;
use punctual_core::attempt::{Answer, Attempt};
use punctual_core::delivery::{Cancel, Delivery, Hold, Instants, NewDelivery};
use punctual_core::history::HistoryEntry;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, MessageId, Owner, Reference, RunId};
use punctual_core::moved::Moved;
use punctual_core::reason::Reason;
use punctual_core::redrive::Redrive;
use punctual_core::rule::Rule;
use punctual_core::state::State;
use punctual_core::time::Timestamp;

use super::*;

fn instant() -> impl Strategy<Value = Timestamp> {
    (946_684_800_000_i64..253_402_128_000_000).prop_map(Timestamp::from_millis)
}

fn state() -> impl Strategy<Value = State> {
    proptest::sample::select(State::ALL.to_vec())
}

fn reason() -> impl Strategy<Value = Reason> {
    proptest::sample::select(Reason::ALL.to_vec())
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let refused = proptest::sample::select(Rule::ALL.to_vec()).prop_map(Answer::Refused);
    let answer = prop_oneof![
        (100_u16..600).prop_map(Answer::Status),
        Just(Answer::Error),
        Just(Answer::Shadow),
        refused,
        Just(Answer::Unknown)
    ];
    (1_u32..99, instant(), 0_u64..99_999, answer, reason(), any::<u64>(), "[a-z0-9,]{1,20}|-").prop_map(
        |(number, started_at, took, answer, reason, destination_version, key_ids)| {
            let took = Duration::from_millis(took);
            Attempt { number, started_at, took, answer, reason, destination_version, key_ids }
        },
    )
}

fn entry() -> impl Strategy<Value = HistoryEntry> {
    (instant(), state(), of(1_u32..99), of(reason()), "[A-Za-z0-9_-]{1,12}").prop_map(|(at, state, attempt, reason, by)| {
        HistoryEntry { at, state, attempt, reason, by: Correlation::new(by).expect("a correlation id") }
    })
}

fn moved() -> impl Strategy<Value = Moved> {
    (instant(), instant(), instant())
        .prop_map(|(at, deliver_after, deliver_by)| Moved { at, from: Instants { deliver_after, deliver_by } })
}

prop_compose! {
    fn identity()(
        id in "[A-Za-z0-9_-]{1,64}",
        key in of("[A-Za-z0-9_-]{1,64}"),
        reference in "[!-~]{1,64}",
        destination in "[A-Za-z0-9_-]{1,32}",
        content in "[0-9a-f]{16}",
        owner in of("[A-Za-z0-9_-]{1,24}"),
        message in of("[!-~]{1,64}"),
        hold in of((instant(), ".{0,64}", ".{0,256}")),
    ) -> (DeliveryId, Option<IdempotencyKey>, Reference, DestinationId, Content, Option<Owner>, Option<MessageId>, Option<Hold>) {
        (
            DeliveryId::new(id).expect("an id"),
            key.map(|key| IdempotencyKey::new(key).expect("a key")),
            Reference::new(reference).expect("a reference"),
            DestinationId::new(destination).expect("a destination"),
            Content::new(content).expect("a content hash"),
            owner.map(|owner| Owner::new(owner).expect("an owner")),
            message.map(|message| MessageId::new(message).expect("a message id")),
            hold.map(|(since, by, why)| Hold { since, by, why }),
        )
    }
}

fn redrive() -> impl Strategy<Value = Redrive> {
    (of("run_[a-z0-9-]{1,20}"), any::<u32>(), any::<u32>(), of(instant()), ".{0,64}").prop_map(
        |(run, death, granted, deadline_was, owner)| {
            let run = run.map(|run| RunId::new(run).expect("a run id"));
            Redrive { run, death, granted, deadline_was, owner }
        },
    )
}

prop_compose! {
    fn delivery()(
        (id, key, reference, destination, content, lease_owner, message, hold) in identity(),
        (state, version, shard, reason) in (state(), any::<u64>(), any::<u16>(), of(reason())),
        (deliver_after, deliver_by, next_attempt_at) in (instant(), instant(), instant()),
        (wake_at, held_until, lease_until) in (of(instant()), of(instant()), of(instant())),
        (granted, rescues, death, dlq_sent) in (0_u32..3, 0_u32..3, 0_u32..3, any::<u32>()),
        (late_success, shadow, floor, rule) in (of(any::<u32>()), any::<bool>(), of(instant()), of(".{1,64}")),
        cancel in of((instant(), ".{0,64}", ".{0,256}")),
        attempts in proptest::collection::vec(attempt(), 0..4),
        history in proptest::collection::vec(entry(), 0..6),
        redrives in proptest::collection::vec(redrive(), 0..3),
        moves in proptest::collection::vec(moved(), 0..3),
    ) -> Delivery {
        Delivery {
            idempotency_key: key.unwrap_or_else(|| IdempotencyKey::from(&id)),
            id, reference, destination, shard, content, state, version, deliver_after, deliver_by, rule, next_attempt_at, floor, wake_at,
            held_until, lease_owner, lease_until, message, reason, shadow, attempts, granted, rescues, late_success, hold, death,
            dlq_sent, redrives, moves, history, cancel: cancel.map(|(since, by, why)| Cancel { since, by, why }),
        }
    }
}

/// A small row, for damage.
fn sample() -> Item {
    let at = Timestamp::from_millis(1_796_126_400_000);
    let id = DeliveryId::new("dlv_x").expect("an id");
    let by = punctual_core::id::Correlation::new("test").expect("a token");
    encode(&Delivery::new(
        NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new("c-1").expect("a reference"),
            destination: DestinationId::new("acme").expect("a destination"),
            shard: 1,
            content: Content::new("00ff").expect("a content hash"),
            deliver_after: at,
            deliver_by: at,
            id,
        },
        at,
        by,
    ))
}

fn problem(item: &Item) -> String {
    decode(item).expect_err("corrupt").to_string()
}

proptest! {
    #[test]
    fn rows_round_trip(row in delivery()) {
        let read = decode(&encode(&row)).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(read, Stored::Row(Box::new(row)));
    }

    #[test]
    fn a_row_is_in_the_sparse_indexes_only_where_it_belongs(row in delivery()) {
        let item = encode(&row);
        prop_assert_eq!(item.contains_key("lane"), row.wake_at.is_some());
        prop_assert_eq!(item.contains_key("wake_at"), row.wake_at.is_some());
        prop_assert_eq!(item.contains_key("attention"), row.state.needs_operator());
        prop_assert_eq!(item.contains_key("run_id"), row.redrives.iter().any(|redrive| redrive.run.is_some()));
        prop_assert_eq!(item.contains_key("attempts"), !row.attempts.is_empty());
    }
}

#[test]
fn a_row_is_readable_by_a_person() {
    let shown: BTreeMap<String, String> = sample().into_iter().map(|(name, value)| (name, format!("{value:?}"))).collect();
    let expected = [
        ("content", "S(\"00ff\")"),
        ("deliver_after", "S(\"2026-12-01T12:00:00.000Z\")"),
        ("deliver_by", "S(\"2026-12-01T12:00:00.000Z\")"),
        ("delivery_id", "S(\"dlv_x\")"),
        ("destination_id", "S(\"acme\")"),
        ("history", "L([S(\"2026-12-01T12:00:00.000Z scheduled test\")])"),
        ("item", "S(\"delivery\")"),
        ("lane", "S(\"acme#1\")"),
        ("next_attempt_at", "S(\"2026-12-01T12:00:00.000Z\")"),
        ("reference", "S(\"c-1\")"),
        ("shard", "N(\"1\")"),
        ("state", "S(\"scheduled\")"),
        ("version", "N(\"1\")"),
        ("wake_at", "S(\"2026-12-01T12:00:00.000Z\")"),
    ];
    let expected: BTreeMap<String, String> = expected.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    assert_eq!(shown, expected);
}

#[test]
fn damage_is_named_without_its_content() {
    let damaged: [(&str, Option<AttributeValue>, &str); 11] = [
        ("state", None, "attribute state is missing"),
        ("state", Some(text("flying")), "attribute state is not readable"),
        ("version", Some(text("1")), "attribute version is not readable"),
        ("version", Some(AttributeValue::N("-1".into())), "attribute version is not readable"),
        ("deliver_by", Some(text("tomorrow")), "attribute deliver_by is not readable"),
        ("attempts", Some(AttributeValue::L(vec![text("1 secret")])), "attribute attempts is not readable"),
        ("history", Some(text("secret")), "attribute history is not readable"),
        ("hold", Some(AttributeValue::M(Item::new())), "attribute since is missing"),
        ("cancelled", Some(text("secret")), "attribute cancelled is not readable"),
        ("lane", Some(text("acme#2")), "attribute lane contradicts wake_at, destination_id or shard"),
        ("run_id", Some(text("run_x")), "attribute run_id contradicts redrives"),
    ];
    for (attribute, value, expected) in damaged {
        let mut item = sample();
        item.remove(attribute);
        item.extend(value.map(|value| (attribute.to_owned(), value)));
        assert_eq!(problem(&item), format!("delivery dlv_x is corrupt: {expected}"));
    }
    assert_eq!(problem(&Item::new()), "delivery without an id is corrupt: attribute delivery_id is missing");
}

#[test]
fn what_a_newer_program_added_is_left_alone() {
    let mut item = sample();
    item.insert("tomorrow".into(), text("x"));
    assert!(decode(&item).is_ok());
}

#[test]
fn an_alias_is_no_row() {
    let mut alias = key("dlv_x", names::ITEM_DELIVERY);
    alias.insert(names::MIGRATED_TO.into(), text("old-1"));
    assert_eq!(decode(&alias).expect("an alias"), Stored::Alias(DeliveryId::new("old-1").expect("an id")));
}
