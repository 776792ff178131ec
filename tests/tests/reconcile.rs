//! Exports against ledgers: what was seeded is found, nothing is invented, and what cannot be read is said.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

use std::fs;
use std::io::{BufWriter, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_adapters::clock::machine_time;
use punctual_adapters::memory::MemoryLedger;
use punctual_core::attempt::{Answer, Attempt};
use punctual_core::delivery::{Delivery, Payload};
use punctual_core::id::IdentityParts;
use punctual_core::ports::{Ledger as _, Rows};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_inspect::reconcile::audit::{Audit, BadLine};
use punctual_inspect::reconcile::{ReconcileError, reconcile, text};
use punctual_tests::reconcile::{Seed, Served, check, control, period, request, time};
use serde_json::Value;
use tempfile::TempDir;

async fn compared(ledger: &impl Rows, files: Vec<PathBuf>, run: usize) -> Result<Audit, ReconcileError> {
    let control = control().await.unwrap();
    reconcile(&request(files, run).unwrap(), ledger, &control, &time(), &|_| {}).await
}

/// A folder with one file of this content.
fn export(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    (folder, path)
}

fn seeded(name: &str, seed: &Seed) -> (TempDir, PathBuf) {
    let (folder, path) = export(name, "");
    let mut file = BufWriter::new(fs::File::create(&path).unwrap());
    if name.ends_with(".csv") { seed.csv(&mut file) } else { seed.json_lines(&mut file) }.unwrap();
    file.flush().unwrap();
    (folder, path)
}

#[tokio::test]
async fn seeded_errors_are_all_found_and_none_is_invented() {
    let seed = Seed { deliveries: 20_000 };
    let memory = MemoryLedger::default();
    (0..seed.deliveries).filter_map(|n| seed.row(n)).for_each(|row| memory.put_row(row));
    // Runs of a thousand go through the temporary file, those of a million do not.
    for (name, run) in [("e.csv", 1_000), ("e.jsonl", 1_000), ("e.csv", 1_000_000)] {
        let (_folder, path) = seeded(name, &seed);
        for audit in [compared(&seed, vec![path.clone()], run).await, compared(&memory, vec![path.clone()], run).await] {
            let audit = audit.unwrap();
            check(&seed, &audit).unwrap();
            let lines: u32 = (0..seed.deliveries).map(|n| seed.fate(n).lines()).sum();
            assert_eq!((audit.inputs[0].records, audit.inputs[0].unreadable), (u64::from(lines), 0));
            assert_eq!((audit.counts.outside, audit.counts.agreed, audit.counts.surplus_lines), (20, 20, 60));
        }
    }
}

#[tokio::test]
async fn several_files_are_one_export() {
    let seed = Seed { deliveries: 3_000 };
    let (folder, path) = seeded("all.csv", &seed);
    let all = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = all.lines().skip(1).collect();
    let (first, second) = lines.split_at(1_107);
    let (one, two) = (folder.path().join("one.csv"), folder.path().join("two.jsonl"));
    // The other column first, other delimiter, Windows line ends, a byte order mark.
    let swapped = |line: &&str| line.split_once(',').map(|(id, time)| format!("{time};{id}\r\n")).unwrap();
    fs::write(&one, format!("\u{feff}time;webhook_id\r\n{}", first.iter().map(swapped).collect::<String>())).unwrap();
    let object = |line: &&str| {
        line.split_once(',').map(|(id, time)| format!("{{\"webhook-id\":\"{id}\",\"time\":\"{time}\"}}\n\n")).unwrap()
    };
    fs::write(&two, second.iter().map(object).collect::<String>()).unwrap();
    let audit = compared(&seed, vec![one, two], 500).await.unwrap();
    check(&seed, &audit).unwrap();
    // Duplicate 1,107 has a line in either file.
    let id = seed.id(1_107).unwrap().to_string();
    let found = audit.deviations.iter().find(|one| one.delivery_id == id).expect("listed");
    assert_eq!(found.found_at.len(), 2);
    let sizes: Vec<u64> = audit.inputs.iter().map(|input| input.records).collect();
    assert_eq!(sizes.iter().sum::<u64>(), u64::try_from(lines.len()).unwrap());
}

/// One line after the other, as it is told.
fn told(bad: &[BadLine]) -> Vec<String> {
    bad.iter().map(|one| format!("{}: {}", one.line, one.problem)).collect()
}

const TIME: &str = "time: an RFC 3339 instant with an offset, like 2026-12-01T09:00:00.000Z, of the years 2000 to 9999";

#[tokio::test]
async fn bad_csv_lines_are_counted_and_told_with_what_would_be_right() {
    let good = Seed { deliveries: 1 }.id(0).unwrap();
    let at = "2026-12-01T09:00:00.123456Z";
    let content = format!(
        "webhook-id,time,note\n\
         {good},{at},\"two\nlines\"\n\
         {good}\n\
         \n\
         dlv.1,{at},x\n\
         ,{at},x\n\
         dlv_2,yesterday,x\n\
         dlv_2,2026-12-01T09:00:00,x\n\
         dlv_2,1999-12-01T09:00:00Z,x\n\
         dlv_\u{e9},{at},x\n\
         dlv_2,{at},\"open\n\
         dlv_3,{at},x\n\
         dlv_4,{at},closed\"\n\
         {good},{at},x\n"
    );
    let mut content = content.into_bytes();
    content.extend_from_slice(b"dlv_\xff,2026-12-01T09:00:00Z,x\n");
    let (_folder, path) = export("e.csv", content);
    let audit = compared(&Seed { deliveries: 1 }, vec![path], 10).await.unwrap();
    let id = "webhook-id: only letters, digits, _ and -";
    let expected = [
        "4: 3 columns, as the header has; got 1".to_owned(),
        format!("6: {id}"),
        "7: webhook-id: 1 to 64 characters".to_owned(),
        format!("8: {TIME}"),
        format!("9: {TIME}"),
        format!("10: {TIME}"),
        format!("11: {id}"),
        "16: UTF-8 text".to_owned(),
    ];
    assert_eq!(told(&audit.unreadable_lines), expected);
    assert_eq!((audit.inputs[0].records, audit.inputs[0].unreadable, audit.clean), (11, 8, false));
    // What stands within quotes, however many lines it takes, is one record: two of the one id are left, and one of another.
    let duplicate = &audit.deviations[0];
    assert_eq!((duplicate.delivery_id.as_str(), duplicate.records), (good.as_str(), 2));
    assert!(duplicate.found_at[0].ends_with("e.csv:2") && duplicate.found_at[1].ends_with("e.csv:15"), "{duplicate:?}");
    assert!(text(&audit).contains("result        not clean: 2 deviating, 8 unreadable in the export"), "{}", text(&audit));
}

/// Lines that end with a carriage return alone are none: nothing behind one is passed over without a word.
#[tokio::test]
async fn a_carriage_return_alone_hides_no_record() {
    let seed = Seed { deliveries: 2 };
    let (first, second) = (seed.id(0).unwrap(), seed.id(1).unwrap());
    let at = "2026-12-01T09:00:00Z";
    let (_folder, old) = export("old.csv", format!("webhook-id,time\r{first},{at}\r{second},{at}\r").into_bytes());
    let refused = compared(&seed, vec![old], 10).await.unwrap_err().to_string();
    assert!(refused.contains("a header line that names the columns webhook-id and time"), "{refused}");
    let (_folder, mixed) = export("mixed.csv", format!("webhook-id,time\n{first},{at}\r{second},{at}\n").into_bytes());
    let audit = compared(&seed, vec![mixed], 10).await.unwrap();
    assert_eq!(told(&audit.unreadable_lines), ["2: 2 columns, as the header has; got 3"]);
    assert!(!audit.clean);
}

#[tokio::test]
async fn bad_json_lines_are_counted_and_told_with_what_would_be_right() {
    let long = "x".repeat(70_000);
    let lines = [
        r#"{"webhook-id":"dlv_1","time":"2026-12-01T09:00:00Z","extra":{"a":[1]}}"#,
        r#"["dlv_1","2026-12-01T09:00:00Z"]"#,
        r#"{"webhook-id":"dlv_1"}"#,
        r#"{"webhook-id":17,"time":"2026-12-01T09:00:00Z"}"#,
        r#"{"webhook-id":"dlv_1","webhook_id":"dlv_2","time":"2026-12-01T09:00:00Z"}"#,
        "   ",
        r#"{"webhook-id":"dlv_1","time":"2026-12-01T09:00:00Z""#,
        &format!(r#"{{"webhook-id":"dlv_1","time":"2026-12-01T09:00:00Z","x":"{long}"}}"#),
        r#"{"webhook-id":"dlv_1","time":"9:00"}"#,
        r#"{"webhook-id":"dlv_\u0031","time":"2026-12-01T10:00:00+01:00"}"#,
    ];
    let (_folder, path) = export("e.jsonl", lines.join("\n"));
    let audit = compared(&Seed { deliveries: 1 }, vec![path], 10).await.unwrap();
    let right = "a JSON object on one line with the texts webhook-id and time";
    let expected = [
        format!("2: {right}"),
        format!("3: {right}; missing field `time`"),
        format!("4: {right}"),
        format!("5: {right}; duplicate field `webhook-id`"),
        format!("7: {right}"),
        format!("8: {right}, of at most 65536 bytes; this one is longer"),
        format!("9: {TIME}"),
    ];
    assert_eq!(told(&audit.unreadable_lines), expected);
    assert_eq!((audit.inputs[0].records, audit.inputs[0].unreadable), (9, 7));
    // The first and the last are of one delivery, and by the same instant.
    assert_eq!((audit.counts.unexpected, audit.deviations[1].records), (1, 2));
    assert_eq!(audit.deviations[1].first_time, audit.deviations[1].last_time);
}

#[tokio::test]
async fn a_file_that_is_none_is_named_with_what_would_be_right() {
    let open = format!("webhook-id,time\ndlv_1,2026-12-01T09:00:00Z\n\"dlv_2,{}", "x".repeat(3_000_000));
    let header = "a header line that names the columns webhook-id and time, each once";
    let quote = "a record of at most 262144 bytes begins here; is a quote not closed?";
    let cases: [(&[u8], String); 9] = [
        (b"", ": a CSV header line with webhook-id and time, or JSON objects; it is empty".into()),
        (b" \n\n", ": a CSV header line with webhook-id and time, or JSON objects; it is empty".into()),
        (b"id,at\nx,y\n", format!(":1: {header}")),
        (b"dlv_1,2026-12-01T09:00:00Z\n", format!(":1: {header}")),
        (b"\x1f\x8b\x08\x00", ": UTF-8 text, CSV or JSON Lines; it is compressed with gzip".into()),
        (b"\xff\xfew\x00", ": UTF-8 text, CSV or JSON Lines; it is UTF-16".into()),
        (b"PK\x03\x04", ": UTF-8 text, CSV or JSON Lines; it is a zip archive, or a workbook".into()),
        (open.as_bytes(), format!(":3: {quote}")),
        (b"webhook-id,time\n\n\"dlv_1,2026-12-01T09:00:00Z\ndlv_2,2026-12-01T09:00:00Z\n", format!(":3: {quote}")),
    ];
    for (content, expected) in cases {
        let (_folder, path) = export("e.csv", content);
        let error = compared(&Seed { deliveries: 1 }, vec![path.clone()], 10).await.expect_err("no export");
        assert_eq!(error.to_string(), format!("{}{expected}", path.display()));
    }
    let missing = compared(&Seed { deliveries: 1 }, vec!["nowhere.csv".into()], 10).await.expect_err("no file");
    assert!(missing.to_string().starts_with("nowhere.csv: a file that can be read; "), "{missing}");
    let (_folder, path) = export("e.csv", "webhook-id,time\n");
    let twice = compared(&Seed { deliveries: 1 }, vec![path.clone(), path], 10).await.expect_err("twice");
    assert!(twice.to_string().ends_with("one of them has the same content"), "{twice}");
}

#[tokio::test]
async fn a_period_that_is_not_over_and_an_unknown_destination_are_refused() {
    let (_folder, path) = export("e.csv", "webhook-id,time\n");
    let control = control().await.unwrap();
    let mut request = request(vec![path], 10).unwrap();
    let ledger = MemoryLedger::default();
    // A week after the period is now.
    request.period.until = period().until.plus(Duration::from_secs(7 * 86_400));
    let error = reconcile(&request, &ledger, &control, &time(), &|_| {}).await.expect_err("now");
    assert!(matches!(error, ReconcileError::NotOver { .. }), "{error}");
    request.period.until = request.period.until.minus(request.period.tolerance);
    let audit = reconcile(&request, &ledger, &control, &time(), &|_| {}).await.expect("just over");
    assert!(audit.clean, "{audit:?}");
    request.destination = punctual_core::id::DestinationId::new("nowhere").unwrap();
    let error = reconcile(&request, &ledger, &control, &time(), &|_| {}).await.expect_err("unknown");
    assert_eq!(error.to_string(), "destination nowhere is not registered");
}

#[tokio::test]
async fn both_lists_have_a_bound_and_the_rest_is_counted() {
    let seed = Seed { deliveries: 20_000 };
    let (folder, path) = seeded("e.csv", &seed);
    let bad = folder.path().join("bad.csv");
    fs::write(&bad, format!("webhook-id,time\n{}", "dlv_1,never\n".repeat(50))).unwrap();
    let control = control().await.unwrap();
    let mut request = request(vec![path, bad], 1_000).unwrap();
    request.list = 7;
    let audit = reconcile(&request, &seed, &control, &time(), &|_| {}).await.unwrap();
    assert_eq!((audit.counts.missing, audit.counts.duplicate, audit.counts.unexpected), (20, 40, 100));
    assert_eq!((audit.deviations.len(), audit.deviations_not_listed), (21, 139));
    assert_eq!((audit.unreadable_lines.len(), audit.unreadable_lines_not_listed), (7, 43));
    assert!(audit.deviations.is_sorted_by_key(|one| (one.kind, one.delivery_id.clone())), "in order");
}

/// A row that was delivered within the last day, for the program that asks the real time.
fn delivered_lately(n: u64) -> Delivery {
    let mut row = Seed { deliveries: 10 }.row(n).unwrap();
    let at = machine_time().minus(Duration::from_secs(40_000));
    let attempt = Attempt {
        number: 1,
        started_at: at,
        took: Duration::from_millis(20),
        answer: Answer::Status(200),
        reason: Reason::Accepted,
        destination_version: 1,
        key_ids: "k".into(),
    };
    row.attempts = vec![attempt];
    row.history.truncate(1);
    row.history[0].at = at.minus(Duration::from_secs(10));
    (row.state, row.deliver_after, row.deliver_by) = (State::Delivered, at, at.plus(Duration::from_secs(60)));
    row
}

async fn store(served: &Served, row: &Delivery) {
    let parts = IdentityParts {
        tenant: "acme".into(),
        subscriber: row.id.to_string(),
        renewal_period: "2027".into(),
        reminder_kind: "first".into(),
    };
    let (deliver_after, deliver_by) = (row.deliver_after, row.deliver_by);
    served.ledger.create(row, &Payload { body: b"{}".to_vec(), parts, deliver_after, deliver_by }).await.unwrap();
}

fn left(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn the_program_reports_and_ends_with_what_it_found() {
    let served = Served::start().await.unwrap();
    let rows: Vec<Delivery> = (0..3).map(delivered_lately).collect();
    for row in &rows {
        store(&served, row).await;
    }
    let line = |row: &Delivery| format!("{},{}\n", row.id, row.attempts[0].started_at);
    let all: String = rows.iter().map(line).collect();
    let (folder, _) = export("good.csv", format!("webhook-id,time\n{all}"));
    fs::write(folder.path().join("short.csv"), format!("webhook-id,time\n{}", line(&rows[0]))).unwrap();
    fs::write(folder.path().join("none.csv"), "id\n").unwrap();
    let run = async |file: &str| {
        let output = served.program(folder.path(), &[file]).unwrap().output().await.unwrap();
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let report = fs::read_to_string(folder.path().join("report.json")).ok();
        let _ = fs::remove_file(folder.path().join("report.json"));
        assert_eq!(left(&folder.path().join("tmp")), [] as [PathBuf; 0], "something is left");
        (output.status.code().unwrap(), out, err, report.map(|text| serde_json::from_str::<Value>(&text).unwrap()))
    };
    let (code, out, err, report) = run("good.csv").await;
    let report = report.expect("a report");
    assert_eq!((code, report["clean"].as_bool(), report["counts"]["matched"].as_u64()), (0, Some(true), Some(3)), "{out}{err}");
    assert_eq!((report["by"].as_str(), report["inputs"][0]["file"].as_str()), (Some("ann"), Some("good.csv")));
    assert!(out.contains("result        clean") && report["scanned"]["read_units"].as_f64() > Some(0.0), "{out}");
    let (code, out, _, report) = run("short.csv").await;
    let report = report.expect("a report");
    assert_eq!(
        (code, report["counts"]["missing"].as_u64(), report["deviations"].as_array().unwrap().len()),
        (1, Some(2), 2),
        "{out}"
    );
    let (code, _, err, report) = run("none.csv").await;
    assert_eq!((code, report), (2, None));
    assert!(err.contains("none.csv:1: a header line"), "{err}");

    // A report is never overwritten.
    fs::write(folder.path().join("report.json"), "precious").unwrap();
    let output = served.program(folder.path(), &["good.csv"]).unwrap().output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(folder.path().join("report.json")).unwrap(), "precious");
}

/// Whether this process ignores a signal, and so does what it starts: a job in the background of a script ignores SIGINT.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & (1 << (signal - 1)) != 0
}

#[tokio::test]
async fn nothing_is_left_when_it_is_interrupted() {
    let served = Served::start().await.unwrap();
    let (folder, _) = export("unused", "");
    let pipe = folder.path().join("endless.csv");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL].into_iter().filter(|signal| !is_ignored(*signal)) {
        let child = served.program(folder.path(), &["endless.csv"]).unwrap().spawn().unwrap();
        // More than fits into memory at a time: its temporary file is in use. The pipe holds 64 KiB, so all but the last of it
        // was read when the last write is done.
        let pipe = pipe.clone();
        let writer = tokio::task::spawn_blocking(move || {
            let mut pipe = fs::OpenOptions::new().write(true).open(pipe).unwrap();
            let mut lines = "webhook-id,time\n".to_owned();
            (0..80_000).for_each(|n| lines.push_str(&format!("dlv_{n:020},2026-12-01T09:00:00Z\n")));
            pipe.write_all(lines.as_bytes()).unwrap();
            pipe
        });
        let open = writer.await.unwrap();
        let pid = child.id().unwrap();
        assert!(punctual_tests::stack::process::signal(pid, signal));
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{}", String::from_utf8_lossy(&output.stderr));
        drop(open);
        assert_eq!(left(&folder.path().join("tmp")), [] as [PathBuf; 0], "a temporary file is left");
        assert!(!folder.path().join("report.json").exists());
    }
}
