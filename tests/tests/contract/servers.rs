//! One server of each kind for the whole test program, started by the first test that needs it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use punctual_tests::stack::{REGION, root};

/// Health is asked for so often, with a pause in between: 30 s in all.
const POLLS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(50);

/// The address of dynoxide, in this process. It has a runtime of its own, which outlives that of any test.
pub(crate) fn dynoxide_endpoint() -> String {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    ENDPOINT
        .get_or_init(|| {
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
            listener.set_nonblocking(true).expect("a listener");
            let address = listener.local_addr().expect("an address");
            let database = dynoxide::Database::memory().expect("a database");
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
                runtime.expect("a runtime").block_on(async move {
                    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                    dynoxide::server::serve_on(listener, database).await;
                });
            });
            format!("http://{address}")
        })
        .clone()
}

/// The address of ministack, a child of this process.
pub(crate) fn ministack_endpoint() -> String {
    static SERVER: OnceLock<(String, Child)> = OnceLock::new();
    SERVER.get_or_init(start_ministack).0.clone()
}

/// Starts ministack; on another port if the chosen one was taken in between.
fn start_ministack() -> (String, Child) {
    for _ in 0..3 {
        let address = TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr()).expect("a free port");
        let endpoint = format!("http://{address}");
        let mut child = spawn_ministack(address.port(), &endpoint);
        for _ in 0..POLLS {
            if child.try_wait().expect("a child").is_some() {
                break;
            }
            if healthy(address).unwrap_or(false) {
                return (endpoint, child);
            }
            std::thread::sleep(PAUSE);
        }
        // Ends the guard's input, and with it the guard and the emulator.
        drop(child.stdin.take());
        child.wait().expect("a child");
    }
    panic!("ministack does not answer");
}

/// Below the guard, which ends it when this process, and with it the guard's input, is gone.
fn spawn_ministack(port: u16, endpoint: &str) -> Child {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "the emulator is not installed in .venv: run `make venv`");
    let scratch = root().join("target/local").join(format!("contract-{port}"));
    std::fs::create_dir_all(&scratch).expect("a scratch directory");
    Command::new(&python)
        .arg(root().join("tests/tools/guard.py"))
        .arg("--scratch")
        .arg(&scratch)
        .arg("--")
        .arg(&python)
        .args(["-m", "ministack"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &scratch)
        .env("TMPDIR", &scratch)
        .env("GATEWAY_PORT", port.to_string())
        .env("BIND_HOST", "127.0.0.1")
        .env("MINISTACK_REGION", REGION)
        .env("LAMBDA_EXECUTOR", "local")
        .env("AWS_ENDPOINT_URL", endpoint)
        .current_dir(&scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ministack starts")
}

fn healthy(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&address, PAUSE)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    write!(stream, "GET /_ministack/health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = [0_u8; 12];
    stream.read_exact(&mut answer)?;
    Ok(answer.ends_with(b"200"))
}
