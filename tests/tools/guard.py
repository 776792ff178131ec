"""Runs one command and guarantees that nothing of it outlives its owner.

usage: guard.py [--detached] --scratch DIR -- COMMAND [ARGUMENT...]

The guard leads a session of its own, so that a Ctrl-C meant for the owner does not reach the command. It ends the
command, and every process that the command started, when

* its standard input reaches the end of file: the owner closed it, or is gone (also after SIGKILL); not with --detached,
* it receives SIGTERM or SIGINT, or
* the command ends by itself.

Ending means SIGTERM, a bounded wait, SIGKILL, and then the removal of DIR. The exit status is the command's, or 0 when
the guard was asked to end it.
"""

import argparse
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

GRACE_SECONDS = 0.5
KILL_SECONDS = 5.0
POLL_SECONDS = 0.02
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def members():
    """Process ids of this session other than the guard; processes that only wait to be reaped are left out."""
    own = os.getpid()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == own:
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                state, _, _, session = stat.read().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == own and state not in "ZX":
            found.append(int(entry))
    return found


def signal_members(number):
    for pid in members():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def wait_until_gone(seconds):
    """Whether all members were gone before the time was over."""
    end = time.monotonic() + seconds
    while members():
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def end_members():
    signal_members(signal.SIGTERM)
    end = time.monotonic() + GRACE_SECONDS + KILL_SECONDS
    if not wait_until_gone(GRACE_SECONDS):
        while members() and time.monotonic() < end:
            signal_members(signal.SIGKILL)
            time.sleep(POLL_SECONDS)
    # What ended below the command came to the guard, which has to take its exit status. A process with threads is
    # seen as ended a moment before its status is there.
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(POLL_SECONDS)
        except ChildProcessError:
            return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--detached", action="store_true")
    parser.add_argument("--scratch", required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()

    os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    # Orphaned grandchildren come to the guard instead of leaving the session's sight.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    ending = {signal.SIGTERM, signal.SIGINT}

    child = subprocess.Popen(
        arguments.command,
        stdin=subprocess.DEVNULL,
        # Should the guard itself be killed, the command goes with it.
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
    )
    watched = [wake_read] if arguments.detached else [wake_read, sys.stdin.fileno()]
    status = None
    while status is None:
        ready, _, _ = select.select(watched, [], [])
        if wake_read in ready and ending.intersection(os.read(wake_read, 4096)):
            status = 0
        elif sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 4096):
            status = 0
        elif child.poll() is not None:
            status = child.returncode if child.returncode >= 0 else 128 - child.returncode
    end_members()
    shutil.rmtree(arguments.scratch, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
