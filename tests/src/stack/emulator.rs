//! The emulator's process: a guard, and below it the emulator and the function environments that it starts.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use super::{REGION, process, root};

/// Longest time between the start of the process and its first healthy answer.
const HEALTH_BOUND: Duration = Duration::from_secs(60);
const HEALTH_POLL: Duration = Duration::from_millis(50);

/// Longest time that the guard may need to end everything. Its own bounds add up to less.
const STOP_BOUND: Duration = Duration::from_secs(15);
const STOP_POLL: Duration = Duration::from_millis(20);

/// Starts are repeated on another port when the chosen one was taken in between.
const START_ATTEMPTS: u32 = 3;

/// How an emulator is started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Launch<'a> {
    /// Where the functions find DynamoDB, if not at the emulator.
    pub(super) dynamodb: Option<&'a str>,
    /// Whether it outlives this process.
    pub(super) detached: bool,
    /// Whether a call needs the permission that the caller's role gives.
    pub(super) enforce_iam: bool,
}

/// A running emulator.
#[derive(Debug)]
pub(super) struct Emulator {
    guard: Child,
    endpoint: String,
    log: PathBuf,
    scratch: PathBuf,
    kept: bool,
    stopped: bool,
}

impl Emulator {
    /// Starts the emulator on a free port and waits until it answers.
    pub(super) async fn start(launch: Launch<'_>) -> Result<Self> {
        let python = python()?;
        let mut failure = anyhow!("the emulator was not started");
        for _ in 0..START_ATTEMPTS {
            let mut emulator = Self::spawn(&python, free_port()?, launch)?;
            match emulator.healthy().await {
                Ok(()) => return Ok(emulator),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn spawn(python: &Path, port: u16, launch: Launch<'_>) -> Result<Self> {
        let directory = root().join("target").join("local").join(port.to_string());
        let scratch = directory.join("scratch");
        fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
        let log = directory.join("ministack.log");
        let output = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let errors = output.try_clone().context("cannot share the emulator's log")?;
        let endpoint = format!("http://127.0.0.1:{port}");

        let mut command = Command::new(python);
        command.arg(root().join("tests").join("tools").join("guard.py"));
        if launch.detached {
            command.arg("--detached");
        }
        command.arg("--scratch").arg(&scratch).arg("--").arg(python).args(["-m", "ministack"]);
        // The functions inherit the emulator's environment: it must hold nothing of this process, and all addresses.
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &scratch)
            .env("TMPDIR", &scratch)
            .env("PYTHONUNBUFFERED", "1")
            .env("GATEWAY_PORT", port.to_string())
            .env("BIND_HOST", "127.0.0.1")
            .env("MINISTACK_HOST", "127.0.0.1")
            .env("MINISTACK_REGION", REGION)
            .env("LAMBDA_EXECUTOR", "local")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_ENDPOINT_URL", &endpoint);
        if launch.enforce_iam {
            command.env("AUTH", "true");
        }
        if let Some(dynamodb) = launch.dynamodb {
            command.env("AWS_ENDPOINT_URL_DYNAMODB", dynamodb);
        }
        let guard = command
            .current_dir(&scratch)
            .stdin(if launch.detached { Stdio::null() } else { Stdio::piped() })
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        Ok(Self { guard, endpoint, log, scratch, kept: false, stopped: false })
    }

    async fn healthy(&mut self) -> Result<()> {
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build()?;
        let url = format!("{}/_ministack/health", self.endpoint);
        let wait = async {
            loop {
                if let Some(status) = self.guard.try_wait().context("cannot watch the emulator")? {
                    bail!("the emulator ended at once ({status}): {}", last_line(&self.log));
                }
                if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                    return Ok(());
                }
                tokio::time::sleep(HEALTH_POLL).await;
            }
        };
        match tokio::time::timeout(HEALTH_BOUND, wait).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("the emulator did not answer within {} s; its log is {}", HEALTH_BOUND.as_secs(), self.log.display()),
        }
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(super) fn guard_pid(&self) -> u32 {
        self.guard.id()
    }

    /// Whether the emulator goes on when this value is dropped.
    pub(super) fn set_kept(&mut self, kept: bool) {
        self.kept = kept;
    }

    /// Ends everything and waits for it. Blocks the thread.
    pub(super) fn stop(&mut self) -> Result<()> {
        if self.stopped {
            return Ok(());
        }
        self.stopped = true;
        // Either of the two is enough: the end of its input, or the signal (all there is for a detached guard).
        drop(self.guard.stdin.take());
        let pid = self.guard.id();
        if self.guard.try_wait().context("cannot watch the guard")?.is_none() {
            let _ = process::signal(pid, libc::SIGTERM);
            wait_bounded(&mut self.guard)?;
        }
        end_session(pid)?;
        // The guard removes it; this is for a guard that was killed.
        match fs::remove_dir_all(&self.scratch) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.scratch.display()))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: a destructor has nobody to report to, and the guard acts without us.
            let _ = self.stop();
        }
    }
}

/// Ends the guard of a stack that another process started, and everything below it. `false` if it is not there any more.
///
/// # Errors
///
/// If a process outlives the bound.
pub(super) fn stop_detached(pid: u32, started: u64) -> Result<bool> {
    let is_it = || process::status(pid).is_some_and(|status| status.started == started);
    if !is_it() {
        return Ok(false);
    }
    let _ = process::signal(pid, libc::SIGTERM);
    for _ in 0..polls() {
        if !is_it() {
            break;
        }
        std::thread::sleep(STOP_POLL);
    }
    end_session(pid).map(|()| true)
}

/// Kills what is left of a guard's session. Normally that is nothing.
fn end_session(session: u32) -> Result<()> {
    for _ in 0..polls() {
        let left = process::of_session(session);
        if left.is_empty() {
            return Ok(());
        }
        for pid in left {
            let _ = process::signal(pid, libc::SIGKILL);
        }
        std::thread::sleep(STOP_POLL);
    }
    bail!("processes of session {session} outlive SIGKILL")
}

fn wait_bounded(guard: &mut Child) -> Result<()> {
    for _ in 0..polls() {
        if guard.try_wait().context("cannot watch the guard")?.is_some() {
            return Ok(());
        }
        std::thread::sleep(STOP_POLL);
    }
    guard.kill().context("cannot kill the guard")?;
    guard.wait().map(drop).context("cannot wait for the guard")
}

fn polls() -> u128 {
    STOP_BOUND.as_millis() / STOP_POLL.as_millis()
}

/// The project's Python interpreter, which has the emulator installed.
fn python() -> Result<PathBuf> {
    let environment = root().join(".venv");
    let python = environment.join("bin").join("python");
    if !python.exists() || !environment.join("bin").join("ministack").exists() {
        bail!("the emulator is not installed in .venv: run `make venv` (needs python3 with its venv module)");
    }
    Ok(python)
}

/// A port of the loopback interface that nobody listens on now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot find a free port")?;
    Ok(listener.local_addr().context("cannot find a free port")?.port())
}

fn last_line(log: &Path) -> String {
    fs::read_to_string(log)
        .ok()
        .and_then(|text| text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned))
        .unwrap_or_else(|| "no output".to_owned())
}
