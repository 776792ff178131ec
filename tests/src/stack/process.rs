//! Processes, as `/proc` shows them.

use std::fs;

/// One process' line in `/proc/PID/stat`, as far as the stack needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Session that the process belongs to.
    pub session: u32,
    /// Start in clock ticks since boot. With the process id it identifies a process for good.
    pub started: u64,
}

/// Looks a process up. `None` if there is none, or if it has ended and only waits to be reaped.
#[must_use]
pub fn status(pid: u32) -> Option<Status> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name is in parentheses and may contain anything; the state is the first field after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let session = fields.nth(2)?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    Some(Status { session, started })
}

/// Live processes of a session, in the order of their ids.
#[must_use]
pub fn of_session(session: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| status(*pid).is_some_and(|status| status.session == session))
        .collect();
    pids.sort_unstable();
    pids
}

/// Whether a process was started with this environment variable (`NAME=value`).
#[must_use]
pub fn has_environment(pid: u32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()))
}

/// Sends a signal to one process; `false` if there is no such process. Ids that would address a group are refused.
#[expect(unsafe_code, reason = "the standard library has no call that sends a signal other than SIGKILL")]
#[must_use]
pub fn signal(pid: u32, number: i32) -> bool {
    match libc::pid_t::try_from(pid) {
        // SAFETY: kill(2) touches no memory of this process.
        Ok(pid) if pid > 1 => unsafe { libc::kill(pid, number) == 0 },
        _ => false,
    }
}
