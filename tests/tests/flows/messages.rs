//! Messages that are none of ours, in one batch with good ones: each lies in the dead letters with its reason, and its
//! neighbours are delivered.

use std::collections::BTreeMap;

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use punctual_adapters::clock::machine_time;
use punctual_core::acquire::Claimer;
use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::destination::Mode;
use punctual_core::id::{Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Owner};
use punctual_core::message::Message;
use punctual_core::ports::{Created, Ledger as _};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::transition::{Stamp, dispatch_claimed};
use serde_json::{Value, json};

use crate::world::{BOUND, World, due_now, until};

/// Takes the messages of queued deliveries out of the queue, to send them again in company.
async fn take(world: &World, count: usize) -> Vec<String> {
    let (sqs, url) = (world.stack.sqs().await, world.stack.queue_url().unwrap());
    let mut bodies = Vec::new();
    until("the queued messages", BOUND, async || {
        let taken = sqs.receive_message().queue_url(&url).max_number_of_messages(10).send().await.unwrap();
        for message in taken.messages.unwrap_or_default() {
            sqs.delete_message().queue_url(&url).receipt_handle(message.receipt_handle.unwrap()).send().await.unwrap();
            bodies.push(message.body.unwrap());
        }
        if bodies.len() == count { Ok(()) } else { Err(format!("{} of {count}", bodies.len())) }
    })
    .await;
    bodies
}

async fn send(world: &World, bodies: &[String]) {
    let entry = |(i, body): (usize, &String)| {
        SendMessageBatchRequestEntry::builder().id(i.to_string()).message_body(body).build().unwrap()
    };
    let entries = bodies.iter().enumerate().map(entry).collect();
    let request = world.stack.sqs().await.send_message_batch().queue_url(world.stack.queue_url().unwrap());
    let sent = request.set_entries(Some(entries)).send().await.unwrap();
    assert_eq!(sent.successful().len(), bodies.len());
}

/// A stored row whose destination nobody ever registered.
async fn orphan(world: &World, like: &Delivery) -> Delivery {
    let part = || "orphan".to_owned();
    let parts = IdentityParts { tenant: part(), subscriber: part(), renewal_period: part(), reminder_kind: part() };
    let id = DeliveryId::derive(&parts);
    let row = Delivery {
        idempotency_key: IdempotencyKey::from(&id),
        id,
        destination: DestinationId::new("nowhere").unwrap(),
        state: State::Scheduled,
        version: 1,
        message: None,
        held_until: None,
        history: like.history[..1].to_vec(),
        ..like.clone()
    };
    let mut payload = world.ledger.payload(&like.id, &like.content).await.unwrap().unwrap();
    payload.parts = parts;
    assert_eq!(world.ledger.create(&row, &payload).await.unwrap(), Created::New);
    // As it would be had it been published before its destination was removed.
    let by = Correlation::new("a-test").unwrap();
    let stamp = Stamp { now: Now::exactly(machine_time()), by: by.clone() };
    let claimer = Claimer { owner: Owner::new("a-test").unwrap(), by, until: row.deliver_by };
    let claimed = dispatch_claimed(&row, claimer, Mode::Live, &stamp).unwrap();
    world.ledger.write(&claimed).await.unwrap();
    claimed.after
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_none_lie_in_the_dead_letters_and_their_neighbours_are_delivered() {
    let world = World::start().await;
    world.destination("good", "healthy", json!({})).await;
    world.stack.set_delivering(false).await.unwrap();
    let ids = world.schedule(&due_now("good", 3)).await;
    let good = take(&world, ids.len()).await;
    let orphan = orphan(&world, &world.row(&ids[0]).await).await;

    let message: Value = serde_json::from_str(&good[0]).unwrap();
    let but = |change: Value| {
        let mut changed = message.clone();
        changed.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        changed.to_string()
    };
    let bad = [
        ("{\"version\": 1, \"delivery_id\": ".to_owned(), Reason::MalformedMessage),
        (" ".to_owned(), Reason::MalformedMessage),
        ("{}".to_owned(), Reason::MalformedMessage),
        (but(json!({"version": 2})), Reason::UnknownVersion),
        (but(json!({"attempt": "one"})), Reason::MalformedMessage),
        (but(json!({"delivery_id": "dlv_00000000000000000000000000"})), Reason::UnknownDelivery),
        (Message::of(&orphan).body(), Reason::UnknownDestination),
    ];
    // Ten messages, one batch. The last good one even names a destination that is none: the row knows better.
    let mut bodies: Vec<String> = bad.iter().map(|(body, _)| body.clone()).collect();
    bodies.extend(good[..2].iter().cloned());
    let mut misled: Value = serde_json::from_str(&good[2]).unwrap();
    misled["destination_id"] = json!("nowhere");
    bodies.push(misled.to_string());
    send(&world, &bodies).await;
    world.stack.set_delivering(true).await.unwrap();

    for row in world.settled(&ids).await {
        assert_eq!((row.state, row.attempts.len()), (State::Delivered, 1), "{row:?}");
    }
    let row = world.settled(std::slice::from_ref(&orphan.id)).await.remove(0);
    assert_eq!((row.state, row.reason, row.death), (State::Dead, Some(Reason::UnknownDestination), 1), "{row:?}");
    assert_eq!(row.attempts, [], "nobody was called for it");
    until("an empty queue", BOUND, async || match world.queued_messages().await {
        0 => Ok(()),
        left => Err(format!("{left} messages left")),
    })
    .await;

    // By what the body was: every message has its one dead letter, with its own text and its reason.
    let letters = world.dead_letters().await;
    let mut told: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for letter in letters.iter().filter(|letter| letter.get("delivery_id").is_empty()) {
        *told.entry((letter.body.as_str(), letter.get("reason"))).or_default() += 1;
    }
    let mut wanted = BTreeMap::new();
    for (body, reason) in bad.iter().filter(|(_, reason)| *reason != Reason::UnknownDestination) {
        *wanted.entry((body.as_str(), reason.code())).or_default() += 1;
    }
    assert_eq!(told, wanted);
    let buried: Vec<_> = letters.iter().filter(|letter| !letter.get("delivery_id").is_empty()).collect();
    assert_eq!(buried.len(), 1, "{letters:?}");
    assert_eq!((buried[0].get("delivery_id"), buried[0].get("reason")), (orphan.id.as_str(), "unknown_destination"));
    assert_eq!(world.receiver.call_count(), 3);
    world.stop().await;
}
