//! Calls that must not start: when the answer is no, the receiver sees nothing of the request.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use punctual_core::outcome::CallResult;
use tokio::io::AsyncWriteExt;

use super::server::{Raw, read_request, read_to_end};
use super::tls::{Authority, acceptor};
use super::{answered, bounded, call, local, request};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_call_that_may_not_start_makes_no_connection() {
    let server = Raw::answering(OK).await;
    let result = bounded(&local(), &request(server.url(), 1_000, 2_000), &|| false).await;
    assert_eq!(result, CallResult::not_called());
    // The next call's connection is the first one.
    assert_eq!(call(&local(), &server.url()).await, answered(200));
    assert_eq!(server.connections(), 1);
}

/// Takes each step of a future twice in a row.
async fn twice<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Pending => future.as_mut().poll(cx),
        ready => ready,
    })
    .await
}

/// Permission is withdrawn after it was asked for 0, 1, 2, … times: either the receiver got the whole request, or
/// nothing at all. Each step is taken twice in a row, so that one of them falls between the moment when the request
/// is handed to its connection and the moment when the connection writes it.
#[tokio::test]
async fn at_whatever_step_permission_ends_it_is_all_or_nothing() {
    let mut results = Vec::new();
    for granted in 0..24 {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let server = Raw::start(move |mut stream, _| {
            let count = Arc::clone(&count);
            async move {
                if read_request(&mut stream).await.is_some() {
                    count.fetch_add(1, Ordering::SeqCst);
                    stream.write_all(OK.as_bytes()).await.expect("written");
                }
                count.fetch_add(1_000 * read_to_end(&mut stream).await, Ordering::SeqCst);
            }
        })
        .await;
        let webhook = local();
        let asked = AtomicUsize::new(0);
        let may_start = || asked.fetch_add(1, Ordering::SeqCst) < granted;
        let request = request(server.url(), 5_000, 10_000);
        let result = twice(bounded(&webhook, &request, &may_start)).await;
        // A stopped request is given up by its connection before the client itself goes away.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        // Without its client no connection stays open, so the scripts end and all that was sent has been counted.
        drop(webhook);
        server.scripts_ended().await;
        let expected = if result == CallResult::not_called() { 0 } else { 1 };
        assert_eq!(seen.load(Ordering::SeqCst), expected, "granted {granted} times: {result:?}");
        results.push(result);
    }
    assert_eq!(results.first(), Some(&CallResult::not_called()));
    assert_eq!(results.get(1), Some(&CallResult::not_called()), "asked only once, before the connection");
    assert_eq!(results.last(), Some(&answered(200)));
}

#[tokio::test]
async fn permission_that_ends_during_a_slow_handshake_stops_the_request() {
    let authority = Authority::new();
    let allowed = Arc::new(AtomicBool::new(true));
    let seen = Arc::new(AtomicUsize::new(0));
    let (accept, withdraw, count) = (acceptor(&authority.leaf("localhost")), Arc::clone(&allowed), Arc::clone(&seen));
    let server = Raw::start(move |stream, _| {
        let (accept, withdraw, count) = (accept.clone(), Arc::clone(&withdraw), Arc::clone(&count));
        async move {
            // The connection is there, the handshake is not: now the lease runs out.
            withdraw.store(false, Ordering::SeqCst);
            if let Ok(mut stream) = accept.accept(stream).await {
                count.fetch_add(read_to_end(&mut stream).await, Ordering::SeqCst);
            }
        }
    })
    .await;
    let asked = AtomicUsize::new(0);
    let may_start = || {
        asked.fetch_add(1, Ordering::SeqCst);
        allowed.load(Ordering::SeqCst)
    };
    let url = format!("https://localhost:{}/", server.address.port());
    let webhook = authority.trusting();
    let result = bounded(&webhook, &request(url, 5_000, 10_000), &may_start).await;
    drop(webhook);
    server.scripts_ended().await;
    assert_eq!(result, CallResult::not_called());
    assert!(asked.load(Ordering::SeqCst) >= 2, "asked before and during the connection");
    assert_eq!((server.connections(), seen.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn permission_is_asked_again_for_a_kept_connection() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let server = Raw::start(move |mut stream, _| {
        let count = Arc::clone(&count);
        async move {
            while read_request(&mut stream).await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                stream.write_all(OK.as_bytes()).await.expect("written");
            }
        }
    })
    .await;
    let webhook = local();
    assert_eq!(call(&webhook, &server.url()).await, answered(200));
    let result = bounded(&webhook, &request(server.url(), 5_000, 10_000), &|| false).await;
    assert_eq!(result, CallResult::not_called());
    drop(webhook);
    server.scripts_ended().await;
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_cannot_be_held_back_or_expressed_is_not_called() {
    let server = Raw::answering(OK).await;
    let mut empty = request(server.url(), 1_000, 2_000);
    empty.body.clear();
    assert_eq!(bounded(&local(), &empty, &|| true).await, CallResult::not_called());
    let mut split = request(server.url(), 1_000, 2_000);
    split.headers.push(("x-split", "a\r\nx-injected: b".into()));
    assert_eq!(bounded(&local(), &split, &|| true).await, CallResult::not_called());
    assert_eq!(server.connections(), 0);
}
