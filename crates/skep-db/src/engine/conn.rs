//! One connection, spoken to in our own words: `Value` in, `Row` out, `SqlError` when it fails.
//! Commands and queries know nothing else of the database behind it.
//!
//! SQLite answers in the calling thread, so none of these futures ever waits for anything. A
//! statement that crossed to a thread of the driver and back cost more than the statement itself;
//! whoever may hang on a disk (the writer, the checkpointer) owns a thread instead.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::OnceLock;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};

use crate::engine::dialect;
use crate::engine::error::SqlError;
use crate::engine::record::{Column, Record};

/// A page of what is told again from rows: so many rows, or so many bytes where that is less.
pub const PAGE_ROWS: u32 = 64;
const PAGE_BYTES: usize = 64 * 1024;

/// An argument of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

/// Told of every statement before it runs, with the path of its database.
type Observer = fn(Option<&str>, &'static str);

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Has every statement of this process told to `observe`; the first one who asks is heard. Tests
/// look at the plans of what ran.
pub fn observe_statements(observe: Observer) {
    OBSERVER.get_or_init(|| observe);
}

pub enum Conn {
    Sqlite(Connection),
}

impl Conn {
    /// Runs a statement for its effect; answers how many rows it changed.
    pub async fn run(&mut self, sql: &'static str, args: &[Value<'_>]) -> Result<u64, SqlError> {
        self.each(sql, args, |_| Ok(()))?;
        let Self::Sqlite(connection) = self;
        Ok(connection.changes())
    }

    /// The first row. The statement runs to its end all the same: a `RETURNING` cut short would
    /// skip its constraint checks.
    pub async fn row(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
    ) -> Result<Option<Row>, SqlError> {
        let mut first = None;
        self.each(sql, args, |row| {
            if first.is_none() {
                first = Some(Row::read(row)?);
            }
            Ok(())
        })?;
        Ok(first)
    }

    pub async fn rows(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
    ) -> Result<Vec<Row>, SqlError> {
        let mut all = Vec::new();
        self.each(sql, args, |row| {
            all.push(Row::read(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The first row, read.
    pub async fn find<T: Record>(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
    ) -> Result<Option<T>, SqlError> {
        self.row(sql, args).await?.map(T::of).transpose()
    }

    /// The row that has to be there; `gone` says what is wrong where it is not.
    pub async fn one<T: Record>(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
        gone: &str,
    ) -> Result<T, SqlError> {
        self.find(sql, args).await?.ok_or_else(|| SqlError::decode(gone))
    }

    /// Every row, read.
    pub async fn list<T: Record>(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
    ) -> Result<Vec<T>, SqlError> {
        let mut all = Vec::new();
        self.each(sql, args, |row| {
            all.push(T::of(Row::read(row)?)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Rows up to [`PAGE_BYTES`] together, and always the first.
    pub async fn page<T: Record>(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
    ) -> Result<Vec<T>, SqlError> {
        let (mut page, mut held) = (Vec::new(), 0);
        self.each_until(sql, args, |row| {
            held += bytes_of(row)?;
            if held > PAGE_BYTES && !page.is_empty() {
                return Ok(ControlFlow::Break(()));
            }
            page.push(T::of(Row::read(row)?)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(page)
    }

    /// Every row as it lies in the database's own memory.
    pub async fn each_row(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
        mut take: impl FnMut(Cells<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        self.each(sql, args, |row| take(Cells(row)))
    }

    fn each(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
        mut take: impl FnMut(&rusqlite::Row<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        self.each_until(sql, args, |row| take(row).map(ControlFlow::Continue))
    }

    fn each_until(
        &mut self,
        sql: &'static str,
        args: &[Value<'_>],
        mut take: impl FnMut(&rusqlite::Row<'_>) -> Result<ControlFlow<()>, SqlError>,
    ) -> Result<(), SqlError> {
        let Self::Sqlite(connection) = self;
        if let Some(observe) = OBSERVER.get() {
            observe(connection.path(), sql);
        }
        let mut statement = connection.prepare_cached(sql).map_err(dialect::sql_error)?;
        let places = places(sql, &statement);
        for (at, number) in (1..).zip(places.iter()) {
            let value = number.checked_sub(1).and_then(|number| args.get(number));
            let value = value.ok_or_else(|| SqlError::decode(format!("no value {at}: {sql}")))?;
            statement.raw_bind_parameter(at, value).map_err(dialect::sql_error)?;
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(dialect::sql_error)? {
            if take(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Rows changed on this connection so far.
    pub(crate) fn changes(&self) -> u64 {
        let Self::Sqlite(connection) = self;
        connection.total_changes()
    }

    /// Runs statements that take no arguments and are used once, without keeping them prepared.
    pub(crate) async fn run_once(&mut self, sql: &str) -> Result<(), SqlError> {
        let Self::Sqlite(connection) = self;
        connection.execute_batch(sql).map_err(dialect::sql_error)
    }

    /// Closes in order, and says how it went. Dropping a connection closes it too.
    pub(crate) async fn close(self) -> Result<(), SqlError> {
        let Self::Sqlite(connection) = self;
        connection.close().map_err(|(_, error)| dialect::sql_error(error))
    }
}

thread_local! {
    /// The address of the text is the key: statements are static.
    static PLACES: RefCell<HashMap<Text, Rc<[usize]>>> = RefCell::default();
}

/// Where a statement's text lies, and how long it is.
type Text = (usize, usize);

/// Which of the values given stands at each place of a statement: `$3` is the third, wherever it
/// stands. 0 where the name says nothing.
fn places(sql: &'static str, statement: &Statement<'_>) -> Rc<[usize]> {
    let number = |at| {
        let name = statement.parameter_name(at)?;
        name.strip_prefix('$')?.parse().ok()
    };
    let key = (sql.as_ptr().addr(), sql.len());
    PLACES.with_borrow_mut(|known| {
        let places = known.entry(key).or_insert_with(|| {
            (1..=statement.parameter_count()).map(|at| number(at).unwrap_or(0)).collect()
        });
        Rc::clone(places)
    })
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

/// A row that is not taken out of the database's memory.
pub struct Cells<'a>(&'a rusqlite::Row<'a>);

impl<'a> Cells<'a> {
    pub fn int(&self, column: usize) -> Result<i64, SqlError> {
        match self.0.get_ref(column).map_err(dialect::sql_error)? {
            ValueRef::Integer(value) => Ok(value),
            _ => Err(wrong(column, "a number")),
        }
    }

    pub fn text(&self, column: usize) -> Result<&'a str, SqlError> {
        let value = self.0.get_ref(column).map_err(dialect::sql_error)?;
        value.as_str().map_err(|_| wrong(column, "text in UTF-8"))
    }
}

/// One row of an answer; columns are read by position.
pub struct Row(Box<[Cell]>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
    /// The schema has none; a sum may overflow into one.
    Real,
}

impl Cell {
    pub(crate) fn to_value(&self) -> Value<'_> {
        match self {
            Self::Null | Self::Real => Value::Null,
            Self::Int(value) => Value::Int(*value),
            Self::Text(text) => Value::Text(text),
            Self::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

impl Row {
    fn read(row: &rusqlite::Row<'_>) -> Result<Self, SqlError> {
        let columns = row.as_ref().column_count();
        let cells = (0..columns).map(|at| {
            Ok(match row.get_ref(at).map_err(dialect::sql_error)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(value) => Cell::Int(value),
                ValueRef::Real(_) => Cell::Real,
                ValueRef::Text(text) => match std::str::from_utf8(text) {
                    Ok(text) => Cell::Text(text.to_owned()),
                    Err(_) => return Err(wrong(at, "text in UTF-8")),
                },
                ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
            })
        });
        Ok(Self(cells.collect::<Result<_, SqlError>>()?))
    }

    pub(crate) fn from_cells(cells: Vec<Cell>) -> Self {
        Self(cells.into())
    }

    pub(crate) fn into_cells(self) -> Vec<Cell> {
        self.0.into_vec()
    }

    /// One column.
    pub fn get<T: Column>(&self, column: usize) -> Result<T, SqlError> {
        let cell = self.0.get(column).cloned();
        let cell = cell.ok_or_else(|| SqlError::decode(format!("there is no column {column}")))?;
        T::from_cell(cell).ok_or_else(|| wrong(column, std::any::type_name::<T>()))
    }

    pub fn int(&self, column: usize) -> Result<i64, SqlError> {
        self.get(column)
    }

    pub fn text(&self, column: usize) -> Result<String, SqlError> {
        self.get(column)
    }
}

fn bytes_of(row: &rusqlite::Row<'_>) -> Result<usize, SqlError> {
    let bytes = (0..row.as_ref().column_count()).map(|at| {
        Ok(match row.get_ref(at).map_err(dialect::sql_error)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
        })
    });
    bytes.sum()
}

fn wrong(column: usize, wanted: &str) -> SqlError {
    SqlError::decode(format!("column {column} is not {wanted}"))
}
