//! Receivers made of raw bytes.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A listener that gives each connection to a script.
pub(crate) struct Raw {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    tasks: Arc<Mutex<JoinSet<()>>>,
    accepting: JoinHandle<()>,
}

impl Raw {
    /// Starts; the script gets each connection and its number, from 0.
    pub(crate) async fn start<F, S>(script: S) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
        S: Fn(TcpStream, usize) -> F + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let tasks = Arc::new(Mutex::new(JoinSet::new()));
        let (counted, running) = (Arc::clone(&connections), Arc::clone(&tasks));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = counted.fetch_add(1, Ordering::SeqCst);
                running.lock().expect("unpoisoned").spawn(script(stream, number));
            }
        });
        Self { address, connections, tasks, accepting }
    }

    /// Answers every request with these bytes, and keeps the connection.
    pub(crate) async fn answering(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into().into();
        Self::start(move |mut stream, _| {
            let bytes = Arc::clone(&bytes);
            async move { while read_request(&mut stream).await.is_some() && stream.write_all(&bytes).await.is_ok() {} }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until every script has ended.
    pub(crate) async fn scripts_ended(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().expect("unpoisoned"));
        let ended = async { while tasks.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("a script is still running");
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Reads one whole request; none at the end of the connection.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut seen = Vec::new();
    loop {
        if let Some(end) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if seen.len() >= end + 4 + length.parse::<usize>().expect("a length") {
                return Some(String::from_utf8(seen).expect("UTF-8"));
            }
        }
        if stream.read_buf(&mut seen).await.ok()? == 0 {
            return None;
        }
    }
}

/// Reads to the end; how many bytes came.
pub(crate) async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> usize {
    let mut all = Vec::new();
    let _ended = stream.read_to_end(&mut all).await;
    all.len()
}

/// Ends a connection with a reset instead of a regular end.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().expect("linger");
    drop(stream);
}
