//! What came out: a table with small bars for people, one key per scenario for programs.

use serde_json::{Map, Value, json};

/// One measured figure with its goal.
pub struct ReportRow {
    pub key: String,
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
    /// The same on the floor, where there is one.
    pub floor: Option<f64>,
    pub goal: Goal,
    pub note: String,
}

#[derive(Clone, Copy)]
pub enum Goal {
    /// `value / floor` at most.
    Times(f64),
    /// `value / floor` at least.
    Share(f64),
    /// The value at most.
    Most(f64),
    /// Only looked at.
    None,
}

impl ReportRow {
    /// Without a floor, only looked at.
    pub fn new(
        key: impl Into<String>,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Self {
        let (key, what, note) = (key.into(), what.into(), String::new());
        Self { key, what, value, unit, floor: None, goal: Goal::None, note }
    }

    pub fn floor(self, floor: f64) -> Self {
        Self { floor: Some(floor), ..self }
    }

    pub fn goal(self, goal: Goal) -> Self {
        Self { goal, ..self }
    }

    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    pub fn ratio(&self) -> Option<f64> {
        self.floor.map(|floor| self.value / floor)
    }

    pub fn ok(&self) -> Option<bool> {
        match self.goal {
            Goal::Times(most) => self.ratio().map(|ratio| ratio <= most),
            Goal::Share(least) => self.ratio().map(|ratio| ratio >= least),
            Goal::Most(most) => Some(self.value <= most),
            Goal::None => None,
        }
    }

    fn goal_text(&self) -> String {
        match self.goal {
            Goal::Times(most) => format!("≤ {most}× floor"),
            Goal::Share(least) => format!("≥ {:.0} % of floor", least * 100.0),
            Goal::Most(most) => format!("≤ {most} {}", self.unit),
            Goal::None => String::new(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "what": self.what, "value": rounded(self.value), "unit": self.unit,
            "floor": self.floor.map(rounded), "ratio": self.ratio().map(rounded),
            "goal": self.goal_text(), "ok": self.ok(), "note": self.note,
        })
    }
}

pub fn json(rows: &[ReportRow]) -> Value {
    Value::Object(rows.iter().map(|row| (row.key.clone(), row.to_json())).collect::<Map<_, _>>())
}

pub fn text(rows: &[ReportRow]) -> String {
    let mut out = String::new();
    let head = ["scenario", "value", "floor", "ratio", "goal", "", "of goal"];
    let mut table: Vec<Vec<String>> = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        table.push(vec![
            row.what.clone(),
            format!("{} {}", short(row.value), row.unit),
            row.floor.map(|floor| format!("{} {}", short(floor), row.unit)).unwrap_or_default(),
            row.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            row.goal_text(),
            match row.ok() {
                Some(true) => "ok".to_owned(),
                Some(false) => "MISS".to_owned(),
                None => "–".to_owned(),
            },
            bar(row),
        ]);
    }
    let widths: Vec<usize> = (0..head.len())
        .map(|at| table.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
        .collect();
    for line in &table {
        for (cell, width) in line.iter().zip(&widths) {
            let pad = width - cell.chars().count();
            out.push_str(cell);
            out.push_str(&" ".repeat(pad + 2));
        }
        out = out.trim_end().to_owned();
        out.push('\n');
    }
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        out.push_str(&format!("  {}: {}\n", row.key, row.note));
    }
    out
}

/// How much of the goal is used up: a full bar of ten is the goal itself.
fn bar(row: &ReportRow) -> String {
    let used = match row.goal {
        Goal::Times(most) => row.ratio().map(|ratio| ratio / most),
        Goal::Share(least) => row.ratio().map(|ratio| least / ratio),
        Goal::Most(most) => Some(row.value / most),
        Goal::None => None,
    };
    let Some(used) = used.filter(|used| used.is_finite()) else { return String::new() };
    let full = (used * 10.0).round().clamp(0.0, 20.0) as usize;
    format!("{}{}", "█".repeat(full), "·".repeat(10_usize.saturating_sub(full)))
}

fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64, floor: Option<f64>, goal: Goal) -> ReportRow {
        ReportRow { floor, ..ReportRow::new("k", "w", value, "ms").goal(goal) }
    }

    #[test]
    fn goals() {
        let cases = [
            (row(2.0, Some(1.0), Goal::Times(2.0)), Some(true)),
            (row(2.1, Some(1.0), Goal::Times(2.0)), Some(false)),
            (row(50.0, Some(100.0), Goal::Share(0.5)), Some(true)),
            (row(49.0, Some(100.0), Goal::Share(0.5)), Some(false)),
            (row(15.0, None, Goal::Most(15.0)), Some(true)),
            (row(16.0, None, Goal::Most(15.0)), Some(false)),
            (row(16.0, None, Goal::None), None),
            (row(1.0, None, Goal::Times(2.0)), None),
        ];
        for (row, expected) in cases {
            assert_eq!(row.ok(), expected, "{}", row.goal_text());
        }
    }

    #[test]
    fn one_key_per_scenario() {
        let json = json(&[row(3.0, Some(2.0), Goal::Times(2.0))]);
        assert_eq!(json["k"]["ratio"], 1.5);
        assert_eq!(json["k"]["ok"], true);
        assert!(text(&[row(3.0, Some(2.0), Goal::Times(2.0))]).contains("≤ 2× floor"));
    }
}
