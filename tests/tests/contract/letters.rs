//! The dead-letter queue, read: in memory, on ministack, and the answers that no emulator gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use aws_credential_types::Credentials;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Region};
use punctual_adapters::memory::MemoryDeadLetters;
use punctual_adapters::sqs::{SqsDeadLetters, SqsLetters};
use punctual_core::dead_letter::{DeadLetter, Told, told};
use punctual_core::ports::{DeadLetters, Letter, Letters, PortError};
use punctual_core::reason::Reason;
use punctual_tests::stack::REGION;
use serde_json::{Value, json};

use crate::rows::{at, full};
use crate::servers;
use crate::wire::scripted_http;

/// Asked so often at most for what must turn up; each time waits up to a second at a queue.
const ASKS: u32 = 30;

/// A dead-letter queue under test.
trait Mailbox {
    fn send(&self) -> &impl DeadLetters;
    fn letters(&self) -> &impl Letters;
    /// Puts a message as the queue itself does: with its body alone.
    async fn put_bare(&self, body: &str);
    /// Lets a second pass, where somebody has to.
    fn second_passes(&self);
}

struct Memory(MemoryDeadLetters, AtomicU32);

impl Mailbox for Memory {
    fn send(&self) -> &impl DeadLetters {
        &self.0
    }

    fn letters(&self) -> &impl Letters {
        &self.0
    }

    async fn put_bare(&self, body: &str) {
        self.0.put_bare(body).expect("put");
    }

    fn second_passes(&self) {
        let seconds = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.set_now(at(seconds.into()));
    }
}

struct Sqs {
    client: Client,
    url: String,
    send: SqsDeadLetters,
    letters: SqsLetters,
}

impl Mailbox for Sqs {
    fn send(&self) -> &impl DeadLetters {
        &self.send
    }

    fn letters(&self) -> &impl Letters {
        &self.letters
    }

    async fn put_bare(&self, body: &str) {
        self.client.send_message().queue_url(&self.url).message_body(body).send().await.expect("put");
    }

    /// It passes by itself.
    fn second_passes(&self) {}
}

fn memory() -> Memory {
    Memory(MemoryDeadLetters::new(at(0)), AtomicU32::new(0))
}

fn client(endpoint: &str) -> Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new("test", "test", None, None, "contract suite"))
        .endpoint_url(endpoint);
    Client::from_conf(config.build())
}

async fn ministack() -> Sqs {
    static QUEUES: AtomicU32 = AtomicU32::new(0);
    let client = client(&servers::ministack_endpoint());
    let name = format!("letters-{}", QUEUES.fetch_add(1, Ordering::Relaxed));
    let url = client.create_queue().queue_name(name).send().await.expect("a queue").queue_url.expect("a URL");
    let (send, letters) = (SqsDeadLetters::new(client.clone(), &url), SqsLetters::new(client.clone(), &url));
    Sqs { client, url, send, letters }
}

/// Receives until there are so many, in tens.
async fn receive(mailbox: &impl Mailbox, wanted: usize, hide_seconds: u32) -> Vec<Letter> {
    let mut letters = Vec::new();
    for _ in 0..ASKS {
        letters.extend(mailbox.letters().receive(10, hide_seconds).await.expect("received"));
        if letters.len() >= wanted {
            break;
        }
        mailbox.second_passes();
    }
    assert_eq!(letters.len(), wanted);
    letters
}

fn receipts(letters: &[Letter]) -> Vec<String> {
    letters.iter().map(|letter| letter.receipt.clone()).collect()
}

fn ids(letters: &[Letter]) -> BTreeSet<String> {
    letters.iter().map(|letter| letter.attributes.get("delivery_id").cloned().unwrap_or_default()).collect()
}

fn all_done(results: &[Result<(), PortError>]) -> usize {
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    results.len()
}

async fn comes_as_it_was_sent_and_stays_so_when_released(mailbox: &impl Mailbox) {
    let sent = DeadLetter::of(&full(1));
    assert_eq!(sent.attributes.len(), 9);
    mailbox.send().send(&sent).await.expect("sent");
    let attributes: BTreeMap<String, String> =
        sent.attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    for receives in 1..4 {
        let letters = receive(mailbox, 1, 60).await;
        let Letter { body, attributes: found, receives: counted, .. } = &letters[0];
        assert_eq!((body, found, *counted), (&sent.body, &attributes, receives));
        let expected = Told { delivery_id: full(1).id, death: Some(2), reason: Some(Reason::AttemptsExhausted) };
        assert_eq!(told(&letters[0]), Some(expected));
        assert_eq!(mailbox.letters().receive(10, 60).await.expect("received"), [], "it is hidden");
        assert_eq!(all_done(&mailbox.letters().release(&receipts(&letters)).await), 1);
    }
}

async fn is_gone_when_deleted_and_the_others_stay(mailbox: &impl Mailbox) {
    for n in 0..25 {
        mailbox.send().send(&DeadLetter::of(&full(n))).await.expect("sent");
    }
    let letters = receive(mailbox, 25, 60).await;
    assert_eq!(ids(&letters).len(), 25);
    // More than one call can hold, and none at all.
    assert_eq!(all_done(&mailbox.letters().delete(&receipts(&letters[..12])).await), 12);
    assert_eq!(all_done(&mailbox.letters().release(&receipts(&letters[12..])).await), 13);
    assert_eq!(all_done(&mailbox.letters().delete(&[]).await) + all_done(&mailbox.letters().release(&[]).await), 0);
    assert_eq!(ids(&receive(mailbox, 13, 60).await), ids(&letters[12..]));
}

async fn shows_itself_when_its_time_is_up(mailbox: &impl Mailbox) {
    mailbox.put_bare("{}").await;
    let first = receive(mailbox, 1, 1).await;
    let again = receive(mailbox, 1, 60).await;
    assert_eq!((&again[0].id, again[0].receives), (&first[0].id, 2));
    assert_eq!((&again[0].attributes, told(&again[0])), (&BTreeMap::new(), None));
    // What is received anew, only the newest receipt surely deletes.
    assert_eq!(all_done(&mailbox.letters().delete(&receipts(&again)).await), 1);
    assert_eq!(mailbox.letters().receive(10, 60).await.expect("received"), []);
}

macro_rules! everywhere {
    ($($case:ident),+) => {
        mod letters_in_memory {
            $(#[tokio::test] async fn $case() { super::$case(&super::memory()).await; })+
        }
        mod letters_on_ministack {
            $(#[tokio::test] async fn $case() { super::$case(&super::ministack().await).await; })+
        }
    };
}

everywhere!(
    comes_as_it_was_sent_and_stays_so_when_released,
    is_gone_when_deleted_and_the_others_stay,
    shows_itself_when_its_time_is_up
);

async fn answering(answer: Value) -> SqsLetters {
    let (endpoint, _) = scripted_http(vec![(200, answer)]).await;
    SqsLetters::new(client(&endpoint), format!("{endpoint}/000000000000/letters"))
}

/// HTTP 200 can carry failed entries, and entries that it does not name at all.
#[tokio::test]
async fn each_entry_of_a_batch_has_its_own_result() {
    let failed = |id: &str, fault: bool| json!({"Id": id, "Code": "Broken", "Message": "said", "SenderFault": fault});
    let answer = json!({"Successful": [{"Id": "2"}, {"Id": "0"}], "Failed": [failed("3", false), failed("1", true)]});
    let five: Vec<String> = (0..5).map(|n| format!("receipt-{n}")).collect();
    let letters = answering(answer).await;
    for results in [letters.delete(&five).await, letters.release(&five).await] {
        let kinds: Vec<&str> = results
            .iter()
            .map(|result| match result {
                Ok(()) => "done",
                Err(PortError::Refused { .. }) => "refused",
                Err(PortError::Unavailable { .. }) => "unavailable",
                Err(PortError::Corrupt { .. }) => "corrupt",
            })
            .collect();
        assert_eq!(kinds, ["done", "refused", "done", "unavailable", "unavailable"]);
    }
}

/// What cannot be handled at all is left to its visibility; what lacks only a count or a time is a letter.
#[tokio::test]
async fn a_message_without_a_receipt_does_not_take_the_others_along() {
    let good = json!({"MessageId": "m1", "ReceiptHandle": "r1", "Body": "{}", "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b"});
    let bad = json!({"MessageId": "m2", "Body": "{}", "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b"});
    let letters = answering(json!({"Messages": [bad, good]})).await.receive(10, 60).await.expect("received");
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].receipt.as_str(), letters[0].receives), ("r1", 1));
}

#[tokio::test]
async fn a_call_that_fails_fails_each_entry() {
    let error = json!({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "said"});
    let (endpoint, _) = scripted_http(vec![(400, error)]).await;
    let letters = SqsLetters::new(client(&endpoint), format!("{endpoint}/000000000000/letters"));
    assert!(letters.receive(10, 60).await.is_err());
    let two = ["a".to_owned(), "b".to_owned()];
    assert!(letters.delete(&two).await.iter().chain(&letters.release(&two).await).all(Result::is_err));
}
