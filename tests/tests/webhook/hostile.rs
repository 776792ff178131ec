//! Receivers that misbehave: a call costs its timeout and its bound, never more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual_core::clock::Now;
use punctual_core::outcome::{CallResult, Class, Failure, classify};
use punctual_core::reason::Reason;
use punctual_core::time::Timestamp;
use punctual_tests::hostile::{bombs, packed};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::server::{Raw, read_request, reset};
use super::{answered, bounded, call, call_briefly, local, request};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let elsewhere = Raw::answering(OK).await;
    let head = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url());
    let server = Raw::answering(head).await;
    assert_eq!(call(&local(), &server.url()).await, answered(302));
    assert_eq!((server.connections(), elsewhere.connections()), (1, 0));
}

/// Where it leads does not matter: its status alone is dead, and says so.
#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused_by_name() {
    let none = BTreeMap::new();
    for status in [301, 302, 303, 307, 308] {
        let head = format!("HTTP/1.1 {status} Go\r\nlocation: http://10.0.0.1/\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n");
        let server = Raw::answering(head).await;
        let result = call(&local(), &server.url()).await;
        assert_eq!(result, CallResult::Answered { status, retry_after: Some("1".into()) });
        let class = classify(&result, &none, Now::exactly(Timestamp::from_millis(0)));
        assert_eq!(class, Class::Dead { reason: Reason::RedirectRefused, pause: false }, "{status}");
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn a_head_that_drips_is_a_timeout() {
    let server = Raw::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nx-drip: ").await.expect("written");
        while stream.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(call_briefly(&local(), &server.url()).await, Failure::Timeout.into());
    server.scripts_ended().await;
}

#[tokio::test]
async fn a_body_that_drips_does_not_undo_its_status() {
    let server = Raw::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("written");
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await.expect("written");
        while stream.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let webhook = local();
    assert_eq!(call(&webhook, &server.url()).await, answered(204));
    assert_eq!(call_briefly(&webhook, &server.url()).await, answered(200));
    server.scripts_ended().await;
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_a_timeout() {
    let server = Raw::start(|mut stream, _| async move { while read_request(&mut stream).await.is_some() {} }).await;
    assert_eq!(call_briefly(&local(), &server.url()).await, Failure::Timeout.into());
    server.scripts_ended().await;
}

#[tokio::test]
async fn a_receiver_that_never_reads_is_a_timeout() {
    let (release, held) = tokio::sync::watch::channel(());
    let server = Raw::start(move |stream, _| {
        let mut held = held.clone();
        async move {
            let _held = held.changed().await;
            drop(stream);
        }
    })
    .await;
    let mut large = request(server.url(), 500, 600);
    large.body = vec![b'x'; 32 * 1024 * 1024];
    assert_eq!(bounded(&local(), &large, &|| true).await, Failure::Timeout.into());
    drop(release);
}

#[tokio::test]
async fn endless_headers_are_cut_off() {
    let server = Raw::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await.expect("written");
        while stream.write_all(b"x-more: and more and more and more\r\n").await.is_ok() {}
    })
    .await;
    assert_eq!(call(&local(), &server.url()).await, Failure::Cut.into());
    server.scripts_ended().await;
}

#[tokio::test]
async fn one_endless_header_is_cut_off() {
    let server = Raw::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nx-long: ").await.expect("written");
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await;
    assert_eq!(call(&local(), &server.url()).await, Failure::Cut.into());
    server.scripts_ended().await;
}

#[tokio::test]
async fn interim_answers_without_end_are_a_timeout() {
    let server = Raw::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        while stream.write_all("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(64).as_bytes()).await.is_ok() {}
    })
    .await;
    assert_eq!(call_briefly(&local(), &server.url()).await, Failure::Timeout.into());
    server.scripts_ended().await;
}

#[tokio::test]
async fn interim_answers_before_the_answer_are_passed_over() {
    let bytes = format!("{}{OK}", "HTTP/1.1 100 Continue\r\n\r\n".repeat(500));
    let server = Raw::answering(bytes).await;
    assert_eq!(call(&local(), &server.url()).await, answered(200));
}

#[tokio::test]
async fn a_large_body_is_not_read_and_costs_its_connection() {
    const SIZE: usize = 40 * 1024 * 1024;
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let server = Raw::start(move |mut stream, number| {
        let count = Arc::clone(&count);
        async move {
            read_request(&mut stream).await;
            if number > 0 {
                return stream.write_all(OK.as_bytes()).await.expect("written");
            }
            stream.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n").as_bytes()).await.expect("written");
            while count.load(Ordering::SeqCst) < SIZE && stream.write_all(&[b'x'; 64 * 1024]).await.is_ok() {
                count.fetch_add(64 * 1024, Ordering::SeqCst);
            }
        }
    })
    .await;
    let webhook = local();
    assert_eq!(call(&webhook, &server.url()).await, answered(200));
    assert_eq!(call(&webhook, &server.url()).await, answered(200));
    server.scripts_ended().await;
    assert_eq!(server.connections(), 2);
    assert!(written.load(Ordering::SeqCst) < SIZE, "the whole body was read");
}

#[tokio::test]
async fn lengths_that_lie() {
    let webhook = local();
    for (head, expected) in [
        ("content-length: 1000\r\n\r\nshort", answered(200)),
        ("content-length: 2\r\ncontent-length: 3\r\n\r\nabc", Failure::Cut.into()),
        ("content-length: -1\r\n\r\n", Failure::Cut.into()),
        ("content-length: 99999999999999999999999\r\n\r\n", Failure::Cut.into()),
        ("transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nx", answered(200)),
        ("transfer-encoding: chunked\r\n\r\nnonsense", answered(200)),
        ("\r\nuntil the end", answered(200)),
    ] {
        let server = Raw::start(move |mut stream, _| async move {
            read_request(&mut stream).await;
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}").as_bytes()).await.expect("written");
        })
        .await;
        assert_eq!(call(&webhook, &server.url()).await, expected, "{head:?}");
    }
}

#[tokio::test]
async fn bytes_beyond_an_answer_are_not_the_next_answer() {
    let server = Raw::start(|mut stream, number| async move {
        read_request(&mut stream).await;
        let smuggled = if number == 0 { "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n" } else { "" };
        stream.write_all(format!("{OK}{smuggled}").as_bytes()).await.expect("written");
        read_request(&mut stream).await;
    })
    .await;
    let webhook = local();
    assert_eq!(call(&webhook, &server.url()).await, answered(200));
    assert_eq!(call(&webhook, &server.url()).await, answered(200));
    assert_eq!(server.connections(), 2, "the connection with surplus bytes was used again");
}

/// Inflated, a bomb would exceed what is read of an answer and cost the connection.
#[tokio::test]
async fn a_compressed_body_is_not_inflated() {
    for (encoding, bomb) in bombs() {
        let server = Raw::answering(packed(encoding, &bomb)).await;
        let webhook = local();
        assert_eq!(call(&webhook, &server.url()).await, answered(200));
        assert_eq!(call(&webhook, &server.url()).await, answered(200));
        assert_eq!(server.connections(), 1, "{encoding}");
    }
}

#[tokio::test]
async fn a_connection_that_is_reset_before_the_answer_is_cut() {
    let server = Raw::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        reset(stream);
    })
    .await;
    assert_eq!(call(&local(), &server.url()).await, Failure::Cut.into());
    assert_eq!(server.connections(), 1, "a request that may have been processed was repeated");
}

#[tokio::test]
async fn a_connection_that_is_reset_inside_the_head_is_cut() {
    let server = Raw::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le").await.expect("written");
        reset(stream);
    })
    .await;
    assert_eq!(call(&local(), &server.url()).await, Failure::Cut.into());
}

#[tokio::test]
async fn a_connection_that_is_cut_after_the_head_has_answered() {
    let server = Raw::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\nxx").await.expect("written");
    })
    .await;
    assert_eq!(call(&local(), &server.url()).await, answered(503));
}

#[tokio::test]
async fn what_is_no_http_is_cut() {
    let server = Raw::answering("SSH-2.0-OpenSSH_9.9\r\n").await;
    assert_eq!(call(&local(), &server.url()).await, Failure::Cut.into());
}

#[tokio::test]
async fn nobody_there_is_a_failed_connection() {
    let server = Raw::answering(OK).await;
    let url = server.url();
    drop(server);
    // The port is free as soon as the listener's task has ended.
    while tokio::net::TcpStream::connect(url.trim_start_matches("http://").trim_end_matches("/hook")).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(call(&local(), &url).await, Failure::Connect.into());
}

#[tokio::test]
async fn retry_after_is_passed_on_within_its_bound() {
    let webhook = local();
    let long = "9".repeat(500);
    for (lines, expected) in [
        ("retry-after: 120\r\n".to_owned(), Some("120".to_owned())),
        ("Retry-After: Tue, 01 Dec 2026 09:05:00 GMT\r\n".to_owned(), Some("Tue, 01 Dec 2026 09:05:00 GMT".to_owned())),
        ("retry-after: 7\r\nretry-after: 900\r\n".to_owned(), Some("7".to_owned())),
        (format!("retry-after: {long}\r\n"), Some("9".repeat(128))),
        ("retry-after: sofort, bitte schön\r\n".to_owned(), None),
        (String::new(), None),
    ] {
        let server = Raw::answering(format!("HTTP/1.1 429 Slow\r\n{lines}content-length: 0\r\n\r\n")).await;
        let expected = CallResult::Answered { status: 429, retry_after: expected };
        assert_eq!(call(&webhook, &server.url()).await, expected, "{lines:?}");
    }
}

#[tokio::test]
async fn a_drained_connection_is_used_again() {
    let webhook = local();
    for (size, connections) in [(0, 1), (8_000, 1), (200_000, 2)] {
        let server = Raw::start(move |mut stream, _| async move {
            while read_request(&mut stream).await.is_some() {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.expect("written");
                // The body comes on its own: whoever does not wait for it has lost the connection.
                sleep(Duration::from_millis(50)).await;
                if stream.write_all(&vec![b'x'; size]).await.is_err() {
                    return;
                }
            }
        })
        .await;
        assert_eq!(call(&webhook, &server.url()).await, answered(200));
        assert_eq!(call(&webhook, &server.url()).await, answered(200));
        assert_eq!(server.connections(), connections, "{size} bytes");
    }
}
