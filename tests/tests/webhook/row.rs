//! What a row says of a refusal: deliver itself on the memory adapters, with the real client.

use std::time::Duration;

use punctual_adapters::webhook::HttpWebhook;
use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::explain::{Whither, explain, text};
use punctual_core::ports::Control as _;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::environment::{Environment, MARGIN};
use serde_json::json;

use super::names::{CLOSING, named, scripted};
use super::server::Raw;
use super::tls::{Authority, serving};
use super::{config, local};

fn noon() -> Timestamp {
    Timestamp::from_millis(1_796_126_400_000)
}

/// A delivery to this URL after one attempt by this client, and what a person is told of it.
async fn attempted(webhook: &HttpWebhook, url: &str) -> (Delivery, String) {
    let environment = Environment::new(noon());
    environment.register("receiver", url, json!({})).await.expect("registered");
    let id = environment.queued(1, "receiver", noon(), noon().plus(Duration::from_secs(3_600))).await.expect("a row");
    let tally = environment.deliver(webhook, std::slice::from_ref(&id), noon(), 1).await.expect("an invocation");
    assert_eq!((tally.called, tally.failed), (1, 0), "{tally:?}");
    let row = environment.row(&id).await.expect("the row");
    let (destinations, _) = environment.control.lookup(std::slice::from_ref(&row.destination)).await.expect("a lookup");
    let told = text(&explain(
        &row,
        None,
        Whither { destination: destinations.first(), ..Whither::default() },
        MARGIN,
        Now::exactly(noon()),
    ));
    (row, told)
}

/// The row waits for its next try, its attempt names the rule, and so does what a person is told.
fn says((row, told): &(Delivery, String), rule: &str, reason: Reason) {
    assert_eq!((row.state, row.reason), (State::Deferred, Some(reason)), "{rule}");
    let attempts: Vec<String> = row.attempts.iter().map(ToString::to_string).collect();
    assert_eq!(attempts, [format!("1 2026-12-01T12:00:00.000Z 0ms refused:{rule} {reason} v1 key")]);
    for part in [format!("refused:{rule} {reason}"), format!("Last reason {reason}: "), format!("Refused by rule {rule}: ")] {
        assert!(told.contains(&part), "{part} is not in {told}");
    }
}

#[tokio::test]
async fn an_address_is_refused_by_name_on_the_row() {
    let server = Raw::answering(CLOSING).await;
    for (address, rule) in [
        ("10.0.0.1", "private"),
        ("169.254.169.254", "link-local-or-metadata"),
        // Names with nothing but an AAAA record.
        ("fd12:3456::1", "private"),
        ("::1", "loopback"),
        ("::ffff:10.0.0.1", "ipv4-mapped"),
        ("64:ff9b::a00:1", "nat64"),
    ] {
        let webhook = HttpWebhook::with_lookup(config(false), scripted(&[&[address]]).0).expect("a client");
        says(&attempted(&webhook, &named(&server, "https")).await, rule, Reason::AddressRefused);
    }
    says(&attempted(&local(), "https://[fd00:ec2::254]/").await, "private", Reason::AddressRefused);
    assert_eq!(server.connections(), 0);
}

/// Good at first, then bad: the second delivery's row says so, and nothing was sent.
#[tokio::test]
async fn a_name_that_turns_private_is_refused_by_name_on_the_row() {
    let server = Raw::answering(CLOSING).await;
    let (lookup, _) = scripted(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let webhook = HttpWebhook::with_lookup(config(true), lookup).expect("a client");
    let url = named(&server, "http");
    assert_eq!(attempted(&webhook, &url).await.0.state, State::Delivered);
    says(&attempted(&webhook, &url).await, "link-local-or-metadata", Reason::AddressRefused);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_certificate_is_refused_by_name_on_the_row() {
    let authority = Authority::new();
    let url = |server: &Raw| format!("https://localhost:{}/hook", server.address.port());
    let other = serving(&authority.leaf("other.example")).await;
    says(&attempted(&authority.trusting(), &url(&other)).await, "certificate-name", Reason::CertificateRefused);
    let unknown = serving(&Authority::new().leaf("localhost")).await;
    says(&attempted(&local(), &url(&unknown)).await, "certificate-issuer", Reason::CertificateRefused);
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_dead_and_says_why() {
    let server = Raw::answering("HTTP/1.1 307 Go\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n").await;
    let (row, told) = attempted(&local(), &server.url()).await;
    assert_eq!((row.state, row.reason), (State::Dead, Some(Reason::RedirectRefused)));
    let attempts: Vec<String> = row.attempts.iter().map(ToString::to_string).collect();
    assert_eq!(attempts, ["1 2026-12-01T12:00:00.000Z 0ms 307 redirect_refused v1 key"]);
    assert!(told.contains("The receiver answered with a redirect; redirects are never followed."), "{told}");
    assert_eq!(server.connections(), 1);
}
