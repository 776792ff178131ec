//! The shared cases and the contracts, run on the product's own code; and the runner itself, which must notice what is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use punctual_core::time::Timestamp;
use punctual_tests::cases::{self, Failing, Format, Outcome, judge};
use punctual_tests::stack::root;
use serde_json::{Value, json};

fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A folder of this test alone, with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cases-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

fn command(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cases")).arg(folder).output().unwrap()
}

fn failing(file: &Value) -> Vec<Failing> {
    match judge(&file.to_string()) {
        Outcome::Ran { failing, .. } => failing,
        other => panic!("not run: {other:?}"),
    }
}

fn which(failing: &[Failing]) -> Vec<&str> {
    failing.iter().map(|case| case.which.as_str()).collect()
}

#[test]
fn the_shared_cases_and_the_contracts_pass() {
    for (path, formats) in [
        ("tests/cases", vec![Format::Addresses, Format::Calendar, Format::RetryAfter, Format::Signatures]),
        ("tests/contracts", vec![Format::Contract; 4]),
    ] {
        let report = cases::run(&root().join(path)).unwrap();
        assert!(report.passes(), "{}", report.lines().join("\n"));
        let found: Vec<Format> = report
            .files
            .iter()
            .map(|file| match file.outcome {
                Outcome::Ran { format, .. } => format,
                Outcome::Unusable(_) => panic!("{file:?}"),
            })
            .collect();
        assert_eq!(found, formats, "{path}");
    }
}

#[test]
fn every_address_and_url_is_judged() {
    let file = read("tests/cases/addresses.json");
    let swapped = json!({"refuse": file["allow"], "allow": file["refuse"], "allow_urls": file["refuse_urls"]});
    let count: usize = ["refuse", "allow", "allow_urls"].iter().map(|list| swapped[list].as_array().unwrap().len()).sum();
    let failing = failing(&swapped);
    assert_eq!(failing.len(), count, "{failing:?}");
    let line = failing.iter().find(|case| case.which.contains("169.254.169.254")).unwrap().to_string();
    assert!(line.starts_with("allow[") && line.contains("expected allowed; got refused by rule link-local"), "{line}");
    assert!(failing.iter().any(|case| case.which.starts_with("refuse[") && case.why == "expected refused; got allowed"));
}

#[test]
fn every_floor_and_every_signature_is_judged() {
    let mut floors = read("tests/cases/retry_after.json");
    for case in floors["cases"].as_array_mut().unwrap() {
        case["floor_s"] = json!(case["floor_s"].as_u64().unwrap_or(0) + 7);
    }
    assert_eq!(failing(&floors).len(), floors["cases"].as_array().unwrap().len());

    let signatures = read("tests/cases/signatures.json");
    for (i, _) in signatures["cases"].as_array().unwrap().iter().enumerate() {
        for (field, other) in [
            ("webhook_signature", json!("v1,x")),
            ("x_signature_256", json!("x")),
            ("body", json!("another body")),
            ("webhook_id", json!("dlv_other")),
            ("webhook_timestamp", json!(1)),
        ] {
            let mut file = signatures.clone();
            file["cases"][i][field] = other;
            let failing = failing(&file);
            assert_eq!(failing.len(), 1, "{i} {field}");
            assert!(failing[0].which.starts_with(&format!("cases[{i}]")), "{}", failing[0]);
            let secret = signatures["cases"][i]["secret"].as_str().unwrap();
            assert!(!failing[0].to_string().contains(secret), "a line shows a secret");
        }
    }
}

#[test]
fn every_due_time_is_judged() {
    let file = read("tests/cases/calendar.json");
    let mut minute_late = file.clone();
    for case in minute_late["cases"].as_array_mut().unwrap() {
        let due: Timestamp = case["deliver_after"].as_str().unwrap().parse().unwrap();
        case["deliver_after"] = json!(due.plus(Duration::from_secs(60)));
    }
    let count = file["cases"].as_array().unwrap().len();
    assert_eq!(failing(&minute_late).len(), count);
    let line = failing(&minute_late)[0].to_string();
    let expected = "cases[0] \"gb 2027-01-01 P14D 16:59\": expected 2026-12-18T17:00:00.000Z; got 2026-12-18T16:59:00.000Z";
    assert_eq!(line, expected);

    // A calendar that is closed for ever, or not valid, fails with each of its cases.
    let of_gb = file["cases"].as_array().unwrap().iter().filter(|case| case["calendar"] == "gb").count();
    for (field, value, more, line) in [
        ("hours", json!({}), 1, "calendars.gb.hours: expected at least one opening interval in the week"),
        ("time_zone", json!("Europe/Londinium"), 1, "calendars.gb.time_zone: expected an IANA zone, like Europe/London"),
        ("opens", json!("later"), 1, "calendars.gb.opens: expected"),
    ] {
        let mut wrong = file.clone();
        wrong["calendars"]["gb"][field] = value;
        let failing = failing(&wrong);
        assert_eq!(failing.len(), of_gb + more, "{failing:?}");
        assert!(failing[0].to_string().starts_with(line), "{}", failing[0]);
    }
}

#[test]
fn every_stated_field_of_every_contract_is_judged() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("tests/contracts")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".json") {
            continue;
        }
        let file = read(&format!("tests/contracts/{name}"));
        for (i, answer) in file["answers"].as_array().unwrap().iter().enumerate() {
            for field in ["class", "reason", "floor_s", "pauses"].iter().filter(|field| answer.get(**field).is_some()) {
                let other = match (*field, &answer[field]) {
                    ("class", class) => json!(if *class == "retry" { "dead" } else { "retry" }),
                    ("reason", _) => json!("held"),
                    ("floor_s", floor) => json!(floor.as_u64().map_or(1, |floor| floor + 1)),
                    (_, pauses) => json!(!pauses.as_bool().unwrap()),
                };
                let mut wrong = file.clone();
                wrong["answers"][i][field] = other;
                let failing = failing(&wrong);
                assert_eq!(failing.len(), 1, "{name} {i} {field}");
                assert!(failing[0].which.starts_with(&format!("answers[{i}] ")), "{}", failing[0]);
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "only {seen} fields are stated");
}

#[test]
fn a_wrong_case_ends_the_command_with_1_and_is_named() {
    let mut file = read("tests/cases/retry_after.json");
    file["cases"][0]["floor_s"] = json!(3_601);
    let calendar = std::fs::read_to_string(root().join("tests/cases/calendar.json")).unwrap();
    let folder = folder("wrong", &[("b.json", &file.to_string()), ("a.json", &calendar), ("c.txt", "no case file")]);
    let output = command(&folder);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{lines}");
    assert_eq!(
        lines.lines().collect::<Vec<_>>(),
        [
            "a.json: calendar, 50 cases, 0 failing",
            "b.json cases[0] \"3600\": expected a floor of 3601 s; got a floor of 3600 s",
            "b.json: retry_after, 11 cases, 1 failing",
            "total: 2 files, 61 cases run, 1 failing, 0 files unusable",
        ]
    );
    assert_eq!(command(&root().join("tests/cases")).status.code(), Some(0));
}

#[test]
fn a_file_that_cannot_be_used_ends_the_command_with_1() {
    for (text, why) in [
        ("{", "is no JSON"),
        ("[]", "has no format that is known here"),
        (r#"{"cases": [{"x": 1}]}"#, "has no format that is known here"),
        (r#"{"refuse": []}"#, "holds no case"),
        (r#"{"refuse": "10.0.0.1"}"#, "needs refuse, a list; got a text"),
        (r#"{"refuse": ["10.0.0.1"], "deny": ["::1"]}"#, "has a list \"deny\" that is not known here"),
        (r#"{"calendars": [], "cases": []}"#, "needs calendars, an object; got a list"),
        (r#"{"calendars": {}, "cases": {}}"#, "needs cases, a list; got an object"),
        (r#"{"cases": [{"retry_after": "1", "floor_s": 1}]}"#, "expected now, a text; got nothing"),
        (r#"{"now": "today", "cases": [{"retry_after": "1", "floor_s": 1}]}"#, "needs now, an instant"),
        (r#"{"destination": {}}"#, "answers: missing field"),
        (r#"{"destination": {}, "answers": []}"#, "answers: expected at least one"),
        (r#"{"destination": {}, "answers": [{}], "Now": ""}"#, "Now: unknown field"),
    ] {
        let output = command(&folder("unusable", &[("x.json", text)]));
        let lines = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}: {lines}");
        assert!(lines.starts_with(&format!("x.json: unusable, {why}")), "{text}: {lines}");
        assert_eq!(lines.lines().count(), 2, "{lines}");
    }
    let folder = folder("bytes", &[]);
    std::fs::write(folder.join("x.json"), b"\"\xff\"").unwrap();
    assert_eq!(command(&folder).status.code(), Some(1));
}

#[test]
fn a_folder_without_a_case_file_ends_the_command_with_1() {
    let empty = folder("empty", &[("README.md", "nothing")]);
    std::fs::create_dir(empty.join("folder.json")).unwrap();
    for (folder, what) in [(empty.clone(), "holds no case file"), (empty.join("absent"), "cannot be read")] {
        let output = command(&folder);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(line.contains(what) && line.contains("give a folder with case files"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn malformed_entries_are_failing_cases_with_a_line() {
    let good = "whsec_ijkalhPdPaFJX77OsDrQJa/bZd4UvPuT";
    let signed = |change: Value| {
        let mut case = json!({"secret": good, "webhook_id": "a", "webhook_timestamp": 1, "body": "", "webhook_signature": "",
            "x_signature_256": ""});
        case.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({"cases": [case]})
    };
    let due = |change: Value| {
        let mut case = json!({"calendar": "a", "renewal_date": "2027-01-01", "notice": "P1D", "local_time": "09:00",
            "deliver_after": "2026-12-31T09:00:00.000Z"});
        case.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({"calendars": {"a": {"time_zone": "UTC", "hours": {"thu": [["09:00", "17:00"]]}}}, "cases": [case]})
    };
    let floor = |case: Value| json!({"now": "2026-12-01T09:00:00Z", "cases": [case, {"retry_after": "1", "floor_s": 1}]});
    for (file, line) in [
        (json!({"refuse": [5, "::1"]}), "refuse[0]: expected a text; got another number"),
        (json!({"allow": ["1.2.3", "1.1.1.1"]}), "allow[0] \"1.2.3\": expected an IPv4 or IPv6 address; got another text"),
        (json!({"refuse": ["fe80::1\n"]}), "refuse[0] \"fe80::1\\n\": expected an IPv4 or IPv6 address; got another text"),
        (floor(json!("60")), "cases[0]: expected retry_after, a text; got nothing"),
        (floor(json!({"retry_after": 60, "floor_s": 60})), "cases[0]: expected retry_after, a text; got another number"),
        (floor(json!({"retry_after": "60"})), "cases[0] \"60\": expected floor_s: whole seconds, null,"),
        (floor(json!({"retry_after": "60", "floor_s": -1})), "cases[0] \"60\": expected floor_s: whole seconds, null,"),
        (floor(json!({"retry_after": "60", "floor_s": "never"})), "cases[0] \"60\": expected floor_s: whole seconds, null,"),
        (signed(json!({"secret": null})), "cases[0] \"a\": expected secret, a text; got null"),
        (signed(json!({"secret": "whsec_AAAA"})), "cases[0] \"a\": expected a signing secret; got a signing secret holds"),
        (signed(json!({"webhook_timestamp": "1"})), "cases[0] \"a\": expected webhook_timestamp, a whole number; got a text"),
        (due(json!({"notice": null})), "cases[0] \"a 2027-01-01 ? 09:00\": expected notice, a text; got null"),
        (due(json!({"notice": "PT1H"})), "cases[0] \"a 2027-01-01 PT1H 09:00\": expected notice: an ISO 8601 duration"),
        (due(json!({"calendar": "b"})), "cases[0] \"b 2027-01-01 P1D 09:00\": expected a calendar of this file; got \"b\""),
        (due(json!({"deliver_after": "soon"})), "cases[0] \"a 2027-01-01 P1D 09:00\": expected deliver_after, an instant;"),
        (signed(json!({"webhook_id": 1})), "cases[0]: expected webhook_id, a text; got another number"),
    ] {
        let failing = failing(&file);
        assert_eq!(failing.len(), 1, "{file}: {failing:?}");
        assert!(failing[0].to_string().starts_with(line), "{}", failing[0]);
    }
}

#[test]
fn a_contract_is_read_strictly() {
    let contract = |destination: Value, answer: Value| {
        let mut spec = json!({"id": "acme", "url": "https://hooks.example.com/", "secrets": ["punctual/prod/acme"]});
        spec.as_object_mut().unwrap().extend(destination.as_object().unwrap().clone());
        json!({"destination": spec, "answers": [answer]})
    };
    let good = json!({"status": 200, "class": "delivered"});
    for (file, lines) in [
        (contract(json!({}), good.clone()), vec![]),
        (
            contract(json!({"url": "http://10.0.0.1/", "secrets": ["punctual/dev/acme"]}), good.clone()),
            vec!["destination.url: https only; got http", "destination.secrets[0]: a name below punctual/prod/"],
        ),
        (contract(json!({"clases": {"404": "retry"}}), good.clone()), vec!["destination.clases: unknown field"]),
        (contract(json!({"classes": {"404": "later"}}), good.clone()), vec!["destination.classes.404: expected"]),
        (contract(json!({}), json!({"status": 200})), vec!["answers[0].class: missing field"]),
        (contract(json!({}), json!({"status": 200, "clas": "retry"})), vec!["answers[0].clas: unknown field"]),
        (contract(json!({}), json!({"status": "200", "class": "retry"})), vec!["answers[0].status: expected u16; got a string"]),
        (contract(json!({}), json!({"status": 200, "class": "lost"})), vec!["answers[0].class: expected"]),
        (contract(json!({}), json!({"class": "retry"})), vec!["answers[0]: expected status or failure; got neither"]),
        (
            contract(json!({}), json!({"status": 200, "failure": "cut", "class": "retry"})),
            vec!["answers[0] status 200: expected status or failure; got both"],
        ),
        (contract(json!({}), json!({"status": 600, "class": "dead"})), vec!["answers[0] status 600: expected a status from"]),
        (
            contract(json!({}), json!({"failure": "fire", "class": "dead"})),
            vec!["answers[0] failure \"fire\": expected one of timeout, cut, connect, dns, tls, address_refused"],
        ),
        (contract(json!({}), json!("later")), vec!["answers[0]: expected an object"]),
    ] {
        let failing = failing(&file);
        assert_eq!(failing.len(), lines.len(), "{file}: {:?}", which(&failing));
        for (case, line) in failing.iter().zip(lines) {
            assert!(case.to_string().contains(line), "{case}: {line}");
        }
    }
    let twice = r#"{"destination": {"id": "a", "id": "b"}, "answers": [{"status": 200, "class": "delivered"}]}"#;
    let Outcome::Ran { failing, .. } = judge(twice) else { panic!("not run") };
    assert!(failing[0].to_string().contains("duplicate field `id`"), "{}", failing[0]);
}

#[test]
fn make_cases_without_a_folder_says_how() {
    let make = Command::new("make")
        .args(["-s", "cases"])
        .env_remove("DIR")
        .env_remove("MAKEFLAGS")
        .env_remove("MAKEOVERRIDES")
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8(make.stderr).unwrap();
    assert!(!make.status.success(), "{said}");
    assert_eq!(said.lines().next(), Some("usage: make cases DIR=folder (with case files named *.json)"), "{said}");
}
