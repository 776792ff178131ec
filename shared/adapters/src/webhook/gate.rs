//! I am the gate in front of a request's first byte.
//!
//! The HTTP client writes head and body together: it asks the body for its bytes before it flushes the head. So a
//! body that refuses to start keeps the head back too, and whether the body was ever asked is the proof of what a
//! receiver can have seen. I do not know why a call may not start.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

const CLOSED: u8 = 0;
const STARTED: u8 = 1;
const STOPPED: u8 = 2;

/// Closed at first; then started or stopped, for good, whichever comes first.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate(Arc<AtomicU8>);

impl Gate {
    /// Whether nothing is decided yet.
    pub(super) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) == CLOSED
    }

    /// Stops the request. True: not one byte of it was or will be sent. False: it has started.
    pub(super) fn stop(&self) -> bool {
        !matches!(self.0.compare_exchange(CLOSED, STOPPED, Ordering::AcqRel, Ordering::Acquire), Err(STARTED))
    }

    /// Starts the request; false if it was stopped before.
    pub(super) fn start(&self) -> bool {
        !matches!(self.0.compare_exchange(CLOSED, STARTED, Ordering::AcqRel, Ordering::Acquire), Err(STOPPED))
    }
}

/// Why a body gave no bytes: its gate was stopped.
#[derive(Debug, thiserror::Error)]
#[error("the request was stopped before its first byte")]
pub(super) struct Stopped;

/// A body of known length that passes its gate before the first byte.
#[derive(Debug)]
pub(super) struct GatedBody {
    gate: Gate,
    bytes: Bytes,
    asked: bool,
}

impl GatedBody {
    /// A body behind this gate. It must not be empty: an empty body is never asked.
    pub(super) fn new(gate: Gate, bytes: Bytes) -> Self {
        Self { gate, bytes, asked: false }
    }
}

impl Body for GatedBody {
    type Data = Bytes;
    type Error = Stopped;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Stopped>>> {
        if self.asked {
            return Poll::Ready(None);
        }
        self.asked = true;
        if !self.gate.start() {
            return Poll::Ready(Some(Err(Stopped)));
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.asked
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_decision_stays() {
        let gate = Gate::default();
        assert!(gate.is_closed());
        assert!(gate.start());
        assert!(!gate.stop(), "it has started");
        let gate = Gate::default();
        assert!(gate.stop());
        assert!(!gate.start(), "it was stopped");
        assert!(gate.stop(), "still stopped");
    }

    #[test]
    fn a_stopped_body_gives_no_bytes() {
        let gate = Gate::default();
        let mut body = GatedBody::new(gate.clone(), Bytes::from_static(b"x"));
        assert!(gate.stop());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(Some(Err(Stopped)))));
        assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(None)));
    }

    /// What the header of this module says of the HTTP client, checked on the wire.
    #[tokio::test]
    async fn a_stopped_body_keeps_the_head_back() {
        for stopped in [true, false] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let url = format!("http://{}/", listener.local_addr().expect("an address"));
            let seen = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a connection");
                // Nothing after the first bytes, or after the end without any.
                std::io::Read::read(&mut stream, &mut [0; 1024]).expect("read")
            });
            let gate = Gate::default();
            assert!(!stopped || gate.stop());
            let client = reqwest::Client::builder().no_proxy().build().expect("a client");
            let body = reqwest::Body::wrap(GatedBody::new(gate.clone(), Bytes::from_static(b"x")));
            let sent = client.post(url).body(body).send().await;
            assert!(sent.is_err(), "the connection ends without an answer");
            drop(client);
            assert_eq!(seen.join().expect("a count") == 0, stopped);
            assert_eq!(gate.stop(), stopped, "the gate knows what was sent");
        }
    }
}
