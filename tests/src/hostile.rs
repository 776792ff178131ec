//! I am receivers that do all they can to cost time or memory, in raw bytes on loopback, and the measure of what a call
//! to them costs.
//!
//! I hold no buffers of my own that grow: what is measured in this process is the caller's.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use peak_alloc::PeakAlloc;
use punctual_adapters::webhook::{HttpWebhook, WebhookConfig};
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::ports::{Request, Webhook};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The most heap that one call may hold at a time, in bytes.
pub const PEAK_GOAL: usize = 1024 * 1024;
/// A page that nobody asked for: 40 MB.
const PAGE: usize = 40 * 1024 * 1024;
/// A piece of it.
static FILL: [u8; 64 * 1024] = [b'x'; 64 * 1024];
/// Raw deflate: each zero byte that follows is another thousand zeros.
const DEFLATED: [u8; 15] = [0xed, 0xc1, 0x31, 0x01, 0, 0, 0, 0xc2, 0xa0, 0xf5, 0x4f, 0x6d, 0x06, 0x7f, 0xa0];
const GZIP: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3];
const ZLIB: [u8; 2] = [0x78, 0x9c];
/// 8 MiB of zeros.
const BROTLI: [u8; 14] = [0x9b, 0xff, 0xff, 0x7f, 0xf8, 0x27, 0, 0xe2, 0xb1, 0x40, 0x20, 0xf7, 0xfe, 0x0f];
/// How much of a deflated bomb is sent: less than what a call reads of an answer, more than a thousandfold inflated.
const DEFLATED_BYTES: usize = 4_000;

/// What a receiver does once it has the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hostile {
    /// Nothing at all.
    Silent,
    /// A head that comes byte by byte, for ever.
    DrippingHead,
    /// A body that comes byte by byte, for ever.
    DrippingBody,
    /// Header lines without end.
    EndlessHeaders,
    /// One header line without end.
    EndlessHeader,
    /// A status line without end.
    EndlessStatusLine,
    /// 100 Continue without end.
    ContinueFlood,
    /// 103 Early Hints without end.
    HintsFlood,
    /// 40 MB with their length.
    LargePage,
    /// 40 MB until the connection ends.
    LargePageUntilTheEnd,
    /// 40 MB in chunks.
    LargePageInChunks,
    /// A chunk extension without end.
    EndlessChunkExtension,
    /// Trailers without end.
    EndlessTrailers,
    /// A length that is more than what comes.
    LengthTooLong,
    /// A length that is less than what comes.
    LengthTooShort,
    /// Two lengths that differ.
    TwoLengths,
    /// A gzip bomb.
    Gzip,
    /// A deflate bomb.
    Deflate,
    /// A brotli bomb.
    Brotli,
    /// Cut inside the head.
    CutInHead,
    /// Cut inside the body of a 503.
    CutInBody,
    /// A status line with a word for a status.
    NoStatus,
    /// Not HTTP.
    NoHttp,
    /// HTTP/2 frames.
    Http2,
    /// Another protocol from here on.
    SwitchingProtocols,
}

impl Hostile {
    /// Every one.
    pub const ALL: [Self; 25] = [
        Self::Silent,
        Self::DrippingHead,
        Self::DrippingBody,
        Self::EndlessHeaders,
        Self::EndlessHeader,
        Self::EndlessStatusLine,
        Self::ContinueFlood,
        Self::HintsFlood,
        Self::LargePage,
        Self::LargePageUntilTheEnd,
        Self::LargePageInChunks,
        Self::EndlessChunkExtension,
        Self::EndlessTrailers,
        Self::LengthTooLong,
        Self::LengthTooShort,
        Self::TwoLengths,
        Self::Gzip,
        Self::Deflate,
        Self::Brotli,
        Self::CutInHead,
        Self::CutInBody,
        Self::NoStatus,
        Self::NoHttp,
        Self::Http2,
        Self::SwitchingProtocols,
    ];

    /// The one that costs most: a client reads a head into one buffer, up to its bound.
    pub const DEAREST: Self = Self::EndlessHeaders;

    /// What a call makes of it: a status counts as soon as it is there, whatever the body does.
    #[must_use]
    pub fn result(self) -> CallResult {
        let answered = |status| CallResult::Answered { status, retry_after: None };
        match self {
            Self::Silent | Self::DrippingHead | Self::ContinueFlood | Self::HintsFlood => Failure::Timeout.into(),
            Self::EndlessHeaders
            | Self::EndlessHeader
            | Self::EndlessStatusLine
            | Self::TwoLengths
            | Self::CutInHead
            | Self::NoStatus
            | Self::NoHttp
            | Self::Http2 => Failure::Cut.into(),
            Self::CutInBody => answered(503),
            Self::SwitchingProtocols => answered(101),
            _ => answered(200),
        }
    }

    /// Plays it to a caller until that is gone.
    async fn play(self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut request = [0; 2048];
        let _seen = stream.read(&mut request).await?;
        let head = |more: &str| format!("HTTP/1.1 200 OK\r\n{more}").into_bytes();
        let (first, again): (Vec<u8>, &[u8]) = match self {
            Self::Silent => (Vec::new(), b""),
            Self::DrippingHead => (head("x-drip: "), b"x"),
            Self::DrippingBody => (head("content-length: 1000\r\n\r\n"), b"x"),
            Self::EndlessHeaders => (head(""), b"x-more: and more and more and more\r\n"),
            Self::EndlessHeader => (head("x-long: "), &FILL),
            Self::EndlessStatusLine => (b"HTTP/1.1 200 ".to_vec(), &FILL),
            Self::ContinueFlood => (Vec::new(), b"HTTP/1.1 100 Continue\r\n\r\n"),
            Self::HintsFlood => (Vec::new(), b"HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n"),
            Self::LargePage => (head(&format!("content-length: {PAGE}\r\n\r\n")), &FILL),
            Self::LargePageUntilTheEnd => (head("\r\n"), &FILL),
            Self::LargePageInChunks => (head(&format!("transfer-encoding: chunked\r\n\r\n{PAGE:x}\r\n")), &FILL),
            Self::EndlessChunkExtension => (head("transfer-encoding: chunked\r\n\r\n1;x="), &FILL),
            Self::EndlessTrailers => {
                (head("transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"), b"x-more: and more and more\r\n")
            }
            Self::LengthTooLong => (head("content-length: 1000\r\n\r\nshort"), b""),
            Self::LengthTooShort => (head("content-length: 2\r\n\r\nok"), &FILL),
            Self::TwoLengths => (head("content-length: 2\r\ncontent-length: 3\r\n\r\nabc"), b""),
            Self::Gzip => (packed("gzip", &deflated(&GZIP)), b""),
            Self::Deflate => (packed("deflate", &deflated(&ZLIB)), b""),
            Self::Brotli => (packed("br", &BROTLI), b""),
            Self::CutInHead => (head("content-le"), b""),
            Self::CutInBody => (b"HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\nxx".to_vec(), b""),
            Self::NoStatus => (b"HTTP/1.1 abc OK\r\n\r\n".to_vec(), b""),
            Self::NoHttp => (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), b""),
            Self::Http2 => (b"\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec(), b""),
            Self::SwitchingProtocols => (b"HTTP/1.1 101 Away\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".to_vec(), &FILL),
        };
        stream.write_all(&first).await?;
        match self {
            Self::DrippingHead | Self::DrippingBody => loop {
                stream.write_all(again).await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            },
            Self::LargePage | Self::LargePageUntilTheEnd | Self::LargePageInChunks => {
                for _ in 0..PAGE / FILL.len() {
                    stream.write_all(again).await?;
                }
            }
            Self::LengthTooLong | Self::CutInHead | Self::CutInBody => return Ok(()),
            _ if again.is_empty() => {}
            _ => loop {
                stream.write_all(again).await?;
            },
        }
        // The caller ends it.
        while stream.read(&mut request).await? > 0 {}
        Ok(())
    }
}

fn deflated(head: &[u8]) -> Vec<u8> {
    let mut bytes = [head, &DEFLATED].concat();
    bytes.resize(DEFLATED_BYTES, 0);
    bytes
}

/// An answer with a body that is packed in this way.
#[must_use]
pub fn packed(encoding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The three bombs: each is smaller than what a call reads of an answer, and far larger than that inflated.
#[must_use]
pub fn bombs() -> [(&'static str, Vec<u8>); 3] {
    [("gzip", deflated(&GZIP)), ("deflate", deflated(&ZLIB)), ("br", BROTLI.to_vec())]
}

/// A listener that plays one part to everybody; it ends when it is dropped.
#[derive(Debug)]
pub struct Stage {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Stage {
    /// Starts.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start(hostile: Hostile) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("a port")?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            let mut players = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                players.spawn(hostile.play(stream));
            }
        });
        Ok(Self { address, accepting })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A client as a local stage has it.
///
/// # Errors
/// If it cannot be built.
pub fn client() -> Result<HttpWebhook> {
    let config = WebhookConfig { allow_local: true, user_agent: "punctual/test".into(), extra_roots: Vec::new() };
    HttpWebhook::new(config).context("a client")
}

/// Calls all of these at the same time, each within `total`; gives the results and the most heap, in bytes, that this
/// process held meanwhile beyond what it held before.
///
/// # Errors
/// If a receiver cannot start, or the process does not count its memory: its binary must have [`PeakAlloc`] as its
/// allocator.
pub async fn measured(webhook: &HttpWebhook, parts: &[Hostile], total: Duration) -> Result<(Vec<CallResult>, usize)> {
    let mut stages = Vec::new();
    for part in parts {
        stages.push(Stage::start(*part).await?);
    }
    let requests: Vec<Request> = stages
        .iter()
        .map(|stage| Request {
            url: stage.url(),
            headers: vec![("content-type", "application/json".into())],
            body: b"{}".to_vec(),
            connect_timeout: total,
            total_timeout: total,
        })
        .collect();
    ensure!(PeakAlloc.current_usage() > 0, "this binary does not count its memory");
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    let results = join_all(requests.iter().map(|request| webhook.call(request, &|| true))).await;
    Ok((results, PeakAlloc.peak_usage().saturating_sub(before)))
}
