//! One connection, spoken to in our own words: `Value` in, `Row` out, `SqlError` when it fails.
//! Commands and queries know nothing else of the database behind it.

use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments, Connection, Row as _, SqlSafeStr};

use crate::dialect;
use crate::error::{SqlError, SqlKind};

/// An argument of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

pub enum Conn {
    Sqlite(SqliteConnection),
}

impl Conn {
    /// Runs a statement for its effect; answers how many rows it changed.
    pub async fn run(&mut self, sql: &'static str, args: &[Value<'_>]) -> Result<u64, SqlError> {
        #[cfg(test)]
        seen::note(sql);
        let Self::Sqlite(connection) = self;
        let query = sqlx::query_with(sql, bind(args)?);
        let done = query.execute(connection).await.map_err(dialect::sql_error)?;
        Ok(done.rows_affected())
    }

    /// The first row. The statement runs to its end all the same: a `RETURNING` cut short would
    /// skip its constraint checks.
    pub async fn row(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
    ) -> Result<Option<Row>, SqlError> {
        #[cfg(test)]
        seen::note(sql);
        let Self::Sqlite(connection) = self;
        let query = sqlx::query_with(sql, bind(args)?);
        let mut rows = query.fetch(connection);
        let mut first = None;
        while let Some(row) = rows.try_next().await.map_err(dialect::sql_error)? {
            first = first.or(Some(Row(row)));
        }
        Ok(first)
    }

    pub async fn rows(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
    ) -> Result<Vec<Row>, SqlError> {
        #[cfg(test)]
        seen::note(sql);
        let Self::Sqlite(connection) = self;
        let query = sqlx::query_with(sql, bind(args)?);
        let rows = query.fetch_all(connection).await.map_err(dialect::sql_error)?;
        Ok(rows.into_iter().map(Row).collect())
    }

    /// Runs statements that take no arguments and are used once, without keeping them prepared.
    pub(crate) async fn run_once(&mut self, sql: &'static str) -> Result<(), SqlError> {
        let Self::Sqlite(connection) = self;
        let statements = sqlx::raw_sql(sql.into_sql_str());
        statements.execute(connection).await.map_err(dialect::sql_error)?;
        Ok(())
    }

    /// Closes in order. Dropping a connection closes it too, on its own thread, at its leisure.
    pub(crate) async fn close(self) -> Result<(), SqlError> {
        let Self::Sqlite(connection) = self;
        connection.close().await.map_err(dialect::sql_error)
    }
}

fn bind(args: &[Value<'_>]) -> Result<SqliteArguments, SqlError> {
    let mut bound = SqliteArguments::default();
    bound.reserve(args.len(), 0);
    for arg in args {
        match *arg {
            Value::Null => bound.add(None::<i64>),
            Value::Int(value) => bound.add(value),
            Value::Text(value) => bound.add(value),
            Value::Blob(value) => bound.add(value),
        }
        .map_err(|error| SqlError::new(SqlKind::Other, error.to_string()))?;
    }
    Ok(bound)
}

/// One row of an answer; columns are read by position.
pub struct Row(SqliteRow);

impl Row {
    pub fn int(&self, column: usize) -> Result<i64, SqlError> {
        self.required(column, self.int_opt(column)?)
    }

    pub fn int_opt(&self, column: usize) -> Result<Option<i64>, SqlError> {
        self.0.try_get(column).map_err(dialect::sql_error)
    }

    pub fn bool(&self, column: usize) -> Result<bool, SqlError> {
        Ok(self.int(column)? != 0)
    }

    pub fn text(&self, column: usize) -> Result<String, SqlError> {
        self.required(column, self.text_opt(column)?)
    }

    pub fn text_opt(&self, column: usize) -> Result<Option<String>, SqlError> {
        self.0.try_get(column).map_err(dialect::sql_error)
    }

    pub fn blob(&self, column: usize) -> Result<Vec<u8>, SqlError> {
        self.required(column, self.blob_opt(column)?)
    }

    pub fn blob_opt(&self, column: usize) -> Result<Option<Vec<u8>>, SqlError> {
        self.0.try_get(column).map_err(dialect::sql_error)
    }

    fn required<T>(&self, column: usize, value: Option<T>) -> Result<T, SqlError> {
        value.ok_or_else(|| SqlError::decode(format!("column {column} is null")))
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Blob(value)
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(value: &'a Vec<u8>) -> Self {
        Self::Blob(value)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<'a> From<&'a Option<String>> for Value<'a> {
    fn from(value: &'a Option<String>) -> Self {
        value.as_deref().into()
    }
}

/// Every statement this thread ran: tests look at their plans.
#[cfg(test)]
pub(crate) mod seen {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static STATEMENTS: RefCell<BTreeSet<&'static str>> = RefCell::default();
    }

    pub(super) fn note(sql: &'static str) {
        STATEMENTS.with_borrow_mut(|seen| seen.insert(sql));
    }

    pub(crate) fn statements() -> BTreeSet<&'static str> {
        STATEMENTS.take()
    }
}
