//! Names that lie, literals in disguise, proxies that nobody asked for.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual_adapters::webhook::{HttpWebhook, Lookup};
use punctual_core::outcome::Failure;

use super::server::Raw;
use super::{SLACK, answered, bounded, call, config, local, refused, request};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
pub(crate) const CLOSING: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A lookup that answers its n-th question with the n-th list, and counts.
pub(crate) fn scripted(answers: &[&[&str]]) -> (Lookup, Arc<AtomicUsize>) {
    let parse = |list: &&[&str]| list.iter().map(|text| text.parse().expect("an address")).collect();
    let answers: Vec<Vec<IpAddr>> = answers.iter().map(parse).collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |name| {
        assert_eq!(name, "receiver.test");
        let answer = answers.get(count.fetch_add(1, Ordering::SeqCst)).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no further answer")) })
    });
    (lookup, asked)
}

pub(crate) fn named(server: &Raw, scheme: &str) -> String {
    format!("{scheme}://receiver.test:{}/hook", server.address.port())
}

#[tokio::test]
async fn a_name_that_resolves_to_refused_addresses_only_is_refused() {
    let server = Raw::answering(OK).await;
    for (addresses, rule) in [
        (&["127.0.0.1"][..], "loopback"),
        (&["10.0.0.1", "127.0.0.1"][..], "private"),
        (&["169.254.169.254"][..], "link-local-or-metadata"),
        (&["::ffff:127.0.0.1"][..], "ipv4-mapped"),
        (&["::127.0.0.1"][..], "unspecified-or-ipv4-compatible"),
        (&["64:ff9b::7f00:1"][..], "nat64"),
        (&["fd00:ec2::254"][..], "private"),
        // Names with nothing but an AAAA record.
        (&["::1"][..], "loopback"),
        (&["fc00::1"][..], "private"),
        (&["fd12:3456::1", "fe80::1"][..], "private"),
        (&["fe80::1"][..], "link-local-or-metadata"),
        (&["::ffff:10.0.0.1"][..], "ipv4-mapped"),
        (&["::ffff:169.254.169.254"][..], "ipv4-mapped"),
        (&["64:ff9b::a9fe:a9fe"][..], "nat64"),
        (&["64:ff9b:1::a00:1"][..], "nat64"),
        (&["2002:a00:1::1"][..], "6to4"),
        (&["2001::a00:1"][..], "protocol-assignments-or-teredo"),
        (&["2001:db8::1"][..], "documentation"),
        (&["ff02::1"][..], "multicast"),
    ] {
        let webhook = HttpWebhook::with_lookup(config(false), scripted(&[addresses]).0).expect("a client");
        let result = call(&webhook, &named(&server, "https")).await;
        assert_eq!(result, refused(rule), "{addresses:?}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_local_stage_reaches_itself_but_no_metadata() {
    let server = Raw::answering(OK).await;
    for (addresses, rule) in [
        (&["169.254.169.254"][..], "link-local-or-metadata"),
        (&["fd00:ec2::254"][..], "private"),
        (&["::ffff:127.0.0.1"][..], "ipv4-mapped"),
    ] {
        let webhook = HttpWebhook::with_lookup(config(true), scripted(&[addresses]).0).expect("a client");
        assert_eq!(call(&webhook, &named(&server, "http")).await, refused(rule), "{addresses:?}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn refused_addresses_are_left_out_and_the_rest_is_used() {
    let server = Raw::answering(OK).await;
    let (lookup, _) = scripted(&[&["169.254.169.254", "fd00:ec2::254", "127.0.0.1"]]);
    let webhook = HttpWebhook::with_lookup(config(true), lookup).expect("a client");
    assert_eq!(call(&webhook, &named(&server, "http")).await, answered(200));
    assert_eq!(server.connections(), 1);
}

/// The name is good when it is first used and turns bad later: each connection is judged by its own lookup.
#[tokio::test]
async fn a_name_that_changes_its_address_gains_nothing() {
    let server = Raw::answering(CLOSING).await;
    let (lookup, asked) = scripted(&[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1"]]);
    let webhook = HttpWebhook::with_lookup(config(true), lookup).expect("a client");
    assert_eq!(call(&webhook, &named(&server, "http")).await, answered(200));
    assert_eq!(call(&webhook, &named(&server, "http")).await, refused("link-local-or-metadata"));
    assert_eq!(call(&webhook, &named(&server, "http")).await, answered(200));
    assert_eq!((asked.load(Ordering::SeqCst), server.connections()), (3, 2));
}

/// One connection, one lookup: there is no second answer that could be another one.
#[tokio::test]
async fn the_address_that_was_judged_is_the_one_that_is_called() {
    let server = Raw::answering(OK).await;
    let (lookup, asked) = scripted(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let webhook = HttpWebhook::with_lookup(config(true), lookup).expect("a client");
    assert_eq!(call(&webhook, &named(&server, "http")).await, answered(200));
    // The connection is kept: the name is not asked again, and its new answer means nothing.
    assert_eq!(call(&webhook, &named(&server, "http")).await, answered(200));
    assert_eq!((asked.load(Ordering::SeqCst), server.connections()), (1, 1));
}

#[tokio::test]
async fn a_name_without_an_address_is_a_dns_failure() {
    let server = Raw::answering(OK).await;
    for answers in [&[&[][..]][..], &[]] {
        let webhook = HttpWebhook::with_lookup(config(true), scripted(answers).0).expect("a client");
        assert_eq!(call(&webhook, &named(&server, "http")).await, Failure::Dns.into());
    }
}

#[tokio::test]
async fn a_lookup_that_never_ends_is_bounded_by_the_connect_timeout() {
    let lookup: Lookup = Arc::new(|_| Box::pin(std::future::pending()));
    let webhook = HttpWebhook::with_lookup(config(true), lookup).expect("a client");
    let request = request("http://receiver.test/", 200, 60_000);
    let ended = tokio::time::timeout(SLACK, bounded(&webhook, &request, &|| true)).await;
    assert_eq!(ended, Ok(Failure::Connect.into()), "not the total timeout's business");
}

#[tokio::test]
async fn the_systems_lookup_is_guarded_too() {
    let server = Raw::answering(OK).await;
    let webhook = HttpWebhook::new(config(false)).expect("a client");
    let result = call(&webhook, &format!("https://localhost:{}/", server.address.port())).await;
    assert_eq!(result, refused("loopback"));
    assert_eq!(server.connections(), 0);
    assert_eq!(call(&local(), &format!("http://localhost:{}/", server.address.port())).await, answered(200));
}

#[tokio::test]
async fn literals_do_not_get_around_the_resolver() {
    let server = Raw::answering(OK).await;
    let port = server.address.port();
    let webhook = HttpWebhook::new(config(false)).expect("a client");
    for (host, rule) in [
        ("127.0.0.1", "loopback"),
        ("127.1", "loopback"),
        ("0x7f000001", "loopback"),
        ("017700000001", "loopback"),
        ("127.0.0.1.", "loopback"),
        ("%31%32%37.0.0.1", "loopback"),
        ("127.0.0.1", "loopback"),
        ("[::1]", "loopback"),
        ("[::ffff:127.0.0.1]", "ipv4-mapped"),
        ("[::ffff:7f00:1]", "ipv4-mapped"),
        ("[::127.0.0.1]", "unspecified-or-ipv4-compatible"),
        ("[2002:7f00:1::]", "6to4"),
        ("[64:ff9b::127.0.0.1]", "nat64"),
        ("[fe80::1]", "link-local-or-metadata"),
        ("0", "this-network"),
    ] {
        let result = call(&webhook, &format!("https://{host}:{port}/")).await;
        assert_eq!(result, refused(rule), "{host}");
    }
    let plain = call(&webhook, &server.url()).await;
    assert_eq!(plain, refused("not-https"));
    assert_eq!(server.connections(), 0);
}

/// Runs itself in a process with proxies in its environment.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the environment is what this test is about")]
async fn proxies_in_the_environment_are_ignored() {
    const TARGET: &str = "PUNCTUAL_TEST_TARGET";
    if let Ok(target) = std::env::var(TARGET) {
        assert_eq!(call(&local(), &target).await, answered(200));
        return;
    }
    let (proxy, server) = (Raw::answering(OK).await, Raw::answering(OK).await);
    let mut child = tokio::process::Command::new(std::env::current_exe().expect("this binary"));
    child.args(["--exact", "names::proxies_in_the_environment_are_ignored"]).env(TARGET, server.url());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, format!("http://{}", proxy.address));
    }
    child.env_remove("NO_PROXY").env_remove("no_proxy").env_remove("REQUEST_METHOD").stdout(Stdio::null());
    let status = child.status().await.expect("a child");
    assert!(status.success());
    assert_eq!((proxy.connections(), server.connections()), (0, 1));
    assert!(server.address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST));
}
