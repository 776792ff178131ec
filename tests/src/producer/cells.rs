//! I turn CSV (RFC 4180) into reminders: the first line names the fields, an empty cell is a field that is not given.
//!
//! A column is named by the field's path (`rule.deliver_by.notice`). `payload` holds JSON; or each `payload.<name>` is one text of
//! it, in the order of the columns.

use anyhow::{Result, bail};
use serde_json::value::RawValue;

use super::read::{Entry, Item, Wrong, without_place};

/// The fields of a reminder that are texts, by their paths.
const FIELDS: [&str; 16] = [
    "tenant",
    "subscriber",
    "renewal_period",
    "reminder_kind",
    "destination_id",
    "reference",
    "deliver_after",
    "deliver_by",
    "rule.calendar",
    "rule.renewal_date",
    "rule.notice",
    "rule.local_time",
    "rule.deliver_by.notice",
    "rule.deliver_by.local_time",
    "migrated.delivery_id",
    "migrated.idempotency_key",
];

/// Reads a whole file.
pub(super) fn read(text: &str) -> Result<Vec<Entry>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let columns: Vec<String> = reader.headers()?.iter().map(|name| name.trim().to_owned()).collect();
    check(&columns)?;
    let mut lines = Lines { text, byte: 0, line: 1 };
    let rows = reader.into_records().map(|row| match row {
        Ok(row) => {
            let line = lines.of(row.position());
            reminder(&columns, &row).map(|text| Item { line, text }).map_err(|problem| Wrong { line, problem })
        }
        Err(error) => Err(Wrong { line: lines.of(error.position()), problem: error.to_string() }),
    });
    Ok(rows.collect())
}

/// Counts lines. The parser's own count is one behind after CRLF, and does not see that empty lines were left out.
struct Lines<'t> {
    text: &'t str,
    byte: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line, from 1, in which what the parser found there begins. Positions only grow.
    fn of(&mut self, position: Option<&csv::Position>) -> u64 {
        let from = position.and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or(self.byte);
        let bytes = self.text.as_bytes();
        let begins = bytes.iter().skip(from).take_while(|byte| matches!(byte, b'\r' | b'\n')).count() + from;
        self.line +=
            bytes.get(self.byte..begins).map_or(0, |passed| passed.iter().fold(0, |n, byte| n + u64::from(*byte == b'\n')));
        self.byte = self.byte.max(begins);
        self.line
    }
}

fn check(columns: &[String]) -> Result<()> {
    let part = |name: &str| name.strip_prefix("payload.").is_some_and(|part| !part.is_empty());
    for (n, column) in columns.iter().enumerate() {
        let known = column == "payload" || part(column) || FIELDS.contains(&column.as_str());
        if !known {
            bail!("line 1: column {column:?} is none of payload, payload.<name>, {}", FIELDS.join(", "));
        }
        if columns.iter().take(n).any(|other| other == column) {
            bail!("line 1: column {column:?} is there twice");
        }
    }
    if columns.iter().any(|column| column == "payload") && columns.iter().any(|column| part(column)) {
        bail!("line 1: either the column payload or columns payload.<name>");
    }
    Ok(())
}

/// One row as a JSON object.
fn reminder(columns: &[String], row: &csv::StringRecord) -> Result<String, String> {
    if row.len() != columns.len() {
        return Err(format!("{} cells, as many as line 1 has columns; got {}", columns.len(), row.len()));
    }
    let mut object = Object::default();
    let cells = columns.iter().map(String::as_str).zip(row);
    for (column, cell) in cells.filter(|(_, cell)| !cell.is_empty()) {
        if column == "payload" {
            let raw: &RawValue =
                serde_json::from_str(cell).map_err(|error| format!("payload: JSON; {}", without_place(&error)))?;
            object.put(&["payload"], raw.get().to_owned());
        } else {
            let path: Vec<&str> = match column.strip_prefix("payload.") {
                Some(name) => vec!["payload", name],
                None => column.split('.').collect(),
            };
            object.put(&path, serde_json::Value::from(cell).to_string());
        }
    }
    Ok(object.text())
}

/// A JSON object that keeps the order in which its fields came.
#[derive(Default)]
struct Object(Vec<(String, Field)>);

enum Field {
    Json(String),
    Object(Object),
}

impl Object {
    fn put(&mut self, path: &[&str], json: String) {
        let Some((name, rest)) = path.split_first() else { return };
        if rest.is_empty() {
            self.0.push(((*name).to_owned(), Field::Json(json)));
            return;
        }
        for (known, field) in &mut self.0 {
            if let (true, Field::Object(inner)) = (known == name, field) {
                return inner.put(rest, json);
            }
        }
        let mut inner = Self::default();
        inner.put(rest, json);
        self.0.push(((*name).to_owned(), Field::Object(inner)));
    }

    fn text(&self) -> String {
        let field = |(name, field): &(String, Field)| {
            let text = match field {
                Field::Json(text) => text.clone(),
                Field::Object(object) => object.text(),
            };
            format!("{}:{text}", serde_json::Value::from(name.as_str()))
        };
        format!("{{{}}}", self.0.iter().map(field).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_reminder_and_an_empty_cell_is_not_given() {
        let file = "tenant,rule.calendar,rule.deliver_by.notice,deliver_by,payload.b,payload.a\r\n\
                    acme,uk,10BD,,\"He said \"\"no\"\",\nthen left\",1\n\nacme,,,2027-01-01T00:00:00Z,,\n";
        let read = read(file).expect("columns");
        let first = r#"{"tenant":"acme","rule":{"calendar":"uk","deliver_by":{"notice":"10BD"}},"payload":{"b":"He said \"no\",\nthen left","a":"1"}}"#;
        assert_eq!(read[0], Ok(Item { line: 2, text: first.into() }));
        let second = r#"{"tenant":"acme","deliver_by":"2027-01-01T00:00:00Z"}"#;
        assert_eq!(read[1..], [Ok(Item { line: 5, text: second.into() })]);
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_column() {
        let read = read("tenant,payload\nacme,\"{\"\"n\"\": 1.50}\"\nacme,{\nacme\n").expect("columns");
        assert_eq!(read[0], Ok(Item { line: 2, text: r#"{"tenant":"acme","payload":{"n": 1.50}}"#.into() }));
        let problem = "payload: JSON; EOF while parsing an object".into();
        assert_eq!(read[1], Err(Wrong { line: 3, problem }));
        assert_eq!(read[2], Err(Wrong { line: 4, problem: "2 cells, as many as line 1 has columns; got 1".into() }));
        for (columns, problem) in [
            ("tenant,tennant\n", "line 1: column \"tennant\" is none of payload"),
            ("tenant,tenant\n", "line 1: column \"tenant\" is there twice"),
            ("payload,payload.n\n", "line 1: either the column payload or"),
        ] {
            let error = super::read(columns).expect_err("refused").to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
