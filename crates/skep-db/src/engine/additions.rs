//! Rows of sums: what the commands of a batch add to the same row is written once for all of them.

use crate::engine::conn::{Cell, Conn, Value};
use crate::engine::error::SqlError;

/// What one command adds to one row. Its statement is given the key, the sums and `newest`.
#[derive(Clone, Debug)]
pub struct Addition {
    pub sql: &'static str,
    pub key: Vec<Cell>,
    pub sums: Vec<i64>,
    /// A number that is not added: the last one given counts.
    pub newest: Option<i64>,
}

impl Addition {
    fn is_of(&self, other: &Self) -> bool {
        std::ptr::eq(self.sql, other.sql) && self.key == other.key
    }

    fn take_in(&mut self, later: Self) {
        for (sum, more) in self.sums.iter_mut().zip(later.sums) {
            *sum = sum.saturating_add(more);
        }
        self.newest = later.newest.or(self.newest);
    }

    pub async fn write(&self, conn: &mut Conn) -> Result<(), SqlError> {
        let key = self.key.iter().map(Cell::to_value);
        let sums = self.sums.iter().map(|sum| Value::Int(*sum));
        let newest = self.newest.map_or(Value::Null, Value::Int);
        let args: Vec<Value<'_>> = key.chain(sums).chain([newest]).collect();
        conn.run(self.sql, &args).await.map(drop)
    }
}

/// One addition for each row, in the order in which they were first asked for.
pub(crate) fn joined(additions: impl Iterator<Item = Addition>) -> Vec<Addition> {
    let mut rows: Vec<Addition> = Vec::new();
    for addition in additions {
        match rows.iter_mut().find(|row| row.is_of(&addition)) {
            Some(row) => row.take_in(addition),
            None => rows.push(addition),
        }
    }
    rows
}
